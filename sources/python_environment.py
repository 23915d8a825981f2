"""The running Python environment as events: one registered dataset for each installed distribution.

A dataset `dataset:python/<canonical name>` carries the distribution's metadata headers and installer as properties,
its keywords, topics and licence as tags, its modules as schema, its long description (else the summary) as description.

Its files and requirements are `python_files`' and `python_requirements`'.

Left to whom: which events are *valid* is `schemas`' business; here everything is brought within its limits beforehand,
and what was cut says so. Nothing is emitted here, the caller does that.

Invariant: the same files give the same events in the same order. Metadata that is damaged gives a poorer event, never
an error; of two distributions of one name the first on the path wins, as `import` does it.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from itertools import count
from pathlib import Path, PurePosixPath

from ..domains.catalog.events import EntityRegistered
from ..domains.catalog.urns import dataset
from ..schemas.errors import InvalidUrnError
from ..schemas.hashing import canonical_json
from ..schemas.limits import MAX_ENTITY_BYTES, MAX_ENTRIES

NAMESPACE = "python"
EVENT_BUDGET_BYTES = MAX_ENTITY_BYTES * 3 // 4  # room for later annotations of the same entity
TEXT_CHARS = 65_536  # of the description and of each value; pandas brings a licence of 60,885
HEADER_KINDS = 64  # different headers kept of one distribution; the core metadata standard knows about thirty
TAG_CHARS = 64  # a longer "keyword" is a sentence, not a tag
TAGS = 100
MODULES = MAX_ENTRIES
IMPORT_ORDER = ("package", "extension", "module")  # what `import` takes where one name is several of them
SEPARATOR = "\n"  # joins the values of a header that stands several times; no header value contains it

_CUT_MARK = " … [cut: {kept:,} of {total:,} characters kept]"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def python_environment(path: Sequence[str] | None = None) -> list[EntityRegistered]:
    """Describe every distribution installed on a module search path.

    Args:
        path: folders (and zip files) as in `sys.path`, which is the default.
    Returns:
        One `EntityRegistered` for each distribution, ordered by canonical name.
    """
    return [dist.event() for dist in installed(path).values()]


def installed(path: Sequence[str] | None = None) -> dict[str, Installed]:
    """Every distribution on a module search path by canonical name, in the order of these names.

    Args:
        path: as `python_environment` takes it.
    """
    by_name: dict[str, Installed] = {}
    for dist in _installed(sys.path if path is None else path):
        by_name.setdefault(dist.canonical, dist)
    return dict(sorted(by_name.items()))


def canonical_name(name: str) -> str:
    """The one spelling of a distribution's name that installers compare by.

    Source: Python packaging's name normalization (PEP 503).
    """
    return re.sub(r"[-_.]+", "-", name).strip("-").lower()


def _installed(path: Iterable[str]) -> Iterator[Installed]:
    """Distributions in the order of the path; within one folder by the name of their metadata folder."""
    for entry in path:
        context = DistributionFinder.Context(path=[entry])
        here = [Installed.read(dist) for dist in MetadataPathFinder.find_distributions(context)]
        yield from sorted((dist for dist in here if dist.nameable), key=lambda dist: (dist.canonical, dist.folder))


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution as its files describe it, before anything is cut."""

    canonical: str
    folder: str  # name of its metadata folder or file
    properties: dict[str, str]
    tags: tuple[str, ...]
    modules: tuple[tuple[str, str], ...]
    description: str
    distribution: Distribution = field(compare=False, repr=False)

    @property
    def record(self) -> list[PurePosixPath]:
        """The files that its RECORD names, as they stand there; none where there is no RECORD or a damaged one."""
        return _record(self.distribution)

    @property
    def nameable(self) -> bool:
        """Whether a URN can hold its name; what has none, or one of a thousand characters, is left out."""
        try:
            return bool(dataset(NAMESPACE, self.canonical))
        except InvalidUrnError:
            return False

    @classmethod
    def read(cls, distribution: Distribution) -> Installed:
        folder = PurePosixPath(str(getattr(distribution, "_path", ""))).name
        text = next((t for name in ("METADATA", "PKG-INFO", "") if (t := _text(distribution, name))), "")
        headers = _headers(message := HeaderParser().parsestr(text))
        stem, _, rest = folder.removesuffix(".dist-info").removesuffix(".egg-info").partition("-")
        name = next(iter(headers.get("name", ())), "") or stem
        headers.setdefault("name", [name])
        if version := rest.partition("-py")[0]:
            headers.setdefault("version", [version])
        modules = _modules(distribution)
        properties = {key: SEPARATOR.join(values) for key, values in sorted(headers.items()) if key != "description"}
        if installer := _clean(_text(distribution, "INSTALLER")):
            properties["installer"] = installer
        properties["modules"] = str(len(modules))
        body = _clean(str(message.get_payload() or "")) or SEPARATOR.join(headers.get("description", ()))
        return cls(
            canonical=canonical_name(name),
            folder=folder,
            properties=properties,
            tags=_tags(headers),
            modules=modules,
            description=body or properties.get("summary", ""),
            distribution=distribution,
        )

    def event(self) -> EntityRegistered:
        """The registration, within every limit of an event: cut text is marked, and texts are halved until all fit."""
        return next(event for halvings in count() if _size(event := self._cut(halvings)) <= EVENT_BUDGET_BYTES)

    def _cut(self, halvings: int) -> EntityRegistered:
        kept = dict(list(self.properties.items())[:HEADER_KINDS])
        if len(self.properties) > HEADER_KINDS:
            kept["modules"] = self.properties["modules"]
        return EntityRegistered(
            entity=dataset(NAMESPACE, self.canonical),
            description=_shortened(self.description, TEXT_CHARS >> halvings) or None,
            schema=self.modules[: MODULES >> halvings] or None,
            properties={key: _shortened(value, TEXT_CHARS >> halvings) for key, value in kept.items()},
            tags=self.tags[:TAGS],
        )


