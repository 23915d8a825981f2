"""What `domains add` writes into the epochs topic, and when it refuses, without any stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metajournal.producers.compacted import read_all, write_all
from metajournal.producers.topics import SHELVE, ensure_topics
from metajournal.schemas.settings import Settings
from tests.outside.installation import Beside
from tests.outside.test_installed import declaring
from tests.toys.installing import install, install_toys

pytestmark = pytest.mark.usefixtures("kafka")
ADD = """
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import MetajournalError
from metajournal.streaming.between.adding import add_domain
ensure_topics(settings)
try:
    epochs = add_domain(settings, {name!r}, timeout_s=20)
    tell([epochs.domains, epochs[settings.journal.topics.journal({name!r})].served.fields()])
except MetajournalError as error:
    tell([error.code, str(error)])
"""


def read_by_0_1_0(records: dict[str, bytes]) -> dict[str, tuple[int, str, int]]:
    """How version 0.1.0 reads the topic: whatever it cannot read so, it refuses."""
    topics = {}
    for key, value in records.items():
        if key.startswith(SHELVE):
            _, partition, position = key.removeprefix(SHELVE).rsplit("/", 2)
            int(partition), int(position)
        else:
            said = json.loads(value)
            topics[key] = int(said["epoch"]), str(said["topic_id"]), int(said["partitions"])
    return topics


def epochs_of(settings: Settings) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in read_all(settings, settings.journal.topics.epochs).items()}


def test_a_domain_is_recorded_in_fields_that_older_versions_pass_over(settings: Settings, tmp_path: Path) -> None:
    """Twice is as once; topics of an interrupted attempt are taken as they are, but not what somebody wrote into."""
    has = Beside(settings, tmp_path, (install_toys(tmp_path / "site"),))
    lacks = Beside(settings, tmp_path)
    names = settings.journal.topics
    domains, fields = has.python(ADD.format(name="toys"))
    assert domains[-1] == "toys"
    topic = names.journal("toys")
    recorded = epochs_of(settings)
    assert {**recorded[topic], **fields} == recorded[topic]
    assert fields["kinds"] == [
        {"name": "toybox", "min_parts": 1, "max_parts": 1},
        {"name": "toy", "min_parts": 2, "max_parts": 2, "aggregate": {"kind": "toybox", "parts": 1}},
    ]
    begin = 1 << 40
    cuts = {names.journal("catalog"): [begin] * 4, names.journal("files"): [begin] * 4}
    assert fields["cuts"] == cuts | {names.journal(name): [2 * begin] * 4 for name in ("access", "repositories")}
    joined = (topic, names.journal("access"), names.journal("repositories"))
    old = read_by_0_1_0(read_all(settings, names.epochs))
    assert old == {
        key: (2 if key in joined else 1, one["topic_id"], one["partitions"]) for key, one in recorded.items()
    }
    assert "kinds" in recorded[names.journal("catalog")]
    assert has.python(ADD.format(name="toys")) == [domains, fields]

    required = """
from metajournal.producers.recorded.served import require_packages
from metajournal.producers.topics import check_topics
from metajournal.schemas.errors import DomainError
try:
    require_packages(check_topics(settings).outside)
    tell("fine")
except DomainError as error:
    tell([error.code, error.package, "pip install metajournal-toys" in error.hint])
"""
    assert has.python(required) == "fine"
    assert lacks.python(required) == ["missing-domain", "metajournal-toys", True]

    other = declaring(tmp_path / "folders", "playthings", "playthings", "toy ball")
    others = Beside(
        settings, tmp_path, (install(tmp_path / "other", "playthings", {"playthings": "playthings"}, other),)
    )
    code, said = others.python(ADD.format(name="playthings"))
    assert code == "declared-twice"
    assert "This journal serves the kind toy by the domain toys of metajournal-toys; playthings declares it" in said

    forgotten = {topic: None}
    write_all(settings, names.epochs, forgotten)
    assert has.python(ADD.format(name="toys"))[0] == domains
    write_all(settings, names.epochs, forgotten)
    write_all(settings, topic, {"default/toybox:a": b"whoever wrote this"})
    code, said = has.python(ADD.format(name="toys"))
    assert code == "topic-in-use"
    assert topic in said


def test_a_domain_is_not_added_before_everything_is_judged(settings: Settings, tmp_path: Path) -> None:
    """An event that waits may be of one of its kinds: neither before nor behind a cut that nobody has drawn."""
    has = Beside(settings, tmp_path, (install_toys(tmp_path / "site"),))
    ensure_topics(settings)
    has.python("""
        from metajournal import EntityRegistered, Journal, urn
        with Journal.connect(settings) as journal:
            journal.emit(EntityRegistered(urn("toy", "attic", "bear"))).position
            journal.flush()
        tell(None)
    """)
    code, said = has.python(ADD.format(name="toys"))
    assert code == "not-yet-visible"
    assert f"{settings.journal.topics.journal('catalog')}/" in said
    assert settings.journal.topics.journal("toys") not in epochs_of(settings)


def test_events_of_a_domain_that_is_not_served_are_refused_before_they_are_sent(
    settings: Settings, tmp_path: Path
) -> None:
    has = Beside(settings, tmp_path, (install_toys(tmp_path / "site"),))
    ensure_topics(settings)
    found = has.python("""
        from metajournal import Journal, MetajournalError
        from metajournal_toys.events import ToyMade
        def told(ask):
            try:
                ask()
            except MetajournalError as error:
                return [error.code, "metajournal domains add toys" in error.hint or "toys.ToyMade.1; no" in str(error)]
        with Journal.connect(settings) as journal:
            tell([
                told(lambda: journal.emit(ToyMade("toy:attic/bear", "wood"))),
                told(lambda: journal.emit_unit([ToyMade("toy:attic/bear", "wood")])),
                told(lambda: journal.domain("toys")), told(lambda: journal.domain("files"))[0],
            ])
    """)
    assert found == [["unserved-domain", True], ["invalid-unit", True], ["unserved-domain", True], "bad-input"]
