"""Who holds a key, as the journal says now: with a stream that stands still, from a real topic and a real lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from metajournal import EntityRegistered, Journal
from metajournal.consumers import whole_topic as whole_module
from metajournal.consumers.pins import Pin, take_pins
from metajournal.domains.access import events as e
from metajournal.domains.access import keys as keys_module
from metajournal.domains.access.directory import Directory, RightsNotHeardError
from metajournal.domains.access.keys import KeyText, make_key, parse_key
from metajournal.domains.access.urns import key_urn, principal_urn, role_urn
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import UnavailableError
from metajournal.schemas.settings import JournalSettings, LakeSettings, Settings
from metajournal.schemas.urn import Urn
from tests.consumers.stream import BrokerStream
from tests.services import Services
from tests.wait import eventually

pytestmark = pytest.mark.services
X = Urn.parse("dataset:a/x")


@pytest.fixture(scope="module")
def journal(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    """One for all: each test has principals of its own."""
    own = Settings(
        journal=JournalSettings(prefix="directory", actor="tests", partitions=2),
        kafka={"bootstrap.servers": services.bootstrap_servers},
        lake=LakeSettings(path=str(tmp_path_factory.mktemp("lake"))),
    )
    ensure_topics(own)
    with Journal.connect(own) as journal:
        yield journal


@pytest.fixture(scope="module")
def stream(journal: Journal) -> BrokerStream:
    """A stream that has judged something of access, and goes on only when it is told to."""
    journal.emit(e.PrincipalRegistered(principal_urn("somebody")))
    journal.flush()
    stream = BrokerStream(journal.settings)
    stream.fold()
    return stream


@contextmanager
def opened(journal: Journal, **how: Any) -> Iterator[Directory]:
    directory = Directory(journal.settings, journal.epochs, **how)
    try:
        yield directory
    finally:
        directory.close()


def issued(journal: Journal, name: str, **said: Any) -> KeyText:
    key = make_key()
    journal.emit(e.KeyIssued(key_urn(name, key.id), key.hash, **said))
    return key


def emitted(journal: Journal, *events: Any) -> None:
    for event in events:
        journal.emit(event)
    journal.flush()


def test_a_process_knows_what_the_stream_has_not_judged(journal: Journal, stream: BrokerStream) -> None:
    emitted(
        journal,
        e.PrincipalRegistered(principal_urn("ann")),
        e.RolesGranted(principal_urn("ann"), [("mine", "dataset:a/*")]),
    )
    before = issued(journal, "ann")
    journal.flush()
    stream.fold()
    with opened(journal) as directory:
        directory.wait(30)
        assert directory.problem is None
        found = directory.who(before.text)
        assert found is not None
        assert (found.tenant, found.principal, found.key and found.key.id) == ("default", "ann", before.id)
        assert not found.rights.may("Read", X)
        assert directory.who(make_key().text) is None
        assert directory.who(before.text[:-1] + ("0" if before.text[-1] != "0" else "1")) is None
        forged = f"{before.text[:40]}{'0' * 53}"
        assert directory.who(forged) is None
        emitted(journal, e.RoleDefined(role_urn("mine"), ["ReadEntity"]))
        after = issued(journal, "ann")
        directory.wait(30)
        for key in (before, after):
            found = directory.who(key.text)
            assert found is not None
            assert found.rights.may("Read", X)
        emitted(journal, e.KeyRevoked(key_urn("ann", before.id)))
        directory.wait(30)
        assert directory.who(before.text) is None
        assert [one.id for one in directory.keys("default", "ann")] == [after.id]
        emitted(journal, e.PrincipalDisabled(principal_urn("ann")), e.PrincipalRegistered(principal_urn("ann")))
        directory.wait(30)
        assert directory.who(after.text) is None
        standing = [(one.name, one.enabled, one.keys) for one in directory.principals("default")]
        assert [one for one in standing if one[0] in ("ann", "somebody")] == [("ann", True, 0), ("somebody", True, 0)]


def test_it_says_when_an_event_is_in_what_is_known(journal: Journal, stream: BrokerStream) -> None:
    """Also one that changes nothing; of other topics at once, and who does not wait any longer is forgotten."""
    with opened(journal) as directory:
        directory.wait(30)
        other = journal.emit(EntityRegistered(X)).position
        assert directory.held(other).done()
        for _ in range(2):
            position = journal.emit(e.PrincipalRegistered(principal_urn("eli"))).position
            directory.held(position).result(30)
            assert directory.held(position).done()
        beyond = directory.held(replace(position, value=position.value + 1_000))
        assert beyond.cancel()
        assert not directory._awaited


def test_a_later_look_at_the_lake_never_brings_back_what_ended(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake still holds the key, the topic has ended it: each renewal of the pin reads the lake again."""
    emitted(journal, e.PrincipalRegistered(principal_urn("bea")))
    key = issued(journal, "bea")
    journal.flush()
    stream.fold()
    looks: list[int] = []
    monkeypatch.setattr(whole_module, "PIN_S", 0.0)

    def counted(*given: Any) -> list[Pin]:
        looks.append(1)
        return take_pins(*given)

    monkeypatch.setattr(whole_module, "take_pins", counted)
    with opened(journal) as directory:
        directory.wait(30)
        assert directory.who(key.text) is not None
        emitted(journal, e.KeyRevoked(key_urn("bea", key.id)))
        eventually(lambda: directory.who(key.text) is None, 30, "the key has ended")
        seen = len(looks)
        while len(looks) < seen + 5:
            assert directory.who(key.text) is None
        stream.fold()
        seen = len(looks)
        while len(looks) < seen + 5:
            assert directory.who(key.text) is None