def _size(event: EntityRegistered) -> int:
    return len(canonical_json([event.description, event.schema, dict(event.properties), list(event.tags)]))


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[:limit].rstrip() + _CUT_MARK.format(kept=limit, total=len(text))


def _text(distribution: Distribution, name: str) -> str:
    """One metadata file, read as UTF-8 and, where it is not that, as Latin-1, which old tools wrote."""
    try:
        return distribution.read_text(name) or ""
    except UnicodeDecodeError:
        folder = getattr(distribution, "_path", None)
        return (Path(str(folder)) / name).read_bytes().decode("latin-1") if folder is not None else ""
    except (OSError, ValueError):
        return ""


def _headers(message: Message) -> dict[str, list[str]]:
    """Headers by lower-case name; folded lines are joined, empty values and the `UNKNOWN` of old tools left out."""
    headers: dict[str, list[str]] = {}
    for key, value in message.items():
        if (text := _clean(_unfolded(str(value)))) and text.upper() != "UNKNOWN" and _is_header(key):
            headers.setdefault(key.lower(), []).append(text)
    return headers


def _unfolded(value: str) -> str:
    """A folded header on one line; old tools begin the further lines with a bar."""
    first, *further = value.split("\n")
    return " ".join(filter(None, [first.strip(), *(line.strip().removeprefix("|").strip() for line in further)]))


def _is_header(key: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", key)) and key.lower() != "modules"


def _clean(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n")).strip()


def _tags(headers: dict[str, list[str]]) -> tuple[str, ...]:
    """Keywords, every level of the topics, and the licence: sorted, each once."""
    words = [
        word for line in headers.get("keywords", ()) for word in re.split(r"[,;]" if "," in line else r"[;\s]", line)
    ]
    words += headers.get("license-expression", [])
    for classifier in headers.get("classifier", ()):
        group, *levels = (level.strip() for level in classifier.split("::"))
        words += levels if group == "Topic" else levels[-1:] if group == "License" else []
    return tuple(sorted({tag for word in words if 0 < len(tag := " ".join(word.split())) <= TAG_CHARS}))


def _modules(distribution: Distribution) -> tuple[tuple[str, str], ...]:
    """(dotted name, "package", "module" or "extension") of every importable file, shallow names first.

    What has no RECORD (a checkout's egg-info) lists nothing.
    """
    kinds: dict[str, str] = {}
    for name, kind in filter(None, map(_module, _record(distribution))):
        kinds[name] = min(kind, kinds.get(name, kind), key=IMPORT_ORDER.index)
    return tuple(sorted(kinds.items(), key=lambda module: (module[0].count("."), module)))


def _record(distribution: Distribution) -> list[PurePosixPath]:
    """Source: the RECORD file of the standard for installed projects."""
    try:
        return [PurePosixPath(row[0]) for row in csv.reader(_text(distribution, "RECORD").splitlines()) if row]
    except csv.Error:
        return []


def _module(file: PurePosixPath) -> tuple[str, str] | None:
    suffix = next((s for s in (*EXTENSION_SUFFIXES, ".py") if file.name.endswith(s)), None)
    if suffix is None:
        return None
    parts = [*file.parent.parts, file.name.removesuffix(suffix)]
    kind = "module" if suffix == ".py" else "extension"
    if parts[-1] == "__init__":
        parts, kind = parts[:-1], "package"
    return (".".join(parts), kind) if parts and all(part.isidentifier() for part in parts) else None
