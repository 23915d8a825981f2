"""Whatever goes wrong has a code, one sentence, the next step and an exit code; nobody meets a bare stack trace.

Nothing here needs a service: a port on which nobody listens is a Kafka and an Elasticsearch that are away, and the
lake is filled by the fold itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metajournal import (
    EntityDeleted,
    EntityRegistered,
    Journal,
    MetajournalError,
    Position,
    Settings,
    TagsAdded,
    Urn,
    dataset,
    urn,
)
from metajournal.cli import main
from metajournal.producers.kafka import make_producer, producer_config
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import InvalidEventError, UnknownEntityError
from metajournal.schemas.positions import cut_of, position
from metajournal.schemas.registry import served_domains
from metajournal.terminal.exits import exit_code
from metajournal.terminal.options import Options
from tests.builders import NOON
from tests.model import JournalRecord
from tests.streaming.harness import TOPIC, Fold
from tests.streaming.test_engine import PARTITIONS, journal_of

NOBODY = "127.0.0.1:1"
CONNECT: Callable[..., Journal] = Journal.connect
ANYTHING: Callable[[Any], Any] = lambda value: value  # noqa: E731  (what a caller without a type checker hands in)
KEPT = dataset("default", "kept")
GONE = dataset("default", "gone")
LATER = dataset("default", "later")
SENTENCE = re.compile(r".{8,}[.!?:)]\Z", re.DOTALL)

# One line of the command line, its exit code, its error code, and words of its sentence and next step.
TYPED: list[tuple[str, int, str, str]] = [
    ("shw dataset:a/b", 2, "usage", "No such command"),
    ("show", 2, "usage", "Missing argument"),
    ("show not-a-urn", 2, "invalid-urn", "dataset:default/orders"),
    ("show dataset:a/b --as-at yesterday", 2, "not-a-time", "'yesterday' is not a valid time"),
    ("show dataset:a/b --as-at a/b/c", 2, "invalid-position", "<topic>/<partition>/<value>"),
    ("show dataset:a/b --at-least soon", 2, "invalid-position", "receipts"),
    ("show dataset:a/b", 3, "kafka-unavailable", "metajournal up"),
    ("history dataset:a/b", 3, "kafka-unavailable", "No Kafka broker answers at 127.0.0.1:1"),
    ("search x", 3, "search-unavailable", "`metajournal up`"),
    ("history dataset:a/b --as-at 1", 2, "usage", "--as-of asks something else; `metajournal show` takes --as-at."),
    ("search x --as-of 1", 2, "usage", "--as-at asks something else; `metajournal show` takes --as-of."),
    ("search --kidn x", 2, "usage", "metajournal search --help"),
    ("search --at-least soon", 2, "invalid-position", "receipts"),
    ("search x --limit 5000", 2, "usage", "at most 1,000 without --urns"),
    ("search x --urns --limit 500000", 2, "usage", "not in the range"),
    ("emit TagAdded dataset:a/b", 2, "unknown-event-type", "Did you mean TagsAdded?"),
    ("emit TagsAdded dataset:a/b", 2, "invalid-event", "must be given"),
    ("emit TagsAdded a/b --tag x", 2, "invalid-urn", "A URN looks like dataset:default/orders"),
    ("emit EntityRegistered dataset:a/b%20c%zz", 2, "invalid-urn", "A URN looks like"),
    ("emit EntityRegistered dataset:a/grö%C3%9Fe", 2, "invalid-urn", "Did you mean dataset:a/gr%C3%B6%C3%9Fe?"),
    (
        "show dataset:postgres://127.0.0.1:54329/shop.billing.payments",
        2,
        "invalid-urn",
        "Did you mean dataset:postgres%3A%2F%2F127.0.0.1%3A54329/shop.billing.payments?",
    ),
    (
        "lineage postgres://127.0.0.1:54329/shop.billing.payments --levels 2",
        2,
        "invalid-urn",
        "Did you mean dataset:postgres%3A%2F%2F127.0.0.1%3A54329/shop.billing.payments?",
    ),
    (
        "history stream:kafka://Broker/clicks",
        2,
        "invalid-urn",
        "Did you mean stream:kafka%3A%2F%2Fbroker%3A9092/clicks?",
    ),
    (
        "emit TagsAdded postgresql://alice:secret@db/shop.public.x --tag x",
        2,
        "invalid-urn",
        "Did you mean dataset:postgres%3A%2F%2Fdb%3A5432/shop.public.x?",
    ),
    ("show file:///data/a.csv", 2, "invalid-urn", "Did you mean dataset:file/%2Fdata%2Fa.csv?"),
    (
        "show sqlite:///data/shop.db/main.orders",
        2,
        "invalid-urn",
        "Did you mean dataset:sqlite%3A%2F%2F%2Fdata%2Fshop.db/main.orders?",
    ),
    ("tail --urn s3://bucket/a/b", 2, "invalid-urn", "Did you mean dataset:s3%3A%2F%2Fbucket/a%2Fb?"),
    ("show dataset:default/a/b.csv", 2, "invalid-urn", "Did you mean dataset:default/a%2Fb.csv?"),
    ("show default/orders", 2, "invalid-urn", "Did you mean dataset:default/orders?"),
    ("show a/größe", 2, "invalid-urn", "Did you mean dataset:a/gr%C3%B6%C3%9Fe?"),
    ("show /data/orders/", 2, "invalid-urn", "`metajournal search orders`"),
    ("emit dataset:a/b EntityRegistered", 2, "unknown-event-type", "the event type comes first"),
    ("show shop.billing.payments", 2, "invalid-urn", "`metajournal search shop.billing.payments`"),
    ("runs purchases", 2, "invalid-urn", "`metajournal search purchases`"),
    ("show dataset:a/%41", 2, "invalid-urn", "Did you mean dataset:a/A?"),
    ("emit TagsAdded dataset:a/b --property k", 2, "no-key-value", "key=value"),
    ("emit EntityRegistered dataset:a/b --property a=1 --property a=2", 2, "given-twice", "'a' is given twice"),
    ('emit TagsAdded dataset:a/b --data {"tags":["a"]} --tag b', 2, "given-twice", "'tags' is given twice, in --data"),
    ('emit TagsAdded dataset:a/b --data {"entity":"dataset:a/c"} --tag b', 2, "given-twice", "'entity' is given"),
    ("repo commit sales main -m x --metadata a=1 --metadata a=2", 2, "given-twice", "'a' is given twice"),
    ("repo merge sales new main --metadata a=1 --metadata a=2", 2, "given-twice", "'a' is given twice"),
    ("emit EntityRegistered dataset:a/b --schema {bad", 2, "not-json", "--schema looks like JSON but is not valid"),
    ("emit TagsAdded dataset:a/b --data {", 2, "not-json", "--data is not JSON"),
    ("emit TagsAdded dataset:a/b --data []", 2, "not-json", "--data is not a JSON object"),
    ("emit TagsAdded dataset:a/b --tag x --event-time noon", 2, "not-a-time", "milliseconds since 1970"),
    *(
        (f"emit TagsAdded dataset:a/b --tag x --timeout {one}", 2, "usage", "--timeout")
        for one in ("nan", "-1", "1e400")
    ),
    ("ingest --timeout 5 databases sqlite:///x", 2, "usage", "--timeout before databases"),
    ("ingest --dry-run --prune databases sqlite:///x", 2, "usage", "--dry-run, --prune before"),
    ("ingest --recipe all.toml databases sqlite:///x", 2, "usage", "--recipe takes no source"),
    ("files --limit 5 latest syslog web01", 2, "usage", "--limit before latest"),
    ("emit TagsAdded dataset:a/b --tag x --each -", 2, "usage", "omit URN"),
    ("emit - --each -", 2, "usage", "everything is in the JSON lines"),
    ("emit TagsAdded --each - --unit-id x --tag x", 2, "usage", "omit URN, and --unit-id"),
    ("emit TagsAdded dataset:a/b --tag x --unit", 2, "usage", "metajournal emit --unit -"),
    ("emit - dataset:a/b", 2, "usage", "JSON lines"),
    ("tail --since nonsense", 2, "not-a-time", "'nonsense' is not a valid time"),
    ("tail --kind Data", 2, "no-such-kind", "'Data' is not a valid kind"),
    ("tail --urn a*b", 2, "no-such-prefix", "dataset:default/*"),
    ("tail", 3, "kafka-unavailable", "kafka.bootstrap.servers"),
    ("shelve metajournal.journal.catalog 0 7", 3, "kafka-unavailable", "No Kafka broker"),
    ("verify", 1, "no-lake", "[lake] path"),
    ("rebuild index", 3, "no-lake", "There is no lake"),
    ("config show --orign", 2, "usage", "metajournal config show --help"),
    ("--set client.queue_event=1 config show", 2, "config", "Did you mean client.queue_events?"),
    ("--set client.queue_events=many config show", 2, "config", "a whole number"),
    ("--set client.queue_events config show", 2, "config", "section.key=value"),
    ("--set lake.storage_options=x config show", 2, "config", "must be names and texts, each given separately as"),
    ("--set journal.prefix=a/b config show", 2, "config", "a prefix of topic names"),
    ("--set kafka.acks=1 show dataset:a/b", 2, "config", "the journal's promises rest on it"),
    ("--set kafka.transactional.id=a show dataset:a/b", 2, "config", "for its units"),
    ("--set kafka.no.such.key=1 show dataset:a/b", 2, "config", "no.such.key"),
    ("--set elasticsearch.api_key_file=/no/such config show", 2, "config", "cannot be read"),
    ("--set lake.path=/tmp/%41 verify", 1, "lake-path", "without %"),
    ("--config no-such.toml config show", 2, "config", "no-such.toml"),
]


@pytest.fixture(autouse=True)
def _nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("METAJOURNAL__KAFKA__BOOTSTRAP_SERVERS", NOBODY)
    monkeypatch.setenv("METAJOURNAL__ELASTICSEARCH__URL", f"http://{NOBODY}")
    monkeypatch.setattr("metajournal.client.Journal.connect", _at_once(Journal.connect))
    monkeypatch.chdir(tmp_path)


def _at_once(connect: Callable[..., Journal]) -> Callable[..., Journal]:
    """Connecting that gives up after a moment: how long it is waited for is not what is asked here."""
    return lambda settings: connect(settings, connect_timeout_s=0.1)


@pytest.mark.parametrize(("line", "code", "name", "words"), TYPED, ids=[one[0] for one in TYPED])
def test_what_is_typed_wrong_or_cannot_be_done_is_said_with_the_next_step(
    line: str, code: int, name: str, words: str
) -> None:
    told = CliRunner().invoke(main, line.split(), prog_name="metajournal")
    assert (told.exit_code, told.stdout) == (code, "")
    first, _, rest = told.stderr.partition("\n  next: ")
    assert first.startswith(f"error[{name}]: ")
    assert SENTENCE.match(first), first
    assert rest.strip(), told.stderr
    assert words in told.stderr
    assert "Traceback" not in told.stderr


EMPTY: list[tuple[str, str]] = [
    ("show dataset:a/b --as-at ''", "not-a-time"),
    ("show dataset:a/b --as-of ''", "not-a-time"),
    ("show dataset:a/b --at-least ''", "invalid-position"),
    ("history dataset:a/b --as-of ''", "not-a-time"),
    ("history dataset:a/b --at-least ''", "invalid-position"),
    ("search x --namespace ''", "invalid-query"),
    ("search x --urns --namespace ''", "invalid-query"),
    ("search x --kind ''", "invalid-query"),
    ("search x --cursor ''", "invalid-cursor"),
    ("search x --as-at ''", "not-a-time"),
    ("search x --as-at '' --why", "usage"),
    ("search x --as-at '' --urns", "usage"),
    ("search x --at-least ''", "invalid-position"),
    ("files --work-id w --as-at ''", "not-a-time"),
    ("files latest a b --as-at ''", "not-a-time"),
    ("files record - --what ''", "usage"),
    ("repo import-git . --repository ''", "bad-name"),
    ("stream --master ''", "usage"),
    ("verify --master ''", "usage"),
    ("files record x y --what a --where b --id ''", "usage"),
    ("lineage dataset:a/b --as-at ''", "not-a-time"),
    ("lineage dataset:a/b --from ''", "not-a-time"),
    ("tail --since ''", "not-a-time"),
    ("repo list --as-at ''", "not-a-time"),
    ("repo branches sales --as-at ''", "not-a-time"),
    ("repo log sales --as-at ''", "not-a-time"),
    ("access revoke alice '' --all", "bad-input"),
    ("emit TagsAdded dataset:a/b --tag x --event-time ''", "not-a-time"),
    ("emit RunStarted run:a/b/spark/c/d --data ''", "not-json"),
    ("emit TagsAdded '' --tag x", "invalid-urn"),
    ("emit TagsAdded '' --each - --tag x", "usage"),
    ("emit TagsAdded --each - --unit-id '' --tag x", "usage"),
    ("emit TagsAdded dataset:a/b --tag x --unit-id ''", "usage"),
    ("emit - ''", "usage"),
    *((f"emit - {option}", "usage") for option in ("--description ''", "--actor ''", "--event-time ''", "--data ''")),
    *((f"emit - {option}", "usage") for option in ("--expected 0", "--all", "--tag ''", "--scope user")),
]
"""Options whose value is empty, or the number 0: that is what was said, and not that nothing was."""


@pytest.mark.parametrize(("line", "name"), EMPTY, ids=[line for line, _ in EMPTY])
def test_an_empty_value_is_an_answer_to_what_was_asked_and_never_nothing(line: str, name: str) -> None:
    told = CliRunner().invoke(main, shlex.split(line), prog_name="metajournal")
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"error[{name}]: ")


@pytest.mark.parametrize("line", ["show not-a-urn", "emit TagsAdded dataset:a/b", "--set a.b=1 config show", "verify"])
def test_for_programs_it_is_one_json_object_with_the_same_parts(line: str) -> None:
    told = CliRunner().invoke(main, [*line.split(), "--json"])
    found = json.loads(told.stdout)
    assert (found["ok"], told.stderr) == (False, "")
    assert all(found["error"][part] for part in ("code", "message", "hint"))


def records() -> list[JournalRecord]:
    """Two entities, of which one is deleted again, and a third one much later."""
    events: list[Any] = [EntityRegistered(KEPT), EntityRegistered(GONE), TagsAdded(KEPT, ["a"]), EntityDeleted(GONE)]
    return journal_of(*events, EntityRegistered(LATER))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A journal whose lake is folded and whose Kafka is away."""
    fold = Fold(tmp_path / "lake", PARTITIONS)
    fold.batch(records())
    settings = Settings(kafka={"bootstrap.servers": NOBODY}, lake=fold.settings.lake, journal=fold.settings.journal)
    topics = [settings.journal.topics.journal(domain) for domain in served_domains()]
    found = Journal(
        settings, Epochs({topic: TopicEpoch(topic, 1, "id", PARTITIONS) for topic in topics}), connect_timeout_s=0.1
    )
    yield found
    found.close()


