"""What becomes of an event that comes in over HTTP, in which order, which right is asked first; without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import pytest

from metajournal import AccessesRecorded, PropertiesSet, RunStopped, dataset, run
from metajournal.domains.access.rights import Rights
from metajournal.domains.lineage import facets, openlineage, receiving
from metajournal.domains.lineage.receiving import RECEIVING, read
from metajournal.schemas.endpoints import Request
from metajournal.schemas.errors import ForbiddenError, InputError, MetajournalError, UnavailableError

NOON_MS = 1_767_268_800_000
RUN = run("airflow", "load", "workflow", "load", "r1")
ADMIN: list[tuple[str, str]] = [("admin", "*")]
MANY = 5_000


class Sends:
    """Takes what is sent, in its order.

    Args:
        refuses: raised by whatever is sent.
        hangs: whether nothing is ever known of a dataset.
    """

    left_s = 60.0
    positions = ()

    def __init__(self, *, refuses: MetajournalError | None = None, hangs: bool = False) -> None:
        self.sent: list[Any] = []
        self._refuses = refuses
        self._hangs = hangs
        self._receiver: Any = None

    def kept(self, make: Callable[[], Any]) -> Any:
        self._receiver = self._receiver or make()
        return self._receiver

    def refused(self, error: ForbiddenError) -> None: ...

    async def follow(self, urn: Any) -> None: ...

    async def newest(self, urn: Any) -> Any:
        if self._hangs and urn.kind == "dataset":
            await asyncio.Event().wait()

    async def send_all(self, facts: Sequence[Any], *, event_time: int) -> None:
        for fact in facts:
            await self.send(fact, event_time=event_time)

    async def send(self, event: Any, *, event_time: int, expected: int | None = None) -> int:
        if self._refuses is not None:
            raise self._refuses
        self.sent.append(event)
        return len(self.sent)

    async def write(self, event: Any, *, event_time: int, expected: int | None = None) -> Any:
        await self.send(event, event_time=event_time)
        return SimpleNamespace()

    @property
    def properties(self) -> dict[str, dict[str, str]]:
        """By entity what was set, without times."""
        return {
            str(event.entity): {key: value for key, value in event.properties.items() if key != "openlineage.times"}
            for event in self.sent
            if isinstance(event, PropertiesSet)
        }


def event(**more: Any) -> dict[str, Any]:
    whole = {
        "eventType": "COMPLETE", "eventTime": "2026-01-01T12:00:00Z",
        "run": {"runId": "r1", "facets": {"parent": {"a": 1}}},
        "job": {"namespace": "airflow", "name": "load", "facets": {"sql": {"query": "select 1"}}},
    }  # fmt: skip
    return {**whole, **more}


def data(count: int, **facets: Any) -> list[dict[str, Any]]:
    return [{"namespace": "s3://lake", "name": f"d{number}", "facets": facets} for number in range(count)]


def asked(body: Any, grants: Sequence[tuple[str, str]] = ADMIN) -> Request:
    return Request({}, {}, body, "default", "somebody", NOON_MS, rights=Rights(grants, {}))


async def taken(sends: Sends, body: Any) -> Any:
    """The answer to an event, or to a batch of them."""
    path = "/api/v1/lineage/batch" if isinstance(body, list) else "/api/v1/lineage"
    take: Any = next(one.sends for one in RECEIVING if one.path == path)
    return (await take(sends, asked(body))).value


def answered(sends: Sends, body: Any) -> Any:
    return asyncio.run(taken(sends, body))


def test_data_without_a_usable_name_lose_nothing_else_of_an_event() -> None:
    sends = Sends()
    odd = [{"namespace": "s3://my_bucket", "name": ""}, {"namespace": "s3://lake", "name": "x" * 2_000}]
    answer = answered(sends, event(inputs=[odd[0]], outputs=[*odd, *data(1, storage={"a": 1})]))
    assert answer == {"ok": True, "omitted": [
        {"entity": "s3://my_bucket", "facet": "", "reason": "not-a-name"},
        {"entity": f"s3://lake {'x' * 190}…", "facet": "", "reason": "not-a-name"},
    ]}  # fmt: skip
    written = [(dataset("s3://lake", "d0"), "write", NOON_MS)]
    assert sends.sent[:2] == [RunStopped(RUN, NOON_MS, "COMPLETED"), AccessesRecorded(RUN, written)]
    assert sends.properties[dataset("s3://lake", "d0")] == {"openlineage.storage": '{"a":1}'}


@pytest.mark.parametrize(
    "change",
    [{"job": {"namespace": "airflow", "name": ""}}, {"run": {"runId": ""}}, {"outputs": [{"namespace": "s3://lake"}]},
     {"job": {"namespace": "airflow", "name": "x" * 600}}],
)  # fmt: skip
def test_a_run_or_job_without_a_usable_name_makes_no_event(change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        answered(Sends(), event(**change))
    assert refused.value.code == "no-run-event"


def test_a_dataset_event_without_a_usable_name_is_none() -> None:
    with pytest.raises(InputError):
        answered(Sends(), {"eventTime": "2026-01-01T12:00:00Z", "dataset": {"namespace": "s3://lake", "name": ""}})


def test_of_data_that_an_event_reads_and_writes_what_it_wrote_stands() -> None:
    for inputs, outputs in (("1", "2"), ("2", "1")):
        sends = Sends()
        sides = {"inputs": data(1, version={"v": inputs}, storage={}), "outputs": data(1, version={"v": outputs})}
        assert answered(sends, event(**sides))["omitted"] == []
        assert sends.properties[dataset("s3://lake", "d0")] == {
            "openlineage.version": f'{{"v":"{outputs}"}}', "openlineage.storage": "{}",
        }  # fmt: skip


def test_the_facets_of_run_and_job_are_there_before_those_of_thousands_of_data() -> None:
    sends = Sends(hangs=True)

    async def until_both_are_there() -> None:
        async with asyncio.timeout(30.0):
            answer = asyncio.ensure_future(taken(sends, event(outputs=data(200, storage={"a": 1}))))
            while len(sends.properties) < 2:
                await asyncio.sleep(0)
            answer.cancel()

    asyncio.run(until_both_are_there())
    assert isinstance(sends.sent[0], RunStopped)
    assert sends.properties == {
        str(RUN): {"openlineage.parent": '{"a":1}'},
        "program:airflow/load/workflow/load": {"openlineage.sql": '{"query":"select 1"}'},
    }


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data get a URN."""

    def fail(*_: Any) -> None:
        raise AssertionError("data were read")

    monkeypatch.setattr(openlineage, "data_of", fail)
    monkeypatch.setattr(facets, "data_of", fail)


