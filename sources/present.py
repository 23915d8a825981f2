"""The journal's state of the entities of some namespaces, read from the lake in bulk.

One pruned read of the table `entities`, by tenant and URN prefixes; there are no single look-ups. The read waits until
the lake contains everything that was in the journal when it was requested, so that a run knows what the previous one
has emitted, even if that was killed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..consumers.ends import committed_ends
from ..lake import scan
from ..lake.columns import ENTITIES_TABLE
from ..lake.queries import Queries
from ..lake.table import quoted
from ..lake.views.views import asked_anew
from ..schemas.positions import Cut, Position
from ..schemas.urn import Urn
from .plan import Held

if TYPE_CHECKING:
    from ..lake.reading import LakeReader
    from ..lake_client import ConnectedJournal

TOPIC: Final = "catalog"


def covers(entities: Iterable[Urn]) -> set[str]:
    """URN prefixes of the kinds and namespaces of some entities: `dataset:shop/`."""
    return {f"{urn.kind}:{urn.path.partition('/')[0]}/" for urn in entities}


class PresentEntities(Queries):
    """Reads entities in bulk; its arguments are those of `Queries`."""

    TOPIC: ClassVar[str] = TOPIC
    TABLES: ClassVar[tuple[str, ...]] = (ENTITIES_TABLE,)

    @asked_anew
    def within(self, tenant: str, begins: Collection[str]) -> dict[str, Held]:
        """The entities whose URNs have these prefixes, deleted ones included, by URN.

        Raises:
            UnavailableError: there is no lake.
        """
        seen = self._seen(None)
        table = seen.view.tables[ENTITIES_TABLE]
        paths = [file["path"] for file in table.listed if _may_hold(file, tenant, begins)]
        if not paths or not begins:
            return {}
        ranges = " or ".join(f"(urn >= {quoted(text)} and urn < {quoted(_after(text))})" for text in sorted(begins))
        with scan.cursor() as cursor:
            source = scan.source(cursor, table, paths)
            rows = cursor.sql(
                f"""with rows as (select urn, deleted, journal_partition, logical_timestamp, seq, system_properties,
                        system_tags
                    from {source} where tenant = {quoted(tenant)} and ({ranges}) and {seen.bounds.sql()})
                select urn, arg_max(deleted, (logical_timestamp, seq)),
                    coalesce(max(logical_timestamp) filter (where deleted), 0),
                    arg_max(map_keys(system_properties), (logical_timestamp, seq)),
                    arg_max(map_values(system_properties), (logical_timestamp, seq)),
                    arg_max(system_tags, (logical_timestamp, seq)),
                    arg_max(journal_partition, (logical_timestamp, seq)), max(logical_timestamp)
                from rows group by urn"""
            ).fetchall()
        return {urn: _held(self._topic, *columns) for urn, *columns in rows}


def _held(
    topic: str, deleted: bool, deleted_at: int, keys: list[str] | None, values: list[str] | None, tags: Any,
    partition: int, timestamp: int,
) -> Held:  # fmt: skip
    properties = dict(zip(keys or (), values or (), strict=True))
    return Held(not deleted, deleted_at, properties, tuple(tags or ()), Position(topic, partition, timestamp))


def _after(begin: str) -> str:
    """The first string that sorts after all strings with an ASCII prefix."""
    return begin[:-1] + chr(ord(begin[-1]) + 1)


def _may_hold(file: Any, tenant: str, begins: Iterable[str]) -> bool:
    """Whether a file may have such rows, by its statistics."""
    if not _overlap(file.get("min.tenant"), file.get("max.tenant"), tenant, tenant):
        return False
    if file.get("min.tenant") != file.get("max.tenant"):
        return True
    return any(_overlap(file.get("min.urn"), file.get("max.urn"), text, _after(text)) for text in begins)


def _overlap(least: str | None, greatest: str | None, begin: str, end: str) -> bool:
    return (least is None or least <= end) and (greatest is None or greatest >= begin)


def opened(lake: LakeReader) -> PresentEntities:
    """A bulk reader of entities, over the same lake."""
    return lake.beside(PresentEntities)


def recorded_covers(text: str | None) -> set[str]:
    """The URN prefixes that a source's program lists; none if the property contains anything else."""
    return {begin for begin in recorded_texts(text) if ":" in begin}


def recorded_texts(text: str | None) -> list[str]:
    """The strings that a source's program lists; none if the property contains anything else."""
    try:
        value = json.loads(text or "[]")
    except ValueError:
        return []
    return [listed for listed in value if isinstance(listed, str)] if isinstance(value, list) else []


def journal_end(journal: ConnectedJournal) -> Cut:
    """The next position of each partition of the catalog's journal topic, as it is now: what is committed.

    Raises:
        KafkaUnavailableError: Kafka does not answer.
    """
    settings = journal.settings
    return committed_ends(settings, journal.epochs, settings.journal.topics.journal(TOPIC))
