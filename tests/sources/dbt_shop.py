"""A small dbt project over DuckDB, as its author writes it, and the target folder that a real dbt makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.sources.databases import in_duckdb

FILES: Final = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "profiles.yml": (
        "shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: shop.duckdb, schema: public}\n"
    ),
    "seeds/countries.csv": "code,name\nde,Germany\nfr,France\n",
    "models/staged.sql": (
        "{{ config(materialized='ephemeral') }}\nselect id, customer, amount from {{ source('raw', 'orders') }}\n"
    ),
    "models/orders.sql": "{{ config(materialized='table', tags=['nightly']) }}\nselect * from {{ ref('staged') }}\n",
    "models/totals.sql": "select customer, sum(amount) as total from {{ ref('orders') }} group by 1\n",
    "models/schema.yml": """
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
        data_tests: [not_null, unique]
  - name: totals
    description: What each customer spent
    config: {group: sales}
    columns:
      - name: total
        data_tests: [not_null]
exposures:
  - name: weekly
    type: dashboard
    owner: {name: Carol, email: carol@acme.org}
    depends_on: [ref('totals')]
""",
}


def made(folder: Path) -> Path:
    """The project in a folder, with its database, and what `dbt docs generate` and `dbt build` make: a test fails."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    in_duckdb(folder / "shop.duckdb").execute([
        "create schema raw", "create table raw.orders(id integer, customer integer, amount decimal(10,2))",
        "insert into raw.orders values (1, 1, 2.50), (2, 1, 4.00), (3, 2, null)",
    ])  # fmt: skip
    run_dbt(folder, "build", code=1)
    run_dbt(folder, "docs", "generate")
    run_dbt(folder, "build", code=1)
    return folder / "target"


def run_dbt(folder: Path, *words: str, code: int = 0) -> None:
    """A command of dbt, in a project."""
    command = [str(Path(sys.executable).with_name("dbt")), "--no-send-anonymous-usage-stats", *words]
    done = subprocess.run(
        [*command, "--project-dir", str(folder), "--profiles-dir", str(folder)], cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
