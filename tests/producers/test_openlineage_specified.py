"""Exported run events are held against OpenLineage's own classes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import attr
import pytest
from openlineage.client import event_v2 as specified

from metajournal.domains.lineage.openlineage import run_events
from tests.producers.test_openlineage import ACCESSES, RUN_ID, TOLD


@pytest.mark.parametrize(
    "run",
    [
        TOLD,
        {**TOLD, "status": "odd"},
        {**TOLD, "id": RUN_ID, "stop": -1, "status": None},
        {**TOLD, "start": None, "status": "KILLED"},
        {**TOLD, "start": 0, "stop": 253_402_300_799_999, "status": "COMPLETED"},
    ],
)
def test_what_goes_out_is_valid_by_the_specifications_own_classes(run: dict[str, Any]) -> None:
    """The classes that OpenLineage generates from its JSON schema 2-0-2 take every field, and no other is there."""
    for event in run_events(run, ACCESSES):
        made = specified.RunEvent(
            eventType=specified.RunState[event["eventType"]],
            eventTime=event["eventTime"],
            run=specified.Run(runId=event["run"]["runId"]),
            job=specified.Job(**event["job"]),
            inputs=[specified.InputDataset(**one) for one in event["inputs"]],
            outputs=[specified.OutputDataset(**one) for one in event["outputs"]],
            producer=event["producer"],
        )
        named = {field.name for field in attr.fields(specified.RunEvent)}
        assert event.keys() <= named
        assert made.schemaURL == event["schemaURL"]
        for facet in event["run"]["facets"].values():
            assert {"_producer", "_schemaURL"} <= facet.keys()
            assert all(urlsplit(facet[name]).scheme for name in ("_producer", "_schemaURL"))
