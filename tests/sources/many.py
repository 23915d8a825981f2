"""The same in every kind of system: many entities, which can go away, come back and become few."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from tests.new_topics import delete_topics, make_topics
from tests.sources.databases import sqlite
from tests.sources.dbt_projects import INVOCATION, manifest, model, results, written
from tests.sources.lakehouses import on_disk
from tests.sources.registry import running_registry
from tests.sources.test_openlineage_files import event

MANY: Final = 400
"""Number of entities: some are brought in before a kill, and some are not."""
FEW: Final = 10


@dataclass(frozen=True)
class System:
    """A system with many entities.

    Attributes:
        words: what is typed after `ingest`.
        entities: number of what is found.
        away: a block in which it does not answer.
        shrink: leaves few of the entities, and gives how many are deleted, and how many stay as they were.
    """

    words: tuple[str, ...]
    entities: int
    away: Callable[[], AbstractContextManager[None]]
    shrink: Callable[[], tuple[int, int]]


@contextmanager
def database(folder: Path, _broker: str) -> Iterator[System]:
    shop = sqlite(folder / "many.db")
    shop.execute([f"create table t{number}(id integer primary key)" for number in range(MANY)])

    def shrink() -> tuple[int, int]:
        shop.execute([f"drop table t{number}" for number in range(FEW, MANY)])
        return MANY - FEW, FEW + 1

    yield System(("databases", shop.url), MANY + 1, lambda: moved(folder / "many.db"), shrink)


@contextmanager
def dbt(folder: Path, _broker: str) -> Iterator[System]:
    def write(number: int) -> None:
        nodes = [model(f"m{place}", *([f"m{place - 1}"] if place else [])) for place in range(number)]
        statuses = {node["unique_id"]: "success" for node in nodes}
        made = results({})
        made["results"] = [
            {**result, "unique_id": name, "status": status}
            for name, status in statuses.items()
            for result in results({"any": "success"}, invocation=INVOCATION)["results"]
        ]
        written(folder / "target", manifest(nodes), results=made)

    write(MANY)

    def shrink() -> tuple[int, int]:
        write(FEW)
        return MANY - FEW, FEW

    words = ("dbt", str(folder / "target"), "--namespace", f"postgres://{uuid4().hex}")
    yield System(words, MANY, lambda: moved(folder / "target"), shrink)


@contextmanager
def openlineage(folder: Path, _broker: str) -> Iterator[System]:
    """Files never tell of everything: what one does not name any more is not deleted."""
    space = f"postgres://{uuid4().hex}:5432"

    def write(number: int) -> None:
        lines = [
            json.dumps(
                event(run={"runId": f"r{place}"}, inputs=[{"namespace": space, "name": f"t{place}"}], outputs=[])
            )
            for place in range(number)
        ]
        (folder / "events.jsonl").write_text("\n".join(lines), "utf-8")

    write(MANY)

    def shrink() -> tuple[int, int]:
        write(FEW)
        return 0, FEW + 1  # and the job

    words = ("openlineage", str(folder / "events.jsonl"))
    yield System(words, MANY + 1, lambda: moved(folder / "events.jsonl"), shrink)


@contextmanager
def lakehouse(folder: Path, _broker: str) -> Iterator[System]:
    place = on_disk(folder / "lake")
    for number in range(MANY):
        place.write_parquet(f"t{number}/part-0.parquet", pa.table({"id": [number]}))

    def shrink() -> tuple[int, int]:
        for number in range(FEW, MANY):
            place.delete(f"t{number}")
        return MANY - FEW, FEW

    yield System(("lakehouse", place.url), MANY, lambda: moved(folder / "lake"), shrink)


@contextmanager
def kafka(_folder: Path, broker: str) -> Iterator[System]:
    """Topics in the installation's own broker; only a quarter, as each is a file there, and its registry goes away."""
    number, prefix = MANY // 4, f"many-{uuid4().hex[:8]}."
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    topics = [f"{prefix}{place}" for place in range(number)]
    make_topics(admin, [NewTopic(topic, 1, 1) for topic in topics], 60)
    with running_registry() as registry:
        for topic in topics[:FEW]:
            registry.register(f"{topic}-value", {"type": "record", "name": "R", "fields": []})

        @contextmanager
        def away() -> Iterator[None]:
            registry.broken.add(f"/subjects/{topics[0]}-value/versions/latest")
            yield
            registry.broken.clear()

        def shrink() -> tuple[int, int]:
            delete_topics(admin, topics[FEW:])
            return number - FEW, FEW

        words = ("kafka", broker, "--registry", registry.url, "--topic", f"{prefix}*")
        yield System(words, number, away, shrink)


SYSTEMS: Final = (database, dbt, openlineage, lakehouse, kafka)


@contextmanager
def moved(path: Path) -> Iterator[None]:
    """A file or folder that is elsewhere within the block."""
    elsewhere = path.with_name(f"away-{path.name}")
    path.rename(elsewhere)
    yield
    elsewhere.rename(path)
