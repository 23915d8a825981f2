"""Metrics: what a real run shows, the dashboard and the alert rules that name it, and a port that cannot be had."""

from __future__ import annotations

import json
import logging
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.gateway import figures as gateway
from metajournal.metrics import BATCH, EVENTS, FIGURES, LAG, Endpoint, Figures
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import InvalidEventError
from metajournal.schemas.settings import Settings
from metajournal.stack.ports import free_ports
from tests.processes import running_indexer, running_stream
from tests.wait import eventually

ROOT = Path(__file__).parents[1]
HOW_TO = ROOT / "docs" / "how-to" / "watch-it.md"
DASHBOARD = ROOT / "docs" / "monitoring" / "dashboard.json"
ALERTS = ROOT / "docs" / "monitoring" / "alerts.yml"
NAME = re.compile(r"\bmetajournal_[a-z_]+")
_OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
_RARE = {"metajournal_client_unacknowledged_total"}
"""Shown only once it happened."""
_OF_GATEWAY = "metajournal_gateway_"


def look(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def value(port: int, name: str, **labels: str) -> float | None:
    return next((found for named, found in look(port).get(name, []) if named == labels), None)


def named_in_files() -> set[str]:
    dashboard, alerts = json.loads(DASHBOARD.read_text("utf-8")), yaml.safe_load(ALERTS.read_text("utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    return {name for expression in expressions for name in NAME.findall(expression)}


def test_dashboard_alerts_and_how_to_name_metrics_that_there_are() -> None:
    own = (gateway.REQUESTS, gateway.SECONDS, gateway.FEEDS, gateway.AUDIT_LOST, gateway.AUDIT_LEFT_OUT)
    known = {figure.name for figure in (*FIGURES, *own)}
    assert {_OF_HISTOGRAM.sub("", name) for name in named_in_files()} == known, "each one is shown, and no other"
    table = re.findall(r"^\| `(metajournal_[a-z_]+)` \|", HOW_TO.read_text("utf-8"), re.M)
    assert sorted(table) == sorted(known)


def test_the_alert_rules_are_whole() -> None:
    for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert re.fullmatch(r"Metajournal[A-Za-z]+", rule["alert"])
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert set(rule["annotations"]) == {"summary", "description"}
            assert re.fullmatch(r"\d+m", rule.get("for", "1m"))
            assert all(rule["expr"].count(left) == rule["expr"].count(right) for left, right in ("()", "{}", "[]"))


def test_a_port_in_use_stops_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken, caplog.at_level(logging.WARNING):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = Endpoint(taken.getsockname()[1], Figures())
        endpoint.close()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["No metrics are shown"]


@pytest.mark.thorough
def test_figures_that_cannot_be_brought_up_to_date_keep_no_look_from_the_rest() -> None:
    figures = Figures()
    figures.add(EVENTS, 3, "accepted")
    figures.observe(BATCH, 0.1)
    figures.observe(BATCH, 1_000)
    figures.set(LAG, 2.5, "lake")
    figures.set(LAG, None, "index")
    (port,) = free_ports(1)

    def fail() -> None:
        raise RuntimeError("by the test")

    endpoint = Endpoint(port, figures, fail)
    try:
        assert value(port, "metajournal_stream_events_total", verdict="accepted") == 3
        assert value(port, "metajournal_stream_batch_seconds_bucket", le="0.1") == 1
        assert value(port, "metajournal_stream_batch_seconds_bucket", le="+Inf") == 2
        assert look(port)["metajournal_lag_seconds"] == [({"stage": "lake"}, 2.5)]
    finally:
        endpoint.close()


def test_an_error_counts_once_for_each_time_that_waiting_begins() -> None:
    figures = Figures()
    for message in ("kafka-unavailable: away", "kafka-unavailable: still away"):
        figures.state("stream", "waiting", message)
    figures.state("stream", "running")
    figures.state("stream", "waiting", "no code here")
    values, _ = figures.snapshot()
    by_name = {figure.name: of_labels for figure, of_labels in values.items()}
    assert by_name["metajournal_errors_total"] == {("stream", "kafka-unavailable"): 1, ("stream", "other"): 1}
    assert by_name["metajournal_state"] == {("stream", "waiting"): 1, ("stream", "running"): 0}


def with_ports(settings: Settings, ports: list[int]) -> Settings:
    client, stream, indexer = ports
    return replace(
        settings,
        client=replace(settings.client, metrics_port=client),
        stream=replace(settings.stream, metrics_port=stream),
        indexer=replace(settings.indexer, metrics_port=indexer),
    )


@pytest.mark.services
def test_a_real_run_shows_every_metric_that_the_files_name(settings: Settings, tmp_path: Path) -> None:
    ports = free_ports(3)
    client, stream, indexer = ports
    watched = with_ports(settings, ports)
    ensure_topics(settings)
    entity = dataset("shop", "orders")
    with (
        running_stream(watched, tmp_path / "stream.log") as process,
        running_indexer(watched, tmp_path / "indexer.log"),
        Journal.connect(watched) as journal,
    ):
        assert journal.emit(EntityRegistered(entity)).outcome(timeout_s=120).word == "accepted"
        assert journal.emit(EntityRegistered(entity)).outcome_future(timeout_s=60).result().word == "unchanged"
        journal.emit(AccessesRecorded(run("shop", "app", "spark", "job", "r1"), [(entity, "write", 1)]))
        with pytest.raises(InvalidEventError):
            journal.emit(TagsAdded(entity, []))
        last = journal.emit(TagsAdded(entity, ["pii"])).position
        assert journal.search("tags:pii", at_least=last, timeout_s=60).hits

        shown: dict[str, Any] = {}
        wanted = {name for name in named_in_files() - _RARE if not name.startswith(_OF_GATEWAY)}

        def complete() -> bool:
            for port in ports:
                shown.update(look(port))
            shown["lags"] = {port: look(port).get("metajournal_lag_seconds") for port in (stream, indexer)}
            derived = [found for _, found in look(stream).get("metajournal_derived_complete", [])]
            return wanted <= set(shown) and all(shown["lags"].values()) and 1.0 in derived

        eventually(complete, 60, f"every metric ({process.log})")
        # Counted once the batch is done, which is after its last event can be found.
        eventually(lambda: value(stream, "metajournal_stream_events_total", verdict="accepted") == 3, 60)
        assert value(stream, "metajournal_stream_events_total", verdict="unchanged") == 1
        assert value(stream, "metajournal_state", component="stream", state="running") == 1
        assert value(indexer, "metajournal_state", component="indexer", state="running") == 1
        assert value(client, "metajournal_client_events_total") == 4
        assert value(client, "metajournal_client_outcomes_total", verdict="unchanged") == 1
        assert value(client, "metajournal_errors_total", component="client", code="invalid-event") == 1
        assert process.stop() == 0, process.tail()