CALLED: list[tuple[str, str, Callable[[Journal], Any], str]] = [
    ("no-such-entity", "unknown-entity", lambda j: j.show("dataset:a/b"), "metajournal search"),
    ("deleted", "unknown-entity", lambda j: j.show(GONE), "was deleted at"),
    ("deleted-then", "unknown-entity", lambda j: j.show(GONE), "(`--as-at TIME`)"),
    ("as-of-before", "unknown-then", lambda j: j.show(KEPT, as_of=NOON), "there is no accepted event about it by then"),
    ("as-of-after", "unknown-then", lambda j: j.show(GONE, as_of=NOON + 10), "it was deleted at 2015-09-03"),
    ("as-of-text", "not-a-time", lambda j: j.history(KEPT, as_of="monday"), "as_of: 'monday' is not a valid time"),
    (
        "as-of-before-what",
        "no-such-change",
        lambda j: j.history(KEPT, as_of=NOON + 10, before=7),
        "No change up to that time",
    ),
    ("before-it-was", "unknown-then", lambda j: j.show(LATER, as_at=1), "the journal's first event about it is of"),
    (
        "after-it-was-deleted",
        "unknown-then",
        lambda j: j.show(GONE, as_at=Position(*at_end(GONE))),
        "then: it was deleted",
    ),
    ("in-the-future", "not-final", lambda j: j.show(KEPT, as_at=4_102_444_800_000), "in the future"),
    ("far-in-the-future", "not-final", lambda j: j.show(KEPT, as_at=1 << 50), "milliseconds since 1970"),
    ("position-to-come", "not-final", lambda j: j.show(KEPT, as_at=Position(TOPIC, 0, 1 << 42)), "not final yet"),
    ("no-position", "invalid-position", lambda j: j.show(KEPT, as_at=Position("a", 7, 1)), "has no a/7"),
    ("as-at-text", "wrong-type", lambda j: j.show(KEPT, as_at=ANYTHING("monday")), "Position.parse"),
    ("as-at-true", "wrong-type", lambda j: j.show(KEPT, as_at=True), "not a point in time"),
    ("show-number", "invalid-urn", lambda j: j.show(ANYTHING(3)), "not a valid URN"),
    ("no-scope", "no-such-scope", lambda j: j.tags(KEPT, "ROOT"), "USER, SYSTEM or BOTH"),
    ("misspelt", "unknown-argument", lambda j: j.subscribe(sinse="latest"), "Did you mean since?"),  # type: ignore[call-arg]
    ("unknown", "unknown-argument", lambda j: j.states(wibble=1), "There are since, group"),  # type: ignore[call-arg]
    ("kinds", "wrong-type", lambda j: j.changes(kinds=3), "not 3"),  # type: ignore[arg-type]
    ("limit", "wrong-type", lambda j: j.subscribe(limit="all"), "limit must be a number"),  # type: ignore[arg-type]
    ("touches", "no-such-side", lambda j: j.subscribe(touches="both"), "additions or deletions"),
    ("search-kind", "unknown-argument", lambda j: j.search("x", kind="dataset"), "Did you mean kinds?"),  # type: ignore[call-arg]
    ("search-kinds", "wrong-type", lambda j: j.search("x", kinds=3), "text or a list"),  # type: ignore[arg-type]
    ("search-scope", "invalid-query", lambda j: j.search("x", scope="ALL"), "scope must be"),
    ("search-limit", "invalid-query", lambda j: j.search("x", limit=-1), "between 0 and"),
    ("search-sort", "invalid-query", lambda j: j.search("x", sort="age"), "sort must be one of"),  # type: ignore[arg-type]
    ("search-cursor", "invalid-cursor", lambda j: j.search("x", cursor="x"), "cursor"),
    ("search-away", "search-unavailable", lambda j: searched_where_nobody_is(j), "did not answer"),
    ("emit", "kafka-unavailable", lambda j: j.emit(TagsAdded(KEPT, ["x"])), "No Kafka broker answers"),
    ("no-such-kind", "invalid-urn", lambda j: urn("Kind", "x"), "not a valid URN"),
    ("a-list-as-tag", "invalid-event", lambda j: valid(TagsAdded(KEPT, ANYTHING([["x"]]))), "tags[0]"),
    ("settings-and-overrides", "bad-input", lambda j: CONNECT(j.settings, client={}), "not both"),
    ("acks", "config", lambda j: weaker(acks="1"), "kafka.acks must stay"),
    ("linger", "config", lambda j: weaker(**{"linger.ms": "5"}), "client.linger_ms"),
    ("nul", "config", lambda j: make_producer(Settings(kafka={"client.id": "a\0b"}), None), "NUL"),  # type: ignore[arg-type]
]


