"""Bring in a database of 10,000 tables and 200,000 columns: the first run, and one without a change.
And a dbt project of 5,000 models with 100,000 columns and 10,000 tests, with the runs of all models.

A real PostgreSQL with 20 schemas, a tenth of the tables views over two others; `metajournal up`; each run with a fresh
connection, from before it connects until it returns: read, compared, told, and held by the lake, where `show` finds it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from metajournal.client import Journal
from metajournal.config import load
from metajournal.schemas.settings import Settings
from metajournal.sources.bringing import Bringing, Brought, Comparison
from metajournal.sources.databases.source import Databases
from metajournal.sources.dbt.source import Dbt
from metajournal.sources.found import Progress
from metajournal.sources.source import Source
from metajournal.stack.home import SETTINGS_FILE
from metajournal.stack.supervisor import down, up
from tests.sources.databases import postgres
from tests.sources.dbt_projects import NAMESPACE, large, written

TABLES: Final = 10_000
COLUMNS: Final = 20
SCHEMAS: Final = 20
ENTITIES_PER_S: Final = 1_000
SECOND_RUN_S: Final = 15
MODELS: Final = 5_000
MANIFEST_S: Final = 20
_TYPES: Final = (
    "integer", "bigint", "text", "varchar(40)", "numeric(12,2)", "timestamptz", "boolean", "date", "double precision",
    "jsonb",
)  # fmt: skip
_TIMEOUT_S: Final = 300.0

Say = Callable[[str], None]


def measure(*, tables: int = TABLES, models: int = MODELS, say: Say = lambda _: None) -> list[dict[str, Any]]:
    """Bring a database and a project in, twice each.

    Gives entities of the database a second until the lake holds them, seconds of its second run, and of the project's.
    """
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as database:
        say(f"making {tables:,} tables and views with {COLUMNS} columns")
        database.execute(statements(tables))
        with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as own:
            home = Path(own)
            up(home, Settings())
            try:
                settings = load(str(home / SETTINGS_FILE)).settings
                first_s, compared, brought = run(settings, Databases(database.url), say)
                say(f"{len(compared.plan.steps):,} entities by {brought.events:,} events in {first_s:.1f} s")
                second_s, again, _ = run(settings, Databases(database.url), say)
                target = written(home / "target", *large(models))
                project_s, project, told = run(settings, Dbt(str(target), namespace=NAMESPACE), say)
                say(f"{len(project.plan.steps):,} entities by {told.events:,} events in {project_s:.1f} s")
                unchanged_s, unchanged, _ = run(settings, Dbt(str(target), namespace=NAMESPACE), say)
            finally:
                down(home)
    if brought.refused or not again.is_empty or compared.entities != tables + SCHEMAS + 2:
        raise RuntimeError(f"{len(brought.refused)} events refused, {len(again.plan.steps)} steps in the second run")
    if told.refused or not unchanged.is_empty or project.entities != models + 1:
        raise RuntimeError(f"{len(told.refused)} events refused, {len(unchanged.plan.steps)} steps in the second run")
    rate = compared.entities / first_s
    return [
        {
            "name": f"databases, first run of {tables:,} tables, to the lake", "value": rate, "limit": ENTITIES_PER_S,
            "ratio": rate / ENTITIES_PER_S, "unit": "entities/s", "least": 1.0, "events": brought.events,
        },
        {
            "name": "the same, second run without a change", "value": second_s, "limit": SECOND_RUN_S,
            "ratio": second_s / SECOND_RUN_S, "unit": "s", "most": 1.0,
        },
        {
            "name": f"dbt, first run of {models:,} models, to the lake", "value": project_s, "limit": MANIFEST_S,
            "ratio": project_s / MANIFEST_S, "unit": "s", "most": 1.0, "events": told.events,
        },
        {
            "name": "the same, second run without a change", "value": unchanged_s, "limit": MANIFEST_S,
            "ratio": unchanged_s / MANIFEST_S, "unit": "s", "most": 1.0,
        },
    ]  # fmt: skip


def run(settings: Settings, source: Source, say: Say) -> tuple[float, Comparison, Brought]:
    """One run, with its seconds."""
    start = time.perf_counter()

    def tell(progress: Progress) -> None:
        if not progress.done:
            say(f"{time.perf_counter() - start:6.1f} s: {progress.doing}")

    with Journal.connect(settings) as journal:
        bringing = Bringing(journal, source, tell, timeout_s=_TIMEOUT_S)
        compared = bringing.compare()
        brought = bringing.bring(compared)
    return time.perf_counter() - start, compared, brought


def statements(tables: int) -> Iterator[str]:
    """A database of so many tables, views among them, with comments and keys."""
    for number in range(tables):
        schema = f"s{number * SCHEMAS // tables}"
        if number * SCHEMAS % tables < SCHEMAS:
            yield f"create schema {schema}"
        yield from _view(schema, number) if number % 10 == 9 else _table(schema, number)


def _table(schema: str, number: int) -> Iterator[str]:
    kinds = ["bigint", *(_TYPES[column % len(_TYPES)] for column in range(1, COLUMNS - 1))]
    columns = ", ".join(f"c{column} {kind}" for column, kind in enumerate(kinds, 1))
    key = f", foreign key (c1) references {schema}.t{number - 1}(id)" if number % 10 == 5 else ""
    yield f"create table {schema}.t{number}(id bigint primary key, {columns}{key})"
    yield f"comment on table {schema}.t{number} is 'Table {number} of the shop, loaded every night'"
    yield f"comment on column {schema}.t{number}.c2 is 'What {number} holds'"


def _view(schema: str, number: int) -> Iterator[str]:
    made = ", ".join(f"{'ab'[column % 2]}.c{column}" for column in range(1, COLUMNS - 2))
    joined = f"{schema}.t{number - 1} a join {schema}.t{number - 2} b on a.id = b.id"
    yield (
        f"create view {schema}.v{number} as select a.id, {made}, "
        f"sum(b.c5) over (partition by a.c1) as total, upper(a.c2 || b.c3) as word from {joined}"
    )


if __name__ == "__main__":
    for figure in measure(say=print):
        print(f"{figure['name']}: {figure['value']:,.1f} {figure['unit']}, limit {figure['limit']:,}")
