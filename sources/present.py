"""What the journal holds of the entities of some namespaces, read from the lake at once.

One pruned read of the table `entities`, by tenant and the beginnings of URNs; nothing is looked up singly. The lake is
waited for until it holds all that stood in the journal when the read was asked for, so that a run knows what the one
before it has told, also one that was killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from confluent_kafka import KafkaException, TopicPartition

from ..lake import scan
from ..lake.columns import ENTITIES_TABLE
from ..lake.queries import Queries
from ..lake.table import quoted
from ..lake.views.views import asked_anew
from ..producers.kafka import ErrorLog, asked_again, make_consumer
from ..schemas.errors import KafkaUnavailableError
from ..schemas.positions import EPOCH_SHIFT, Cut
from ..schemas.urn import Urn
from .plan import Held

if TYPE_CHECKING:
    from ..lake.reading import LakeReader
    from ..lake_client import ConnectedJournal

TOPIC: Final = "catalog"
_ANSWER_S: Final = 5.0


def covers(entities: Iterable[Urn]) -> set[str]:
    """How the URNs begin that share kind and namespace with some entities: `dataset:shop/`."""
    return {f"{urn.kind}:{urn.path.partition('/')[0]}/" for urn in entities}


class PresentEntities(Queries):
    """Reads entities in bulk; its arguments are those of `Queries`."""

    TOPIC: ClassVar[str] = TOPIC
    TABLES: ClassVar[tuple[str, ...]] = (ENTITIES_TABLE,)

    @asked_anew
    def within(self, tenant: str, begins: Collection[str]) -> dict[str, Held]:
        """The entities whose URNs begin so, deleted ones included, by URN.

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
                f"""with rows as (select urn, deleted, logical_timestamp, seq, system_properties, system_tags
                    from {source} where tenant = {quoted(tenant)} and ({ranges}) and {seen.bounds.sql()})
                select urn, arg_max(deleted, (logical_timestamp, seq)),
                    coalesce(max(logical_timestamp) filter (where deleted), 0),
                    arg_max(map_keys(system_properties), (logical_timestamp, seq)),
                    arg_max(map_values(system_properties), (logical_timestamp, seq)),
                    arg_max(system_tags, (logical_timestamp, seq))
                from rows group by urn"""
            ).fetchall()
        return {urn: _held(*columns) for urn, *columns in rows}


def _held(deleted: bool, deleted_at: int, keys: list[str] | None, values: list[str] | None, tags: Any) -> Held:
    return Held(not deleted, deleted_at, dict(zip(keys or (), values or (), strict=True)), tuple(tags or ()))


def _after(begin: str) -> str:
    """The least text behind all that begin with an ASCII text."""
    return begin[:-1] + chr(ord(begin[-1]) + 1)


def _may_hold(file: Any, tenant: str, begins: Iterable[str]) -> bool:
    """Whether a file's statistics leave it open that it has such rows."""
    if not _overlap(file.get("min.tenant"), file.get("max.tenant"), tenant, tenant):
        return False
    if file.get("min.tenant") != file.get("max.tenant"):
        return True
    return any(_overlap(file.get("min.urn"), file.get("max.urn"), text, _after(text)) for text in begins)


def _overlap(least: str | None, greatest: str | None, begin: str, end: str) -> bool:
    return (least is None or least <= end) and (greatest is None or greatest >= begin)


def opened(lake: LakeReader) -> PresentEntities:
    """What reads entities in bulk, over the same lake."""
    return lake.beside(PresentEntities)


def recorded_covers(text: str | None) -> set[str]:
    """The beginnings of URNs that a source's program lists; none where something else stands there."""
    return {begin for begin in recorded_texts(text) if ":" in begin}


def recorded_texts(text: str | None) -> list[str]:
    """The texts that a source's program lists; none where something else stands there."""
    try:
        value = json.loads(text or "[]")
    except ValueError:
        return []
    return [listed for listed in value if isinstance(listed, str)] if isinstance(value, list) else []


def journal_end(journal: ConnectedJournal) -> Cut:
    """The next position of each partition of the catalog's journal topic, as it is now: what is committed.

    Raises:
        KafkaUnavailableError: Kafka does not say.
    """
    topic = journal.settings.journal.topics.journal(TOPIC)
    known = journal.epochs[topic]
    consumer = make_consumer(
        journal.settings, errors := ErrorLog(), role="ends", **{"isolation.level": "read_committed"}
    )
    try:
        ends: dict[tuple[str, int], int] = {}
        for partition in range(known.partitions):
            place = TopicPartition(topic, partition)
            _, high = asked_again(
                consumer, partial(consumer.get_watermark_offsets, place, timeout=_ANSWER_S),
                time.monotonic() + 2 * _ANSWER_S, stopping=lambda: errors.hopeless is not None,
            )  # fmt: skip
            ends[topic, partition] = (known.epoch << EPOCH_SHIFT) + int(high)
        return ends
    except KafkaException as error:
        raise KafkaUnavailableError(f"The end of {topic} could not be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()
