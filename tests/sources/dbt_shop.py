"""A small dbt project over DuckDB, as its author writes it, and what real versions of dbt wrote of it.

dbt cannot stand in one environment with the type checker that tests are checked by (both want `pathspec`, of ranges
that do not meet), so what it wrote is kept beside this file: `dbt_1_11/` and so on, without its macros. To make it
again, in an environment with dbt-core and dbt-duckdb: `python -m tests.sources.dbt_shop OUT`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

FILES: Final = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nconfig-version: 2\nprofile: shop\n",
    "profiles.yml": ("shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: shop.duckdb, schema: public}\n"),
    "seeds/countries.csv": "code,name\nde,Germany\nfr,France\n",
    "models/staged.sql": (
        "{{ config(materialized='ephemeral') }}\nselect id, customer, amount from {{ source('raw', 'orders') }}\n"
    ),
    "models/orders.sql": "{{ config(materialized='table', tags=['nightly']) }}\nselect * from {{ ref('staged') }}\n",
    "models/totals.sql": "select customer, sum(amount) as total from {{ ref('orders') }} group by 1\n",
    "models/schema.yml": """
version: 2
groups:
  - name: sales
    owner: {name: Sales, email: sales@acme.org}
sources:
  - name: raw
    schema: raw
    description: What the shop writes
    tables:
      - name: orders
models:
  - name: orders
    description: What was bought
    config: {meta: {owner: carol}}
    columns:
      - name: id
        description: the key
        tests: [not_null, unique]
  - name: totals
    description: What each customer spent
    config: {group: sales}
    columns:
      - name: total
        tests: [not_null]
exposures:
  - name: weekly
    type: dashboard
    owner: {name: Carol, email: carol@acme.org}
    depends_on: [ref('totals')]
""",
}


DATA: Final = (
    "create schema raw",
    "create table raw.orders(id integer, customer integer, amount decimal(10,2))",
    "insert into raw.orders values (1, 1, 2.50), (2, 1, 4.00), (3, 2, null)",
)
VERSIONS: Final = ("1_4", "1_5", "1_6", "1_7", "1_11")
"""Of dbt, as the folders name them: manifests 8 to 12."""
_KEPT: Final = ("metadata", "nodes", "sources", "exposures", "groups", "results", "args", "errors")
_OF_THE_MACHINE: Final = (
    "root_path",
    "compiled_path",
    "build_path",
    "patch_path",
    "user_id",
    "env",
    "invocation_args_dict",
)


def target(folder: Path, version: str = VERSIONS[-1]) -> Path:
    """The project in a folder, and what a version of dbt wrote after `dbt docs generate` and `dbt build`."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    shutil.copytree(Path(__file__).with_name(f"dbt_{version}"), folder / "target")
    return folder / "target"


def without_totals(folder: Path) -> None:
    """Take a model out of a target folder's manifest, with its test and the exposure, as `dbt compile` does."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    for part in ("nodes", "exposures"):
        manifest[part] = {name: node for name, node in manifest[part].items() if "totals" not in json.dumps(node)}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def main() -> None:
    """Write the artifacts again, without what is of the machine."""
    import duckdb

    out = Path(sys.argv[1])
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        with duckdb.connect(str(folder / "shop.duckdb")) as connection:
            for statement in DATA:
                connection.execute(statement)
        for words in (["build"], ["docs", "generate"], ["build"]):
            command = [str(Path(sys.executable).with_name("dbt")), *words]
            silent = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
            subprocess.run(
                [*command, "--project-dir", name, "--profiles-dir", name], cwd=folder, env=silent, check=False
            )
        for file in ("manifest", "catalog", "run_results"):
            value = json.loads((folder / "target" / f"{file}.json").read_text("utf-8"))
            kept = {key: _cleaned(value[key]) for key in _KEPT if key in value}
            text = json.dumps(kept, indent=1).replace(name, "/work/shop")
            (out / f"{file}.json").write_text(f"{text}\n", "utf-8")


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(part) for key, part in value.items() if key not in _OF_THE_MACHINE}
    return [_cleaned(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
