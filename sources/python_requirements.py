"""The requirements of the running Python environment as lineage: building a distribution reads what it requires.

Building is a run `run:python/build/workflow/<distribution>/<version>`: it writes the distribution's dataset and reads
the dataset of each requirement. Its times are those of the installed metadata, so whoever tells the same environment
again tells nothing new.

Which requirements count: markers are evaluated for this interpreter and machine. An extra counts where a requirement
that counts asks for it (`fastapi` for `uvicorn[standard]`); which extras a person asked an installer for is written
nowhere, so these do not count. What is required and not installed is left out: nothing was there to be read. What
cannot be parsed is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement

from ..domains.catalog.urns import dataset, run
from ..domains.lineage.events import (
    LATEST_AT_MS,
    READ,
    WRITE,
    Access,
    AccessesRecorded,
    RunStarted,
    RunStopped,
)
from ..schemas.limits import MAX_ENTRIES
from ..schemas.urn import Urn
from .python_environment import NAMESPACE, Installed, canonical_name

APP: Final = "build"
STATUS: Final = "installed"
_LONGEST: Final = 120
"""Characters of a name or version in a run's URN, each of which may take nine bytes there."""
_KEPT: Final = MAX_ENTRIES - 1  # and the write

Fact = RunStarted | AccessesRecorded | RunStopped


def requirements(installed: Mapping[str, Installed]) -> dict[str, tuple[str, ...]]:
    """The installed distributions that each installed distribution requires, by canonical name, sorted.

    Args:
        installed: as `python_environment.installed` gives them.
    """
    required: dict[str, set[str]] = {name: set() for name in installed}
    seen: set[tuple[str, str]] = {(name, "") for name in installed}  # the extra "" is what is always required
    waiting = sorted(seen)
    while waiting:
        name, extra = waiting.pop()
        for requirement in _required(installed[name], extra):
            other = canonical_name(requirement.name)
            if other not in installed:
                continue
            required[name].add(other)
            new = {(other, canonical_name(further)) for further in requirement.extras} - seen
            seen |= new
            waiting += sorted(new)
    return {name: tuple(sorted(others - {name})) for name, others in required.items()}


def building(dist: Installed, required: tuple[str, ...]) -> tuple[Fact, ...]:
    """The facts of one building: it began, what it read and wrote, it ended."""
    began, ended = _times_ms(dist)
    its = run_of(dist)
    reads = [Access(dataset(NAMESPACE, other), READ, ended) for other in required[:_KEPT]]
    wrote = Access(dataset(NAMESPACE, dist.canonical), WRITE, ended)
    return RunStarted(its, began), AccessesRecorded(its, [*reads, wrote]), RunStopped(its, ended, STATUS)


def run_of(dist: Installed) -> Urn:
    """The run that built a distribution."""
    version = dist.properties.get("version", "")[:_LONGEST] or "unknown"
    return run(NAMESPACE, APP, "workflow", dist.canonical[:_LONGEST], version)


def _required(dist: Installed, extra: str) -> Iterator[Requirement]:
    """What a distribution requires because of an extra: of "" what it always requires."""
    for text in dist.properties.get("requires-dist", "").split("\n"):
        parsed = _parsed(text)
        if parsed is not None and _counts(parsed, extra):
            yield parsed


def _counts(requirement: Requirement, extra: str) -> bool:
    marker: Any = requirement.marker
    if marker is None:
        return extra == ""
    try:
        return bool(marker.evaluate({"extra": extra}))
    except ValueError:  # a marker that compares what cannot be compared
        return False


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text) if text else None
    except InvalidRequirement:
        return None


def _times_ms(dist: Installed) -> tuple[int, int]:
    """When the first and the last file of its metadata was written, milliseconds UTC."""
    folder = Path(str(getattr(dist.distribution, "_path", "")))
    times = []
    for file in [folder, *(folder / name for name in ("METADATA", "PKG-INFO", "RECORD", "INSTALLER"))]:
        try:
            times.append(min(max(file.stat().st_mtime_ns // 1_000_000, 0), LATEST_AT_MS))
        except OSError:
            continue
    return (min(times), max(times)) if times else (0, 0)
