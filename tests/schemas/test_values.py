"""Positions, cuts, topic names, hashes, settings and errors are what the architecture says."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metajournal
from metajournal import MetajournalError, Position, Settings
from metajournal.schemas import errors, hashing, positions, topics
from metajournal.schemas.topics import TopicNames

cuts = st.dictionaries(
    st.tuples(st.sampled_from(["a.journal.x", "b"]), st.integers(0, 300)), st.integers(0, 2**62), max_size=5
)


@given(st.integers(1, 2**20), st.integers(0, 2**40 - 1))
def test_a_position_holds_epoch_and_offset(epoch: int, offset: int) -> None:
    value = positions.position(epoch, offset)
    assert value == epoch * 2**40 + offset
    assert (positions.epoch_of(value), positions.offset_of(value)) == (epoch, offset)


@pytest.mark.parametrize(("epoch", "offset"), [(0, 1), (1, -1), (1, 2**40), (2**23, 0)])
def test_what_is_no_position_is_refused(epoch: int, offset: int) -> None:
    with pytest.raises(errors.InvalidPositionError):
        positions.position(epoch, offset)


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 999), st.integers(0, 2**63 - 1))
def test_printed_positions_read_back(topic: str, partition: int, value: int) -> None:
    position = Position(topic, partition, value)
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize("text", ["", "t", "t/1", "/1/2", "t/x/2", "t/1/-2", "t/1/2/3", "t/1/²", "t/1/" + "9" * 20])
def test_other_texts_are_no_positions(text: str) -> None:
    with pytest.raises(errors.InvalidPositionError):
        Position.parse(text)


@given(cuts)
def test_cuts_survive_json(cut: dict[tuple[str, int], int]) -> None:
    assert positions.cut_from_json(positions.cut_to_json(cut)) == cut


@pytest.mark.parametrize("data", [None, [], {"t": 1}, {"t": {"x": 1}}, {"t": {"0": None}}])
def test_other_json_is_no_cut(data: object) -> None:
    with pytest.raises(errors.InvalidPositionError):
        positions.cut_from_json(data)


@given(cuts, cuts)
def test_merged_cuts_hold_both(left: dict[tuple[str, int], int], right: dict[tuple[str, int], int]) -> None:
    merged = positions.merge(left, right)
    assert not positions.behind(merged, left)
    assert not positions.behind(merged, right)
    assert all(value in (left.get(key), right.get(key)) for key, value in merged.items())


def test_a_position_covers_what_is_not_beyond_it_in_its_own_partition() -> None:
    here = Position("t", 1, 5)
    others = [Position("t", 1, 4), here, Position("t", 1, 6), Position("t", 0, 4), Position("u", 1, 4)]
    assert [here.covers(one) for one in others] == [True, True, False, False, False]


def test_marks_show_what_stands_below_them() -> None:
    first = Position("t", 0, positions.position(1, 0))
    assert not positions.shows({}, first)
    assert not positions.shows({("t", 0): first.value}, first)
    assert positions.shows({("t", 0): first.value + 1}, first)
    assert positions.behind({}, {("t", 0): positions.position(1, 7)}) == {("t", 0): 7}
    several = [first, Position("t", 0, first.value + 3), Position("t", 1, 5), first]
    assert positions.cut_of(several) == {("t", 0): first.value + 4, ("t", 1): 6}
    assert all(positions.shows(positions.cut_of(several), position) for position in several)
    assert (first.epoch, first.offset) == (1, 0)


def test_topics_have_the_names_of_the_architecture() -> None:
    names = TopicNames("mj")
    assert names.journal("catalog") == "mj.journal.catalog"
    assert names.changes("catalog") == "mj.changes.catalog"
    assert names.annotations_system == "mj.changes.catalog.system"
    assert (names.state("files"), names.outcomes("files")) == ("mj.state.files", "mj.outcomes.files")
    assert (names.schemas, names.epochs, names.dlq) == ("mj.schemas", "mj.epochs", "mj.dlq")
    assert names.domain_of("mj.journal.catalog") == "catalog"


def test_only_the_catalogs_change_topic_is_renamed() -> None:
    names = TopicNames("mj", "audit")
    assert names.changes("catalog") == "audit"
    assert names.changes("files") == "mj.changes.files"
    assert Settings().journal.topics == TopicNames("metajournal")


@pytest.mark.parametrize("topic", ["mj.journal.", "other.journal.catalog", "mj.changes.catalog", "mj.journal.a.b"])
def test_other_topics_have_no_domain(topic: str) -> None:
    with pytest.raises(topics.UnknownTopicError):
        TopicNames("mj").domain_of(topic)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
        ("", 275646681),
    ],
)
def test_murmur2_is_javas(text: str, expected: int) -> None:
    """Vectors of Kafka's UtilsTest.testMurmur2, and of the empty key."""
    assert hashing.murmur2(text.encode()) == expected