def at_end(entity: Urn) -> tuple[str, int, int]:
    """The place of an entity's last record, as the fold's topics have it."""
    own = [one for one in records() if one.key == f"default/{entity}".encode()]
    return TOPIC, own[-1].partition, own[-1].position


def searched_where_nobody_is(journal: Journal) -> Any:
    from dataclasses import replace

    away = replace(journal.settings, elasticsearch=replace(journal.settings.elasticsearch, url=f"http://{NOBODY}"))
    with Journal(away, journal.epochs) as other:
        return other.search("x", timeout_s=0.1)


def weaker(**kafka: str) -> Any:
    return producer_config(Settings(kafka={"bootstrap.servers": NOBODY, **kafka}))


def valid(event: TagsAdded) -> None:
    raise InvalidEventError(event.validate())


@pytest.mark.parametrize(("name", "code", "call", "words"), CALLED, ids=[one[0] for one in CALLED])
def test_what_a_program_asks_wrongly_is_said_with_the_next_step(
    journal: Journal, name: str, code: str, call: Callable[[Journal], Any], words: str
) -> None:
    with pytest.raises(MetajournalError) as caught:
        call(journal)
    error = caught.value
    assert error.code == code
    assert SENTENCE.match(error.message), error.message
    assert error.hint.endswith((".", "?", "`", ")")), error.hint
    assert words in error.message + error.hint
    assert exit_code(error) in (1, 2, 3)
    assert error.__notes__ == [f"  next: {error.hint}"]  # what a program's stack trace ends with


