"""State documents for the index's tests: a builder with defaults, and the corpus of the golden queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from elasticsearch import Elasticsearch

from metajournal.schemas.positions import position
from metajournal.schemas.urn import Urn, urn

State = dict[str, Any]


def state(
    entity: Urn | str,
    *,
    user: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    system: Mapping[str, str] | None = None,
    system_tags: Sequence[str] = (),
    offset: int = 0,
    deleted: bool = False,
    tenant: str = "default",
    partition: int = 0,
) -> State:
    """A state document as the stream writes it."""
    named = Urn.parse(entity)
    logical_time = position(1, offset)
    return {
        "tenant": tenant,
        "urn": str(named),
        "kind": named.kind,
        "namespace": named.namespace,
        "name": named.name,
        "domain": "catalog",
        "aggregate": str(named.aggregate),
        "partition": partition,
        "position": logical_time,
        "seq": 0,
        "logical_timestamp": logical_time,
        "system_time": 1_441_310_434_000 + offset,
        "event_time": 1_441_310_434_000,
        "event_id": "01900000-0000-7000-8000-000000000000",
        "actor": "ann",
        "deleted": deleted,
        "user": {"properties": dict(user or {}), "tags": sorted(tags)},
        "system": {
            "properties": {"creation_time": str(1_441_310_434_000 + offset), **(system or {})},
            "tags": sorted(system_tags),
        },
    }


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Customer",
        "fields": [
            {"name": "customerId", "type": "long"},
            {"name": "e_mail", "type": ["null", "string"]},
            {
                "name": "address",
                "type": {
                    "type": "record",
                    "name": "Address",
                    "fields": [
                        {"name": "street", "type": "string"},
                        {"name": "geoPoint", "type": {"type": "map", "values": "double"}},
                    ],
                },
            },
            {
                "name": "orders",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Order",
                        "fields": [{"name": "total-amount", "type": {"type": "bytes", "logicalType": "decimal"}}],
                    },
                },
            },
        ],
    }
)
LONG = "The archive of everything. " * 1300 + "needle at the very end"

CORPUS: dict[str, State] = {
    "orders": state(urn("dataset", "default", "orders"), user={"owner": "Ali Baba"}, tags=["pii"], offset=1),
    "customerOrders": state(
        urn("dataset", "sales", "customerOrders"),
        user={"owner": "alice", "team": "crm", "ownerMail": "ali@example.org"},
        system={"schema": AVRO, "description": "Customers and what they ordered"},
        offset=2,
    ),
    "noaa-goes16": state(
        urn("dataset", "default", "noaa-goes16"),
        user={"licence": "[CC BY 4.0]", "Region": "North_America"},
        tags=["tag12-tag33", "[CC BY 4.0]", "weather"],
        offset=3,
    ),
    "noaa_goes.17/raw": state(
        urn("dataset", "default", "noaa_goes.17/raw"), user={"satellite": "GOES 17"}, tags=["weather"], offset=4
    ),
    "Café Zürich": state(
        urn("stream", "öffentlich", "Café Zürich"),
        user={"Straße": "Bahnhofstraße 1", "owner": "Bjørn Ångström"},
        tags=["données", "東京 データ"],
        offset=5,
    ),
    "archive": state(
        urn("dataset", "default", "archive"), system={"description": LONG}, system_tags=["cold"], offset=6
    ),
    "pairs": state(
        urn("dataset", "sales", "pairs"),
        system={"schema": json.dumps([["order_id", "int"], ["order_date", "timestamp-millis"]])},
        tags=["pii", "gdpr"],
        offset=7,
    ),
    "broken": state(
        urn("dataset", "sales", "broken"), system={"schema": "CREATE TABLE shipments (weight decimal)"}, offset=8
    ),
    "ingest": state(urn("app", "default", "ingest"), user={"owner": "ops"}, offset=9),
    "loader": state(urn("program", "default", "ingest", "spark", "orders_loader"), offset=10),
    "custom": state(urn("ml-model", "churn"), user={"note": "pii orders inside", "empty": ""}, offset=11),
    "tagged-property": state(
        urn("dataset", "misc", "quirks"),
        user={"tags": "literal", "key with: signs": "a=b", "star*": "x*y", "path": "/var/log/syslog"},
        system={"owner": "platform"},
        system_tags=["pii"],
        offset=12,
    ),
    "deleted": state(urn("dataset", "default", "orders_deleted"), tags=["pii"], offset=13, deleted=True),
    "foreign": state(urn("dataset", "default", "orders"), tags=["pii", "foreign"], tenant="other", offset=14),
}
"""By a short name; `deleted` and `foreign` must never be found."""

FINDABLE = {name: state for name, state in CORPUS.items() if name not in ("deleted", "foreign")}
NAME_OF = {str(state["urn"]): name for name, state in FINDABLE.items()}


def visible(client: Elasticsearch, index: str, query: Mapping[str, Any] | None = None) -> int:
    """How many documents a search shows now."""
    counted = client.count(index=index, query=dict(query or {"term": {"deleted": False}}))
    return int(counted.body["count"])
