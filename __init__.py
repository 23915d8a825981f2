"""metajournal: metadata as a journal of events (the public API of the package).

Everything a user needs is named here; each name is imported from its room when it is first asked for, so that
`import metajournal` costs nothing and the light client never meets a package that it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metajournal.client import Journal
    from metajournal.domains.catalog.events import (
        EntityDeleted,
        EntityRegistered,
        MetadataCleared,
        PropertiesRemoved,
        PropertiesReplaced,
        PropertiesSet,
        TagsAdded,
        TagsRemoved,
    )
    from metajournal.domains.catalog.urns import app, dataset, program, run, stream
    from metajournal.domains.files.events import FileMetadata, FileRecord, FilesRecorded
    from metajournal.domains.files.recording import content_hash, file_record
    from metajournal.domains.files.urns import file_urn
    from metajournal.domains.lineage.events import Access, AccessesRecorded, ExternalWrite, RunStarted, RunStopped
    from metajournal.producers.units import Unit
    from metajournal.producers.verdicts import Accepted, Duplicate, Rejected, Shelved, Unchanged
    from metajournal.schemas.errors import (
        ConfigError,
        EventTooLargeError,
        Fault,
        FilesQueryError,
        InputError,
        InvalidEventError,
        InvalidUnitError,
        InvalidUrnError,
        KafkaUnavailableError,
        MetajournalError,
        NotYetVisibleError,
        OperatorError,
        OutcomeUnknownError,
        PositionExpired,
        QueueFullError,
        RejectedError,
        SearchUnavailableError,
        UnavailableError,
        UnknownEntityError,
        UnknownKindError,
        UnservedDomainError,
    )
    from metajournal.schemas.positions import Cut, Position
    from metajournal.schemas.settings import Settings
    from metajournal.schemas.urn import Urn, urn

    __version__: str

__all__ = [
    "Accepted",
    "Access",
    "AccessesRecorded",
    "ConfigError",
    "Cut",
    "Duplicate",
    "EntityDeleted",
    "EntityRegistered",
    "EventTooLargeError",
    "ExternalWrite",
    "Fault",
    "FileMetadata",
    "FileRecord",
    "FilesQueryError",
    "FilesRecorded",
    "InputError",
    "InvalidEventError",
    "InvalidUnitError",
    "InvalidUrnError",
    "Journal",
    "KafkaUnavailableError",
    "MetadataCleared",
    "MetajournalError",
    "NotYetVisibleError",
    "OperatorError",
    "OutcomeUnknownError",
    "Position",
    "PositionExpired",
    "PropertiesRemoved",
    "PropertiesReplaced",
    "PropertiesSet",
    "QueueFullError",
    "Rejected",
    "RejectedError",
    "RunStarted",
    "RunStopped",
    "SearchUnavailableError",
    "Settings",
    "Shelved",
    "TagsAdded",
    "TagsRemoved",
    "UnavailableError",
    "Unchanged",
    "Unit",
    "UnknownEntityError",
    "UnknownKindError",
    "UnservedDomainError",
    "Urn",
    "app",
    "content_hash",
    "dataset",
    "file_record",
    "file_urn",
    "program",
    "run",
    "stream",
    "urn",
]

_ROOMS = {
    "metajournal.client": ("Journal",),
    "metajournal.domains.files.recording": ("content_hash", "file_record"),
    "metajournal.producers.units": ("Unit",),
    "metajournal.producers.verdicts": ("Accepted", "Duplicate", "Rejected", "Shelved", "Unchanged"),
    "metajournal.domains.catalog.events": (
        "EntityDeleted",
        "EntityRegistered",
        "MetadataCleared",
        "PropertiesRemoved",
        "PropertiesReplaced",
        "PropertiesSet",
        "TagsAdded",
        "TagsRemoved",
    ),
    "metajournal.domains.lineage.events": ("Access", "AccessesRecorded", "ExternalWrite", "RunStarted", "RunStopped"),
    "metajournal.domains.files.events": ("FileMetadata", "FileRecord", "FilesRecorded"),
    "metajournal.schemas.positions": ("Cut", "Position"),
    "metajournal.schemas.settings": ("Settings",),
    "metajournal.domains.catalog.urns": ("app", "dataset", "program", "run", "stream"),
    "metajournal.domains.files.urns": ("file_urn",),
    "metajournal.schemas.urn": ("Urn", "urn"),
}
_HOMES = {name: module for module, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # loads for 30 ms

        return version("metajournal")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "metajournal.schemas.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