def test_there_are_at_least_thirty_of_them_and_each_says_something_of_its_own() -> None:
    assert len({(code, words) for *_, code, words in TYPED} | {(code, words) for _, code, _, words in CALLED}) >= 30
    assert len({one[2] for one in TYPED} | {one[1] for one in CALLED}) >= 20


def test_lineage_of_a_deleted_entity_says_when_it_was_deleted(journal: Journal) -> None:
    with pytest.raises(UnknownEntityError) as caught:
        journal.show(GONE)
    assert caught.value.data["deleted_at"] == journal.history(GONE)[-1].system_time


def test_a_time_between_two_changes_is_answered_and_says_whether_it_is_final(journal: Journal) -> None:
    first, last = journal.history(KEPT)
    then = journal.answer(KEPT, as_at=first.system_time)
    assert then.row is not None
    assert then.final == (last.system_time > first.system_time)
    now = journal.answer(KEPT, as_at=Position(*at_end(KEPT)))
    assert (now.row, now.final) == (last, True)
    assert last.logical_timestamp == position(1, 0) + last.logical_timestamp % (1 << 40)


def typed(monkeypatch: pytest.MonkeyPatch, journal: Journal, *words: str) -> Result:
    """What a command says over the folded lake."""
    monkeypatch.setattr(Options, "journal", lambda _: nullcontext(journal))
    return CliRunner().invoke(main, [*words])