@given(st.binary(max_size=40), st.integers(1, 64))
def test_partitions_are_in_range(key: bytes, partitions: int) -> None:
    assert 0 <= hashing.partition_of(key, partitions) < partitions


def test_a_digest_is_16_bytes_of_blake2b() -> None:
    assert hashing.digest(b"").hex() == "cae66941d9efbd404e4d88758ea67670"
    assert hashing.record_key("default", "dataset:a/b") == b"default/dataset:a/b"


def test_canonical_json_has_one_spelling() -> None:
    assert hashing.canonical_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'.encode()
    for unspeakable in (float("nan"), "\ud800"):
        with pytest.raises(ValueError):
            hashing.canonical_json(unspeakable)


def test_settings_are_frozen_and_have_the_documented_defaults() -> None:
    settings = Settings()
    assert (settings.journal.partitions, settings.client.queue_events) == (4, 100_000)
    assert settings.kafka == {"bootstrap.servers": "127.0.0.1:9092"}
    assert settings.indexer.bulk_bytes == 8 * 2**20
    with pytest.raises(FrozenInstanceError):
        settings.journal = settings.journal  # type: ignore[misc]


def test_errors_carry_their_data_and_cross_processes() -> None:
    made: list[MetajournalError] = [
        errors.InvalidEventError([errors.Fault("tags[2]", "must not be empty")]),
        errors.EventTooLargeError(2_000_000, 1_048_576, "properties"),
        errors.UnknownSchemaError("t", 1, 2, 3),
        errors.RejectedError("too-large", "it is", Position("t", 0, 1)),
        errors.MissingExtraError("lake", "Reading history"),
        errors.NotYetVisibleError({("t", 0): 5}),
        errors.UnservedDomainError("files", "file:a/b/c"),
        errors.UnknownEntityError("dataset:a/b"),
        errors.UnknownFingerprint(7),
        errors.Undecodable("it ends too early"),
        errors.KafkaUnavailableError("away", servers="x"),
    ]
    for error in made:
        twin = pickle.loads(pickle.dumps(error))
        assert type(twin) is type(error)
        assert (str(twin), twin.code, twin.hint, twin.data) == (str(error), error.code, error.hint, error.data)
        for name, value in error.data.items():
            assert getattr(twin, name) == value
        assert error.code != MetajournalError.CODE
        assert error.hint


def test_every_error_code_is_used_once() -> None:
    codes = [error.CODE for error in _subclasses(MetajournalError) if "CODE" in vars(error)]
    assert len(codes) == len(set(codes))


def _subclasses(root: type[MetajournalError]) -> list[type[MetajournalError]]:
    direct = [error for error in root.__subclasses__() if error.__module__.startswith("metajournal.schemas")]
    return direct + [below for error in direct for below in _subclasses(error)]


def test_every_public_name_of_the_language_is_there() -> None:
    for name in set(metajournal.__all__) - {"Journal"}:
        assert getattr(metajournal, name) is not None
    assert set(metajournal.__all__) <= set(dir(metajournal))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = metajournal.Nothing
