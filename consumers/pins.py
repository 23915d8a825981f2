"""The lake at one moment, as the follower needs it: where its partition begins, and what stands below.

A pin is taken whole and never changed: tables at the versions they had, mark and clock of one journal partition. The
journal table is looked at first, so every other one holds all that lies below the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from operator import itemgetter
from typing import Any

from ..fold.folded import IdKey, Verdict
from ..fold.records import Place
from ..lake.columns import JOURNAL_TABLE
from ..lake.entities import rows_from_arrow
from ..lake.lookup import rows_of_key
from ..lake.table import from_json, quoted
from ..lake.views.viewed import ViewedTable, viewed
from ..lake.views.views import View, views_at, whole_view
from ..producers.answers import Administrator
from ..producers.recorded.served import require_packages
from ..producers.topics import Epochs, TopicEpoch, check_epoch
from ..rules.digest import digests_of_topics
from ..rules.entity import EntityRow
from ..schemas.errors import NotYetVisibleError, OtherRulesError, TopicMismatchError, UnavailableError
from ..schemas.ids import id_text
from ..schemas.positions import epoch_of, offset_of
from ..schemas.settings import Settings

_VERDICT = "tenant, aggregate, event_id, logical_timestamp, outcome, reason, detail, duplicate_of"
_NO_LAKE = "Wait for the outcome instead: receipt.outcome(). `metajournal status` shows whether the stream runs."


@dataclass(frozen=True)
class Pin:
    """The lake as it stood, for one journal partition.

    Attributes:
        view: its tables.
        place: the partition, with the positions that an operator has shelved.
        epoch: the topic's epoch.
        mark: next position that the journal table did not hold.
        clock: running system_time before the mark, milliseconds UTC.
    """

    view: View = field(repr=False)
    place: Place
    epoch: int
    mark: int
    clock: int

    @cached_property
    def tables(self) -> Mapping[str, ViewedTable]:
        """The tables by name, to be asked."""
        return viewed(self.view)

    @cached_property
    def _id_ranges(self) -> Sequence[tuple[str, str]] | None:
        """The least and greatest event id of each file of the journal table, the greatest first; None: not all say."""
        files = self.view.journal.files
        if not {"min.event_id", "max.event_id"} <= set(files.column_names):
            return None
        least, greatest = files["min.event_id"].to_pylist(), files["max.event_id"].to_pylist()
        if None in least or None in greatest:
            return None
        return sorted(zip(least, greatest, strict=True), key=itemgetter(1), reverse=True)

    def marked(self, keys: Iterable[IdKey]) -> dict[IdKey, tuple[int, Verdict]]:
        """Position and verdict of the lowest event below the mark with each identity that was marked `repeat`.

        Ids grow with time, so the statistics of the table's files leave next to none to be opened for new ones.
        """
        texts = [id_text(event_id) for _, _, event_id in keys if self._may_hold(id_text(event_id))]
        if not texts:
            return {}
        where = f"event_id in ({', '.join(map(quoted, texts))}) and repeat order by logical_timestamp desc"
        verdicts: dict[IdKey, tuple[int, Verdict]] = {}
        among: dict[str, Sequence[Any]] = {"journal_partition": [self.place.partition], "event_id": texts}
        for row in self.tables[JOURNAL_TABLE].query(_VERDICT, f"{self._below} and {where}", among):
            key = (row["tenant"], row["aggregate"], bytes.fromhex(row["event_id"].replace("-", "")))
            verdicts[key] = (row["logical_timestamp"], _verdict(row))
        return verdicts

    def _may_hold(self, event_id: str) -> bool:
        """Whether a file may hold an id; not in Arrow, whose calls give the interpreter away each time."""
        if self._id_ranges is None:
            return True
        newer = takewhile(lambda limits: limits[1] >= event_id, self._id_ranges)
        return any(least <= event_id for least, _ in newer)

    @property
    def _below(self) -> str:
        place = self.place
        return (
            f"topic = {quoted(place.topic)} and journal_partition = {place.partition} "
            f"and logical_timestamp < {self.mark}"
        )

    def verdict(self, value: int, key: bytes) -> Verdict | None:
        """What became of the record at a position below the mark; None where none stands there under that key."""
        named = {
            "topic": self.place.topic,
            "journal_partition": self.place.partition,
            "logical_timestamp": value,
        }
        for row in rows_of_key(self.view.journal, named, "").to_pylist():
            if row["key"] == key:
                return _verdict(row)
        return None

    def row(self, tenant: str, urn: str) -> EntityRow | None:
        """The newest row of an entity below the mark."""
        rest = (
            f"and journal_partition = {self.place.partition} and logical_timestamp < {self.mark} "
            f"and logical_timestamp >= {self.place.first} order by logical_timestamp desc, seq desc limit 1"
        )
        rows = rows_from_arrow(rows_of_key(self.view.tables["entities"], {"tenant": tenant, "urn": urn}, rest))
        return rows[0] if rows else None


def take_pin(settings: Settings, epochs: Epochs, topic: str, partition: int, administrator: Administrator) -> Pin:
    """Look at the lake, and at a partition of a journal topic, as they are now. Raises: as `take_pins`."""
    return take_pins(settings, epochs, topic, [partition], administrator)[0]


def take_pins(
    settings: Settings, epochs: Epochs, topic: str, partitions: Iterable[int], administrator: Administrator
) -> list[Pin]:
    """Look at the lake once, and at some partitions of a journal topic.

    Args:
        administrator: asks the brokers.
    Raises:
        UnavailableError: there is no lake, or no stream has judged anything yet.
        OtherRulesError: the lake's newest batch was judged by other rules of a domain of that topic than this
            process has.
        TopicMismatchError: the topic is not the one that the epochs record tells.
        KafkaUnavailableError: no broker answers.
        NotYetVisibleError: the lake lacks a part of what was restored into the topic.
    """
    check_epoch(administrator, epochs, topic)
    require_packages(epochs.outside)
    view = whole_view(views_at(settings.lake.path, settings.lake.storage_options))
    if view is None:
        raise UnavailableError(f"There is no lake at {settings.lake.path}.", code="no-lake", hint=_NO_LAKE)
    domain = settings.journal.topics.domain_of(topic)
    _check_rules(view, domain)
    return [_pin(view, epochs, topic, domain, partition) for partition in partitions]


def _pin(view: View, epochs: Epochs, topic: str, domain: str, partition: int) -> Pin:
    known = epochs[topic]
    key = (topic, partition)
    _check_epoch(view.journal.mark(key), known)
    mark = known.reached(partition, view.journal.mark(key))
    _check_restored(mark, known, partition)
    shelved = frozenset(value for name, number, value in epochs.shelved if (name, number) == key)
    moved, first = epochs.moved(topic, partition), epochs.first(topic)
    place = Place(topic, partition, known.partitions, domain, shelved, moved, first)
    return Pin(view, place, known.epoch, mark, view.journal.clock(key))


def _check_rules(view: View, topic_domain: str) -> None:
    """Events of several domains stand in one topic; the rules of all others do not matter."""
    rules = view.journal.rules
    for domain, own in digests_of_topics([topic_domain]).items():
        if domain not in rules:
            text = f"No stream has evaluated anything of the domain {domain!r} into {view.path} yet."
            raise UnavailableError(text, code="no-lake", hint=_NO_LAKE)
        if rules[domain] != own:
            raise OtherRulesError(domain, rules[domain], own)


def _check_epoch(mark: int, known: TopicEpoch) -> None:
    if epoch_of(mark) > known.epoch:
        text = f"the lake holds {known.topic} in epoch {epoch_of(mark)}, this process knows epoch {known.epoch}"
        raise TopicMismatchError(
            f"{text[0].upper()}{text[1:]}: the journal has been restored meanwhile.",
            hint="Connect again: Journal.connect() reads the recorded epochs again.",
            differences=(text,),
        )


def _check_restored(mark: int, known: TopicEpoch, partition: int) -> None:
    """What was restored into the topic is not foretold: the stream has to fold it first."""
    if mark < known.start(partition):
        lacking = offset_of(known.start(partition)) - offset_of(mark)
        raise NotYetVisibleError(
            {(known.topic, partition): lacking},
            f"The lake is {lacking:,} records behind the part of {known.topic}/{partition} that was restored.",
        )


def _verdict(row: Mapping[str, Any]) -> Verdict:
    return Verdict(row["outcome"], row["reason"], from_json(row["detail"]), row["duplicate_of"])
