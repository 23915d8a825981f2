"""Files of OpenLineage events as a source: run, dataset and job events, as JSON lines or arrays.

Runs become facts of lineage, as with `metajournal lineage import`; the datasets and jobs become entities, so that
search finds them. Files describe some of the data, never all of it, so nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ...domains.catalog import naming
from ...domains.lineage.facets import Side, described
from ...domains.lineage.openlineage import NoRunEventError, event_time_ms, facts_of_any, read_values
from ...schemas.errors import InvalidUrnError
from ...schemas.hashing import canonical_json
from ...schemas.urn import Urn
from ..found import Found, Past, Problem, Progress
from ..source import Identity, SourceError, Tell, checked_id
from .facets import Facets

KIND: Final = "openlineage"
PREFIX: Final = "openlineage."
SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
"""Of the files of a folder that are read."""
_PATTERN: Final = frozenset("*?[")
PIECE: Final = 500
"""Number of events whose runs are emitted together: if a file grows, at most this many are emitted again."""


class OpenLineageFiles:
    """Files of events.

    Args:
        files: paths, read in their order; of a folder its files (`*.json`, `*.jsonl`, `*.ndjson`), of a pattern with
            `*` what matches when it is read.
        register: whether datasets and jobs become entities; otherwise only runs are emitted.
        id: the source's; None: `openlineage`.
    Raises:
        InputError: the id is not valid.
    """

    lists_all: Final = False

    def __init__(self, files: Sequence[str], *, register: bool = True, id: str | None = None) -> None:  # noqa: A002
        self._paths = [Path(file).expanduser().absolute() for file in files]
        self._register = register
        self.identity = Identity(KIND, KIND if id is None else checked_id(id), PREFIX)

    @property
    def systems(self) -> tuple[Urn, ...]:
        """The files and folders."""
        return tuple(naming.data("file", path.as_posix()) for path in self._paths)

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """As `Source.selects`; nothing is deleted anyway."""
        return False

    def read(self, tell: Tell) -> Iterator[Found | Past | Problem]:
        """As `Source.read`."""
        known = _Known()
        for file in _files(self._paths):
            try:
                with file.open(encoding="utf-8", errors="surrogateescape") as lines:
                    yield from self._events(file, lines, known, tell)
            except OSError as error:
                raise SourceError(
                    f"{file} cannot be read: {error.strerror}.", code="source-not-found", hint="Check the path."
                ) from error
        if self._register:
            yield from known.found()

    def _events(self, file: Path, lines: Any, known: _Known, tell: Tell) -> Iterator[Past | Problem]:
        piece = _Piece()
        for number, value, fault in read_values(lines):
            try:
                if fault is not None:
                    raise NoRunEventError(fault)
                facts, spelling = facts_of_any(value), canonical_json(value)
                known.add(value, event_time_ms(value))
            except (NoRunEventError, InvalidUrnError) as error:
                yield Problem(f"{file.name}, event {number}", error.message)
                continue
            except (ValueError, RecursionError) as error:  # a number or text that JSON has no form for, or too deep
                yield Problem(f"{file.name}, event {number}", f"it is not JSON: {error}")
                continue
            piece.add(spelling, facts)
            if number % PIECE == 0:
                tell(Progress(f"read {file.name}", number))
                yield from piece.past
                piece = _Piece()
        yield from piece.past


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files of paths, folders and patterns, each once.

    Raises:
        SourceError: a folder has none, or nothing matches a pattern.
    """
    seen = set[Path]()
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        elif not path.exists() and _PATTERN.intersection(str(path)):
            files = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not files:
            raise SourceError(
                f"There is no file of events at {path}.",
                code="source-not-found",
                hint=f"Name files, a folder with some that end in {', '.join(SUFFIXES)}, or a pattern that matches.",
            )
        yield from (file for file in files if file not in seen)
        seen.update(files)


class _Piece:
    """Some events' facts, and the digest by which they are known."""

    def __init__(self) -> None:
        self._facts: list[Any] = []
        self._digest = blake2b(digest_size=12)

    def add(self, spelling: bytes, facts: list[Any]) -> None:
        self._facts += facts
        self._digest.update(spelling)

    @property
    def past(self) -> list[Past]:
        """What was added, if anything was."""
        return [Past(self._digest.hexdigest(), tuple(self._facts))] if self._facts else []


class _Known:
    """Collects what the events say about datasets and jobs."""

    def __init__(self) -> None:
        self._facets: dict[Urn, Facets] = {}

    def add(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Raises: NoRunEventError, InvalidUrnError: a name is missing, or makes no URN."""
        for entity, side, facets, _ in described(event):
            if entity not in self._facets:
                self._facets[entity] = Facets(entity, is_job=side is Side.JOB)
            self._facets[entity].add(facets, at_ms)

    def found(self) -> Iterator[Found]:
        """Each dataset and job once."""
        for facets in self._facets.values():
            yield facets.found()