def test_a_logical_timestamp_alone_is_a_time_and_the_error_names_the_position(
    monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    """The number of the table, pasted: 1099511627776 is in 2004, as milliseconds."""
    row = journal.history(KEPT)[0]
    told = typed(monkeypatch, journal, "show", KEPT, "--as-at", str(row.logical_timestamp))
    assert told.exit_code == 1
    assert f"There was no {KEPT} at 2004-11-" in told.stderr
    assert "a number alone is a time" in told.stderr
    position = Position(*journal.lake.place("default", KEPT), row.logical_timestamp)
    assert f"(position {position})" in told.stderr
    assert typed(monkeypatch, journal, "show", KEPT, "--as-at", str(position)).exit_code == 0


def test_what_history_prints_can_be_given_to_as_at(monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    told = typed(monkeypatch, journal, "history", KEPT)
    assert "registered" in told.stdout
    assert "no metadata" not in told.stdout
    position = json.loads(typed(monkeypatch, journal, "history", KEPT, "--json").stdout)[-1]["position"]
    assert f"--as-at {position}; its event: metajournal why {position}" in told.stdout
    shown = typed(monkeypatch, journal, "show", KEPT, "--as-at", position, "--json")
    assert json.loads(shown.stdout)["user"]["tags"] == ["a"]


def test_as_of_a_time_only_what_had_happened_by_then_is_shown(
    monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    first, last = journal.history(KEPT)
    assert journal.tags(KEPT, as_of=first.event_time) == ()
    assert journal.metadata(KEPT, "USER", as_of=last.event_time).tags == ("a",)
    assert journal.history(KEPT, as_of=last.event_time - 1) == [first]
    by_then = ("--as-of", str(first.event_time))
    shown = json.loads(typed(monkeypatch, journal, "show", KEPT, *by_then, "--json").stdout)
    assert (shown["user"]["tags"], shown["final"]) == ([], False)
    both = typed(
        monkeypatch, journal, "show", KEPT, "--as-of", "2030-01-01", "--as-at", str(first.system_time), "--json"
    )
    assert json.loads(both.stdout)["user"]["tags"] == []
    rows = json.loads(typed(monkeypatch, journal, "history", KEPT, *by_then, "--json").stdout)
    assert [row["logical_timestamp"] for row in rows] == [first.logical_timestamp]
    drawn = typed(monkeypatch, journal, "history", KEPT, "--as-of", "2030-01-01").stdout
    assert "happened at" in drawn
    assert "--as-at" not in drawn


def test_several_receipts_are_one_point(journal: Journal) -> None:
    places = [Position(TOPIC, one.partition, one.position) for one in records()]
    assert journal.show(KEPT, as_at=places) == journal.show(KEPT, at_least=places, timeout_s=0) == journal.show(KEPT)
    marks = cut_of(places)
    assert journal.show(KEPT, as_at=marks, at_least=marks, timeout_s=0) == journal.show(KEPT)
    assert journal.metadata(KEPT, as_at=iter(places)) == journal.metadata(KEPT)
    assert [one.row for one in journal.then([KEPT, LATER], iter(places)) if one is not None] == [
        journal.show(KEPT), journal.show(LATER),
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["show", "history"])
def test_who_looks_for_an_entity_of_an_unknown_kind_is_told_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, journal: Journal, command: str
) -> None:
    told = typed(monkeypatch, journal, command, "datset:a/b")
    assert told.exit_code == 1
    assert "error[unknown-entity]" in told.stderr
    assert "No domain declares the kind 'datset'; did you mean 'dataset'?" in " ".join(told.stderr.split())
    assert "did you mean" not in typed(monkeypatch, journal, command, "dataset:a/b").stderr
