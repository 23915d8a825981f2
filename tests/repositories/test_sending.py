"""Many entries and paths are sent in events that take them; an error says what was sent before it, and no wait is
longer than its action's."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from metajournal.cli import main as cli
from metajournal.domains.repositories.answers import BranchInfo
from metajournal.domains.repositories.client import Branch, RepositoriesClient, Repository
from metajournal.domains.repositories.errors import DirtyBranchError, NothingStagedError
from metajournal.domains.repositories.reads import RepositoryReads
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import EventTooLargeError, InvalidEventError, QueueFullError
from metajournal.schemas.settings import Settings
from tests.builders import header_for

GIANT = {"path": "giant", "size": 1, "checksum": "c", "blocks": [["b" * 1_000, 1, "c" * 100]] * 1_000}
TIMEOUT_S = 7.5


def entry(number: int) -> dict[str, Any]:
    return {"path": f"{number}", "size": 1, "checksum": "c", "address": "s3://b/1"}


class Taking:
    """A journal that takes some events, and then none.

    Args:
        most: how many it takes.
    """

    settings = Settings()

    def __init__(self, most: int = 1_000) -> None:
        self.most = most
        self.events: list[Any] = []

    def emit(self, event: Any, **said: Any) -> Any:
        if faults := event.validate():
            raise InvalidEventError(faults)
        codec.encode(event, header_for(event))
        if len(self.events) == self.most:
            raise QueueFullError("1,000,000 events wait for their acknowledgement.")
        self.events.append(event)
        return event

    def opened(self, name: str, opens: Any) -> Any:
        return None

    def flush(self, timeout_s: float | None = None) -> None:
        pytest.fail("it waits longer than it was asked to")


def repository(journal: Any) -> Repository:
    return RepositoriesClient(journal)["r1"]


@pytest.mark.parametrize(
    ("act", "stays"),
    [
        (lambda repo: repo.branch("main").write(entry(number) for number in range(2_500)), "stay staged"),
        (lambda repo: repo.branch("main").delete(map(str, range(2_500)), only_existing=False), "stay staged"),
        (lambda repo: repo.register(map(str, range(2_500))), "stay"),
        (lambda repo: repo.unregister(map(str, range(2_500))), "stay"),
    ],
)
def test_where_the_queue_is_full_in_the_middle_the_error_says_how_many_were_sent(
    act: Callable[[Repository], Any], stays: str
) -> None:
    journal = Taking(most=2)
    with pytest.raises(QueueFullError) as full:
        act(repository(journal))
    assert (full.value.data["sent"], vars(full.value)["sent"], len(journal.events)) == (2_000, 2_000, 2)
    assert full.value.hint.startswith(QueueFullError.HINT)
    assert full.value.hint.endswith(f"Go on from number 2,000; the 2,000 in front {stays}.")
    assert full.value.__notes__ == [f"  next: {full.value.hint}"]
    with pytest.raises(QueueFullError) as first:
        act(repository(Taking(most=0)))
    assert "sent" not in first.value.data


def test_an_entry_that_no_event_takes_is_refused_before_the_first_is_sent() -> None:
    journal = Taking()
    with pytest.raises(InvalidEventError) as refused:
        repository(journal).branch("main").write([*map(entry, range(1_500)), GIANT])
    [fault] = refused.value.faults
    assert (fault.field, journal.events) == ("entries[1500]", [])
    assert "give fewer blocks" in fault.message
    assert "nothing was sent" in refused.value.hint
    with pytest.raises(EventTooLargeError) as streamed:  # what comes one by one is not looked at beforehand
        repository(journal).branch("main").write(one for one in [*map(entry, range(1_500)), GIANT])
    assert (streamed.value.data["sent"], len(journal.events)) == (1_500, 2)


@pytest.mark.parametrize(
    ("wrong", "faults"),
    [
        ({"colour": 1}, ["entries[1]: has no field 'colour'; its fields are path, size, "]),
        ({"size": "3"}, ["entries[1].size: must be a whole number of bytes, not '3'"]),
        ({"checksum": ...}, ["entries[1].checksum: is missing"]),
        ({"address": ...}, ["entries[1].address: give either address or blocks"]),
        ({"path": ..., "size": ...}, ["entries[1].path: is missing", "entries[1].size: is missing"]),
        (
            {"colour": 1, 2: 3, "size": "3", "checksum": ..., "path": ""},
            ["entries[1]: has no field 'colour', 2; its", "entries[1].checksum: is missing",
             "entries[1].path: must not be empty", "entries[1].size: must be a whole number"],
        ),
        (dict.fromkeys(range(12), 1), ["entries[1]: has no field 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …; its fields are"]),
        ({"colour": 1, "blocks": [["b", 1, "c"]], "address": ...}, ["entries[1]: has no field 'colour'"]),
        ({"blocks": 7, "address": ..., "checksum": ...},
         ["entries[1].checksum: is missing", "entries[1].blocks: must be a list of blocks"]),
    ],
)  # fmt: skip
def test_of_a_mapping_that_is_no_entry_each_field_that_is_wrong_is_named(
    wrong: dict[Any, Any], faults: list[str]
) -> None:
    """Three dots stand for a field that is left out."""
    given = {key: value for key, value in {**entry(1), **wrong}.items() if value is not ...}
    journal = Taking()
    with pytest.raises(InvalidEventError) as refused:
        repository(journal).branch("main").write([entry(0), given])
    told = [str(fault) for fault in refused.value.faults]
    assert len(told) == len(faults), told
    assert all(one.startswith(fault) for one, fault in zip(told, faults, strict=True)), told
    assert journal.events == []


def test_a_line_that_no_event_takes_is_refused_before_anything_is_connected_to(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{json.dumps(entry(1))}\n{json.dumps(GIANT)}\n")
    told = CliRunner().invoke(cli, ["repo", "write", "r1", "main", str(lines), "--json"])
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["code"]) == (2, "invalid-event")
    assert "line 2: takes " in error["message"]


@pytest.mark.parametrize("name", ["register", "unregister"])
@pytest.mark.parametrize("text", ["x" * 990, "ä" * 160, "%" * 330])
def test_a_thousand_long_paths_are_registered_in_events_that_take_them(name: str, text: str) -> None:
    """Each stands in its event twice, as it is and in its URN."""
    journal, paths = Taking(), [f"{number:04}{text}" for number in range(1_000)]
    receipts = getattr(repository(journal), name)(paths)
    assert [path for event in journal.events for path in event.paths] == paths
    assert len(receipts) == len(journal.events) == -(-len(paths) // len(journal.events[0].paths))


def test_a_path_that_cannot_be_registered_says_what_was_sent_before() -> None:
    journal = Taking()
    with pytest.raises(InvalidEventError) as refused:
        repository(journal).register([*map(str, range(1_000)), "a", "b//c"])
    assert (refused.value.data["sent"], [one.field for one in refused.value.faults]) == (1_000, ["paths[1]"])
    assert "counted from number 1,000 on; the 1,000 in front stay." in refused.value.hint


def committed_itself(repo: Repository) -> None:
    transaction = repo.transaction("main", timeout_s=TIMEOUT_S)
    transaction._committed()


@pytest.mark.parametrize(
    ("act", "waits"),
    [
        (lambda repo: repo.branch("dev").merge_into("main", timeout_s=TIMEOUT_S), 2),
        (lambda repo: repo.branch("dev").delete(["a"], timeout_s=TIMEOUT_S), 1),
        (lambda repo: repo.branch("dev").reset(path="a", timeout_s=TIMEOUT_S), 1),
        (lambda repo: repo.branch("dev").reset(prefix="a", timeout_s=TIMEOUT_S), 1),
        (lambda repo: repo.transaction("main", timeout_s=TIMEOUT_S).__enter__(), 1),
        (committed_itself, 2),
    ],
)
def test_every_wait_of_an_action_is_as_long_as_it_was_asked_to(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[Repository], Any], waits: int
) -> None:
    waited: list[float] = []

    def asked(reads: Any, tenant: str, as_at: Any, timeout_s: float, tables: Any, ask: Any) -> Any:
        waited.append(timeout_s)
        return Known("branch:r1/main", "main", "ab" * 32, 1, 1, "00" * 16, 1)

    def nothing(*_: Any, **__: Any) -> Any:
        raise NothingStagedError("branch:r1/main")

    monkeypatch.setattr(RepositoryReads, "_asked", asked)
    monkeypatch.setattr(Branch, "commit", nothing)
    monkeypatch.setattr("metajournal.domains.repositories.client.Verdicts", Judged)
    with suppress(DirtyBranchError, InvalidEventError):
        act(repository(Taking()))
    assert waited == [TIMEOUT_S] * waits


class Known(BranchInfo):
    """A branch, and what else is asked about it: no path is there."""

    def __contains__(self, _: object) -> bool:
        return False


class Judged:
    """Verdicts that nobody asks for."""

    @classmethod
    def of(cls, journal: Any) -> Judged:
        return cls()