@pytest.mark.usefixtures("no_names")
@pytest.mark.parametrize("grants", [[], [("emitter", "*:other/*")], [("analyst", "*")]])
def test_the_right_to_the_run_is_asked_before_its_data_are_read(grants: list[tuple[str, str]]) -> None:
    with pytest.raises(ForbiddenError) as refused:
        read(event(inputs=data(MANY)), asked(None, grants))
    assert str(RUN) in refused.value.message


@pytest.mark.usefixtures("no_names")
def test_who_may_record_no_lineage_at_all_is_refused_before_the_data_of_a_job_are_read() -> None:
    of_job = {key: value for key, value in event(inputs=data(MANY)).items() if key not in ("run", "eventType")}
    with pytest.raises(ForbiddenError):
        read(of_job, asked(None, [("analyst", "*")]))
    with pytest.raises(InputError):
        read({**of_job, "job": {"namespace": "airflow"}}, asked(None, []))


def test_a_job_event_without_data_needs_no_right_on_lineage() -> None:
    of_job = {key: value for key, value in event().items() if key not in ("run", "eventType")}
    rights = Rights([("writer", "*")], {"writer": frozenset({"WriteEntity"})})
    found = read(of_job, Request({}, {}, None, "default", "somebody", NOON_MS, rights=rights))
    assert (found.facts, [str(entity) for entity in found.facets]) == ([], ["program:airflow/load/workflow/load"])


def test_an_event_of_many_data_is_read_beside_the_loop_and_becomes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def watched(body: Any, request: Request) -> Any:
        threads.append(current_thread() is main_thread())
        return read(body, request)

    monkeypatch.setattr(receiving, "read", watched)
    odd = {"namespace": "s3://my_bucket", "name": ""}
    large = event(inputs=[*data(400, schema={"fields": [{"name": "a"}]}), odd], outputs=data(40, version={"v": 1}))
    became = []
    for few in (300, 10_000):
        monkeypatch.setattr(receiving, "_FEW", few)
        sends = Sends()
        became.append((answered(sends, large), sends.sent))
    assert threads == [False, True]
    assert became[0] == became[1]
    assert len(became[0][1]) == 2 + 2 * 402
    for refused in ({}, event(inputs=[*data(400), {}]), 5, None):
        for few in (-1, 10_000):
            monkeypatch.setattr(receiving, "_FEW", few)
            with pytest.raises(InputError):
                answered(Sends(), refused)


def test_a_batch_of_which_nothing_was_stored_comes_again_if_some_of_it_may() -> None:
    away = UnavailableError("The broker is away.", code="not-acknowledged")
    with pytest.raises(UnavailableError) as refused:
        answered(Sends(refuses=away), [{}, event(), event()])
    assert refused.value is away
    assert answered(Sends(), [{}, event()])["status"] == "partial_success"
    assert answered(Sends(refuses=away), [{}, {}])["status"] == "failure"
    assert answered(Sends(), [])["status"] == "success"
