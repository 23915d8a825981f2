"""What a `Journal` asks the lake about entities: now, and at a point of the journal.

The lake's packages are imported when it is first asked, so the light client never meets one that it does not need.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from .producers.topics import Epochs
from .rules.entity import EntityRow
from .schemas.arguments import point_of
from .schemas.errors import MissingExtraError, UnknownEntityError
from .schemas.positions import Position
from .schemas.settings import Settings
from .schemas.urn import Urn

if TYPE_CHECKING:
    from .indexer.results import Hit
    from .lake.cuts import At
    from .lake.reading import Answer, LakeReader
    from .schemas.positions import Cut

Point: TypeAlias = "Position | Cut | datetime | int"
"""A point of the journal: a position (that event included), a position by (topic, partition), or a time."""
_LAKE_PACKAGES = frozenset({"deltalake", "duckdb", "orjson", "polars", "pyarrow"})


class LakeClient:
    """Questions about entities.

    Args:
        settings: where the lake is.
        epochs: the journal topics as `check_topics` found them.
    """

    def __init__(self, settings: Settings, epochs: Epochs) -> None:
        self.settings = settings
        self.epochs = epochs
        self._lake: LakeReader | None = None

    def show(self, entity: Urn | str, *, as_at: Point | None = None, tenant: str | None = None) -> EntityRow:
        """An entity's row: now, or as the journal told it at a position or time.

        Args:
            entity: its URN.
            as_at: a Position (that event included), a cut (a position by topic and partition; the entity's own one, or
                the latest of their times), an aware datetime or milliseconds UTC; None: now.
            tenant: `journal.tenant` of the settings where None.
        Raises:
            UnknownEntityError: it does not exist (then).
            NotFinalError: the lake has not reached that position, or the time is still to come.
            InputError: `as_at` is nothing of these.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        row = self.answer(entity, as_at=as_at, tenant=tenant).row
        assert row is not None  # an entity that is not there is an UnknownEntityError
        return row

    def answer(self, entity: Urn | str, *, as_at: Point | None = None, tenant: str | None = None) -> Answer:
        """What `show` shows, with how far the lake is and whether an event still to come could change it."""
        urn, who = Urn.parse(entity), tenant or self.settings.journal.tenant
        at = point(as_at)
        return self.lake.current(who, urn) if at is None else self.lake.as_at(who, urn, at)

    def history(self, entity: Urn | str, *, tenant: str | None = None) -> list[EntityRow]:
        """Every row of an entity, oldest first. Raises as `show`."""
        return self.lake.history(tenant or self.settings.journal.tenant, Urn.parse(entity))

    def then(self, hits: Iterable[Hit | Urn | str], as_at: Point, *, tenant: str | None = None) -> list[Answer | None]:
        """What entities looked like at an earlier point, read from the lake: each hit of a search, in its place.

        A search finds what is there now, for the index has no past: what is not there any more is not found, and what
        was not there yet is None here.

        Args:
            hits: hits of a search, or URNs.
            as_at, tenant: as of `show`.
        Raises:
            NotFinalError, InputError, MissingExtraError: as `show`.
        """
        found: list[Answer | None] = []
        for hit in hits:
            try:
                found.append(self.answer(hit if isinstance(hit, str) else hit.urn, as_at=as_at, tenant=tenant))
            except UnknownEntityError:
                found.append(None)
        return found

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self.settings.journal.tenant

    @property
    def lake(self) -> LakeReader:
        """The lake's reader. Raises: MissingExtraError: the packages of the extra `lake` are not installed."""
        if self._lake is None:
            try:
                from .lake.reading import LakeReader
                from .lake.tables import Lake
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in _LAKE_PACKAGES:
                    raise
                raise MissingExtraError("lake", "Reading the lake") from error
            where = self.settings.lake
            partitions = {topic: one.partitions for topic, one in self.epochs.items()}
            self._lake = LakeReader(Lake(where.path, where.storage_options), self.settings.journal.topics, partitions)
        return self._lake


def point(as_at: Point | None) -> At | None:
    return None if as_at is None else point_of("as_at", as_at)
