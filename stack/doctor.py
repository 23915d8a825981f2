"""What this machine has and lacks: every needed part, what was found, what is needed, the command that mends it.

Nothing is installed or started here. A part that only some uses need is a "note" when it is missing, not a fault.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

from ..schemas.errors import MetajournalError
from ..schemas.setting_keys import hidden_texts
from ..schemas.settings import Settings
from .java import find_java
from .parts import GROUPS, known_parts, parts_in
from .places import cache_folder
from .ports import free_ports
from .privilege import unprivileged
from .reach import ANSWERS, endpoint, words
from .unserved import unserved_here
from .versions import EXTRAS, JAVA_MINIMUM, PYTHON_MINIMUM

Verdict = Literal["fine", "note", "missing", "wrong"]
_DISK_GB: Final = 2.0
_INSTALL_JARS: Final = "python -m metajournal.stack.jars"


@dataclass(frozen=True, slots=True)
class Check:
    """One part."""

    part: str
    found: str
    needed: str
    verdict: Verdict
    mend: str = ""
    """The command that mends it; empty when nothing is wrong."""

    @property
    def fine(self) -> bool:
        return self.verdict in ("fine", "note")


def doctor(settings: Settings, home: Path) -> list[Check]:
    """Look at every part.

    Args:
        settings: name the services to be reached.
        home: folder of the services' data.
    """
    return [*_languages(), *_packages(), *_downloads(), _privilege(), *_space(home), _ports(), *_services(settings)]


def _languages() -> Iterator[Check]:
    wanted = ".".join(map(str, PYTHON_MINIMUM))
    good = sys.version_info >= PYTHON_MINIMUM
    mend = f"create the virtual environment with Python {wanted} or newer"
    yield Check("Python", platform.python_version(), f"{wanted} or newer", _verdict(good), "" if good else mend)
    needed = f"{JAVA_MINIMUM} or newer, for the stream and the services on this machine"
    try:
        java = find_java()
    except MetajournalError as error:
        yield Check("Java", str(error), needed, "missing", error.hint)
    else:
        yield Check("Java", f"{java.version} ({java.executable})", needed, "fine")


def _packages() -> Iterator[Check]:
    ranges = _ranges()
    for extra, names in EXTRAS.items():
        mend = f"pip install 'metajournal[{extra}]'" if extra else "pip install metajournal"
        for name in names:
            part = f"{name} (extra {extra})" if extra else name
            needed = ranges.get(name, "any")
            try:
                installed = version(name)
            except PackageNotFoundError:
                yield Check(part, "not installed", needed, "note" if extra else "missing", mend)
                continue
            good = _satisfies(installed, needed)
            yield Check(part, installed, needed, _verdict(good), "" if good else mend)


def _ranges() -> dict[str, str]:
    """The ranges of this installation's own requirements, by distribution."""
    ranges = {}
    for line in requires("metajournal") or []:
        requirement = line.partition(";")[0].strip()
        name = requirement
        for sign in "[<>=!~ ":
            name = name.partition(sign)[0]
        ranges[name] = requirement.removeprefix(name).strip()
    return ranges


def _satisfies(installed: str, needed: str) -> bool:
    """Whether a version lies in a range of >=, <=, <, > and ==."""
    compare: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
        ">=": lambda a, b: a >= b,
        "<=": lambda a, b: a <= b,
        "==": lambda a, b: a == b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
    }
    for clause in filter(None, needed.split(",")):
        sign = next((operator for operator in compare if clause.startswith(operator)), None)
        if sign is not None and not compare[sign](_numbers(installed), _numbers(clause.removeprefix(sign))):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    """The release as numbers of equal length, so that 19 and 19.0 are the same."""
    digits = [int(part) for part in text.strip().split(".")[:4] if part.isdigit()]
    return tuple(digits + [0] * (4 - len(digits)))


def _downloads() -> Iterator[Check]:
    parts = parts_in(cache_folder())
    for group in GROUPS:
        files = known_parts((group,))
        needed = f"{len(files)} files, {sum(part.size_bytes for part in files) / 1e6:.0f} MB"
        label = "Elasticsearch zip" if group == "elasticsearch" else f"{group.capitalize()} jars"
        if parts.complete(group):
            yield Check(label, "all, in the download cache", needed, "fine")
        else:
            yield Check(label, "not downloaded yet", needed, "note", _INSTALL_JARS)


def _privilege() -> Check:
    needed = "Elasticsearch on this machine must not run as root"
    try:
        return Check("unprivileged start", unprivileged().way, needed, "fine")
    except MetajournalError as error:
        return Check("unprivileged start", str(error), needed, "wrong", error.hint)


def _space(home: Path) -> Iterator[Check]:
    for label, folder in (("disk of the download cache", cache_folder()), ("disk of the data", home)):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free / 1e9
        good = free >= _DISK_GB
        mend = "" if good else f"free some space on the disk of {there}"
        yield Check(label, f"{free:.1f} GB free ({folder})", f"{_DISK_GB:.0f} GB", _verdict(good), mend)


def _ports() -> Check:
    needed = "six free ports on 127.0.0.1"
    try:
        free_ports(6)
    except OSError as error:
        return Check("ports", str(error), needed, "wrong", "allow this user to open sockets on 127.0.0.1")
    return Check("ports", "can be bound", needed, "fine")


def _services(settings: Settings) -> Iterator[Check]:
    hidden = hidden_texts(settings)
    for name, ask in ANSWERS.items():
        yield _reach(name.capitalize(), endpoint(name, settings), partial(ask, settings), hidden)
    yield from _domains(settings)


def _domains(settings: Settings) -> Iterator[Check]:
    """Domains that the journal could serve and does not, or that are refused; nothing where no journal answers."""
    needed = "every domain of this version is served"
    for name, why, mend in unserved_here(settings):
        yield Check(f"domain {name}", why, needed, "wrong", mend)


def _reach(name: str, where: str, ask: Callable[[], str], hidden: Sequence[str]) -> Check:
    """A service that nobody has started yet is a note: `up` starts one."""
    try:
        return Check(name, f"{ask()} at {where}", "an answer", "fine")
    except Exception as error:
        return Check(name, f"no answer at {where}: {words(error, hidden)}", "an answer", "note", "metajournal up")


def _verdict(good: bool) -> Verdict:
    return "fine" if good else "wrong"
