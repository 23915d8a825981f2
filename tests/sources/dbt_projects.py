"""Target folders as dbt writes them: builders with defaults, and a project that a real dbt is run on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

PROJECT: Final = "jaffle"
DATABASE: Final = "shop"
SCHEMA: Final = "public"
INVOCATION: Final = "0b7a2d1e-0000-4000-8000-000000000001"
NAMESPACE: Final = "postgres://db.acme:5432"


def model(name: str, *reads: str, **fields: Any) -> dict[str, Any]:
    """A model that reads other nodes, named by their unique ids or by the names of models."""
    kind = fields.pop("resource_type", "model")
    config = {"materialized": "table", "tags": fields.get("tags", []), "meta": fields.get("meta", {})}
    node = {
        "unique_id": f"{kind}.{PROJECT}.{name}", "resource_type": kind, "database": DATABASE, "schema": SCHEMA,
        "name": name, "alias": name, "package_name": PROJECT, "original_file_path": f"models/{name}.sql",
        "description": "", "columns": {}, "tags": [], "meta": {}, "raw_code": f"select * from {name}_raw",
        "depends_on": {"macros": [], "nodes": [read if "." in read else f"model.{PROJECT}.{read}" for read in reads]},
    }  # fmt: skip
    return {**node, **fields, "config": {**config, **fields.get("config", {})}}


def source(name: str, **fields: Any) -> dict[str, Any]:
    """A table that the project reads and another program writes."""
    node = {
        "unique_id": f"source.{PROJECT}.raw.{name}", "resource_type": "source", "database": DATABASE, "schema": "raw",
        "name": name, "identifier": name, "source_name": "raw", "source_description": "", "package_name": PROJECT,
        "description": "", "columns": {}, "tags": [], "meta": {}, "config": {}, "loader": "airbyte",
    }  # fmt: skip
    return {**node, **fields}


def generic_test(of: str, column: str, **fields: Any) -> dict[str, Any]:
    """A `not_null` test of a model's column."""
    name = f"not_null_{of}_{column}"
    node = {
        "unique_id": f"test.{PROJECT}.{name}.0123456789", "resource_type": "test", "name": name, "alias": name,
        "attached_node": f"model.{PROJECT}.{of}", "file_key_name": f"models.{of}", "column_name": column, "config": {},
        "depends_on": {"nodes": [f"model.{PROJECT}.{of}"]},
    }  # fmt: skip
    return {**node, **fields}


def manifest(
    nodes: Iterable[Mapping[str, Any]] = (), sources: Iterable[Mapping[str, Any]] = (), *, version: int = 12,
    exposures: Iterable[Mapping[str, Any]] = (), groups: Iterable[Mapping[str, Any]] = (), adapter: str = "postgres",
) -> dict[str, Any]:  # fmt: skip
    """A manifest of these nodes."""
    metadata = {
        "dbt_schema_version": f"https://schemas.getdbt.com/dbt/manifest/v{version}.json", "adapter_type": adapter,
        "project_name": PROJECT, "dbt_version": "1.10.0", "invocation_id": INVOCATION,
    }  # fmt: skip
    parts = {"nodes": nodes, "sources": sources, "exposures": exposures, "groups": groups}
    return {"metadata": metadata, **{key: {node["unique_id"]: node for node in part} for key, part in parts.items()}}


def catalog(columns: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A catalog that has types of the columns of some nodes."""
    nodes = {
        name: {
            "metadata": {},
            "columns": {
                column: {"name": column, "type": kind, "index": index}
                for index, (column, kind) in enumerate(of.items(), 1)
            },
        }
        for name, of in columns.items()
    }
    version = "https://schemas.getdbt.com/dbt/catalog/v1.json"
    return {"metadata": {"dbt_schema_version": version}, "nodes": nodes, "sources": {}, "errors": None}


def results(
    statuses: Mapping[str, str], *, command: str = "build", invocation: str = INVOCATION, version: int = 6,
    messages: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run results with these statuses; each node took a second, one after the other."""
    schema = f"https://schemas.getdbt.com/dbt/run-results/v{version}.json"
    return {
        "metadata": {"dbt_schema_version": schema, "invocation_id": invocation},
        "args": {"which": command},
        "results": [
            {
                "unique_id": name, "status": status, "message": (messages or {}).get(name),
                "timing": [] if status == "skipped" else [{
                    "name": "execute", "started_at": f"2026-01-01T12:00:{second:02}.000000Z",
                    "completed_at": f"2026-01-01T12:00:{second + 1:02}.000000Z",
                }],
            }
            for second, (name, status) in enumerate(statuses.items())
        ],
    }  # fmt: skip


def written(folder: Path, manifest: Any = None, catalog: Any = None, results: Any = None) -> Path:
    """A target folder with these files and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (("manifest", manifest), ("catalog", catalog), ("run_results", results)):
        path = folder / f"{name}.json"
        path.unlink(missing_ok=True)
        if value is not None:
            path.write_text(json.dumps(value), "utf-8")
    return folder


def large(models: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Manifest, catalog and run results of so many models with 20 columns, each of two others, and two tests each."""
    kinds = ("bigint", "text", "numeric(12,2)", "timestamp with time zone")
    nodes: list[dict[str, Any]] = []
    columns: dict[str, dict[str, str]] = {}
    statuses: dict[str, str] = {}
    for number in range(models):
        name = f"model_{number:05}"
        described = {
            f"c{column}": {"name": f"c{column}", "description": f"Column {column} of {name}", "tags": [], "meta": {}}
            for column in range(20)
        }
        reads = (
            [f"model_{number // 2:05}", f"model_{number // 3:05}"] if number > 2 else [f"source.{PROJECT}.raw.events"]
        )
        sql = " union all\n".join(f"select {', '.join(described)} from {{{{ ref('{read}') }}}}" for read in reads)
        description = f"What {name} holds, rebuilt every night from {' and '.join(reads)}."
        node = model(
            name, *reads, columns=described, raw_code=sql, description=description, tags=["nightly", f"t{number % 50}"],
            meta={"owner": f"team-{number % 20}"}, schema=f"mart_{number % 20}",
        )  # fmt: skip
        tests = [generic_test(name, column) for column in ("c0", "c1")]
        nodes += [node, *tests]
        columns[node["unique_id"]] = {column: kinds[index % 4] for index, column in enumerate(described)}
        statuses |= {node["unique_id"]: "success", **{test["unique_id"]: "pass" for test in tests}}
    made = results({})
    made["results"] = [
        {**result, "unique_id": name, "status": status}
        for name, status in statuses.items()
        for result in results({"any": "success"})["results"]
    ]
    return manifest(nodes, [source("events")]), catalog(columns), made