def test_a_lake_that_is_away_does_not_keep_the_topic_from_being_heard(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted(journal, e.PrincipalRegistered(principal_urn("nora")))
    key = issued(journal, "nora")
    journal.flush()
    stream.fold()
    looks, is_away = list[bool](), False

    def looked(*given: Any) -> list[Pin]:
        looks.append(is_away)
        if is_away:
            raise UnavailableError("There is no lake.")
        return take_pins(*given)

    monkeypatch.setattr(whole_module, "PIN_S", 0.0)
    monkeypatch.setattr(whole_module, "_AGAIN_S", 0.1)
    monkeypatch.setattr(whole_module, "ASK_S", 0.05)
    monkeypatch.setattr(whole_module, "take_pins", looked)
    with opened(journal, stale_s=0.5) as directory:
        directory.wait(30)
        is_away = True
        while sum(looks) < 10:  # a second
            assert directory.who(key.text) is not None
        emitted(journal, e.KeyRevoked(key_urn("nora", key.id)))
        eventually(lambda: directory.who(key.text) is None, 30, "the key has ended")
        is_away, before = False, len(looks)
        eventually(lambda: looks[before:].count(False) > 1, 30, "the lake is looked at again")
        assert directory.who(key.text) is None


def test_expiry_is_judged_by_the_clock_of_who_asks(journal: Journal, stream: BrokerStream) -> None:
    emitted(journal, e.PrincipalRegistered(principal_urn("cleo")))
    key = issued(journal, "cleo", not_after=5_000)
    now = [5.0]
    with opened(journal, clock=lambda: now[0]) as directory:
        directory.wait(30)
        assert directory.who(key.text) is not None
        now[0] = 5.001
        assert directory.who(key.text) is None


def test_an_id_that_two_principals_have_is_neithers(journal: Journal, stream: BrokerStream) -> None:
    emitted(journal, e.PrincipalRegistered(principal_urn("dora")), e.PrincipalRegistered(principal_urn("eve")))
    key = issued(journal, "dora")
    with opened(journal) as directory:
        directory.wait(30)
        assert directory.who(key.text) is not None
        emitted(journal, e.KeyIssued(key_urn("eve", key.id), key.hash))
        directory.wait(30)
        assert directory.who(key.text) is None
        emitted(journal, e.KeyRevoked(key_urn("eve", key.id)))
        directory.wait(30)
        assert directory.who(key.text) is not None


def test_an_unknown_id_is_compared_as_a_wrong_secret_is(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the time of an answer does not tell which ids there are: each key that is one costs the same comparison."""
    emitted(journal, e.PrincipalRegistered(principal_urn("fay")), e.PrincipalRegistered(principal_urn("gil")))
    good, revoked, of_nobody = issued(journal, "fay"), issued(journal, "fay"), issued(journal, "gil")
    late = issued(journal, "fay", not_after=1)
    emitted(journal, e.KeyRevoked(key_urn("fay", revoked.id)), e.PrincipalDisabled(principal_urn("gil")))
    compared: list[tuple[str, str]] = []

    def equal(given: str, stored: str) -> bool:
        compared.append((given, stored))
        return given == stored

    with opened(journal) as directory:
        directory.wait(30)
        monkeypatch.setattr(keys_module, "hmac", SimpleNamespace(compare_digest=equal))
        asked = {
            "right": good, "another secret": with_another_secret(good), "unknown": make_key(), "revoked": revoked,
            "of a disabled principal": of_nobody, "expired": late,
        }  # fmt: skip
        for what, key in asked.items():
            compared.clear()
            assert (directory.who(key.text) is not None) == (what == "right"), what
            assert [(given, len(stored)) for given, stored in compared] == [(key.hash, 64)], what


def with_another_secret(key: KeyText) -> KeyText:
    """A key of the same id that nobody has issued, and whose check sum is right."""
    rest = f"mjk_{key.id}_{'0' * 64}"
    forged = parse_key(f"{rest}_{crc32(rest.encode()):08x}")
    assert forged is not None
    return forged


def test_where_the_topic_cannot_be_judged_the_lake_is_looked_at_and_nothing_old_is_told(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted(journal, e.PrincipalRegistered(principal_urn("emma")))
    key = issued(journal, "emma")
    journal.flush()
    stream.fold()
    monkeypatch.setattr(whole_module, "MOST_BEHIND", -1)  # as if the lake were too far behind
    monkeypatch.setattr(whole_module, "ASK_S", 0.05)
    with opened(journal, stale_s=0.5) as directory:
        directory.wait(30)
        assert directory.problem is not None
        assert once_heard(directory, key.text) is not None
        emitted(journal, e.KeyRevoked(key_urn("emma", key.id)))
        eventually(lambda: not directory.is_heard, 30, "the end is not reached")
        with pytest.raises(RightsNotHeardError):
            directory.who(key.text)
        stream.fold()
        assert once_heard(directory, key.text) is None


def once_heard(directory: Directory, text: str) -> Any:
    """Who has a key, by the first answer that is one: between two looks at the lake half a second may pass."""
    found: list[Any] = []

    def is_answered() -> bool:
        with suppress(RightsNotHeardError):
            found.append(directory.who(text))
        return bool(found)

    eventually(is_answered, 30, "the end is heard")
    return found[0]


def test_a_key_is_shown_by_its_id_and_reads_back() -> None:
    key = make_key()
    again = parse_key(key.text)
    assert again is not None
    assert (again.id, again.hash, again.is_of(key.hash)) == (key.id, key.hash, True)
    assert not again.is_of(None)
    assert not again.is_of(make_key().hash)
    assert key.text not in repr(key)
    for wrong in ("", key.text.upper(), key.text + "0", "mjk" + key.text, key.text.replace(key.id, make_key().id)):
        assert parse_key(wrong) is None
