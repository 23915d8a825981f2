"""What a night of OpenLineage events becomes, whichever client sent them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metajournal.domains.lineage.kept import TIMES
from metajournal.schemas.urn import Urn
from tests.gateway.openlineage_client import entity
from tests.gateway.serving import Served
from tests.gateway.story import Night

_JOBS = (("airflow", "nightly"), ("spark", "stage"), ("dbt", "daily"), ("dbt", "daily-2"))
WRITTEN = ("creation_time", "created_by", "last_update_time", "last_updated_by", TIMES)


def described(found: Mapping[str, Any]) -> dict[str, str]:
    """An entity's properties of scope SYSTEM, without those that say who wrote when."""
    return {key: value for key, value in found["system"]["properties"].items() if key not in WRITTEN}


def system(server: Served, urn: Urn) -> dict[str, str]:
    """The same of an entity that is there."""
    found = entity(server, urn)
    assert found is not None, urn
    return described(found)


def entities(server: Served, night: Night) -> dict[str, dict[str, Any]]:
    """All that is there of what a night's events are about."""
    urns = [night.raw, night.staged, night.daily, night.job_of("dbt", "report")]
    urns += [of(*job) for job in _JOBS for of in (night.job_of, night.run_of)]
    return {str(urn): found for urn in urns if (found := entity(server, urn)) is not None}


def assert_became(server: Served, night: Night) -> None:
    """A night that was sent whole, in its order, is there: schemas, descriptions, facets, lineage and runs."""
    found = {urn: described(one) for urn, one in entities(server, night).items()}
    assert len(found) == 11  # the job of Spark has no facets
    assert found[str(night.staged)]["schema"] == '[["id","long"],["amount","double"]]'
    assert json.loads(found[str(night.staged)]["openlineage.outputStatistics"])["rowCount"] == 3
    assert found[str(night.daily)]["schema"] == '[["day","date"],["total","numeric"],["orders","bigint"]]'
    assert found[str(night.daily)]["description"] == "What was sold a day"
    assert "total" in json.loads(found[str(night.daily)]["openlineage.columnLineage"])["fields"]
    assert found[str(night.raw)]["schema"] == '[["id","long"]]'
    assert found[str(night.raw)]["description"] == "Orders as the shop sends them"
    assert json.loads(found[str(night.run_of("spark", "stage"))]["openlineage.parent"])["job"]["name"] == "nightly"
    assert "errorMessage" in str(found[str(night.run_of("dbt", "daily"))])
    assert "sum(amount)" in found[str(night.job_of("dbt", "daily"))]["openlineage.sql"]
    server.fold()
    lineage = server.journal.lineage.of(night.daily)
    assert {str(night.raw), str(night.staged), str(night.daily)} <= set(str(lineage).replace("'", " ").split())
    told = server.journal.lineage.run(night.run_of("dbt", "daily"))
    assert (told["status"], told["stop"] - told["start"]) == ("FAILED", 1_000)


def apart(found: Mapping[str, Any], night: Night) -> str:
    """What is known of a night, without its name."""
    return _nameless({urn: described(one) for urn, one in found.items()}, night)


def told(server: Served, night: Night) -> str:
    """What lineage knows of a night's runs and of each of their accesses, without the night's name."""
    lineage = server.journal.lineage
    runs = [night.run_of(*job) for job in _JOBS]
    return _nameless([(lineage.run(run), lineage.accesses(run)[0]) for run in runs], night)


def _nameless(known: Any, night: Night) -> str:
    text = json.dumps(known, sort_keys=True)
    for _, job in _JOBS:
        text = text.replace(night.run_id(job), job)
    return text.replace(night.name, "night")
