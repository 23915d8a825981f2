"""Databases brought into a running installation: what is typed arrives, is found, and stays what it was."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.catalog.naming import data
from tests.installation import CLI, Installation
from tests.sources.databases import SHOP, Database, postgres, sqlite
from tests.sources.dbt_shop import target, without_totals
from tests.sources.test_openlineage_files import ORDERS, event
from tests.wait import eventually

pytestmark = pytest.mark.services
PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as database:
        yield database


def ran(installation: Installation, *words: str, code: int = 0) -> Any:
    """What `ingest` with --json says."""
    done = installation.metajournal("ingest", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def blocks_of(page: str) -> list[str]:
    """What a how-to has its reader type into the shell, but for installing."""
    blocks = re.findall(r"```bash\n(.*?)```", (PAGES / page).read_text("utf-8"), re.DOTALL)
    return [block for block in blocks if "pip install" not in block]


def typed_in(installation: Installation, folder: Path, block: str, **variables: str) -> str:
    """What the commands of a block print, on both streams; all of them succeed."""
    done = subprocess.run(
        ["bash", "-ec", block], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        env={**installation.environment, **variables}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, block + done.stdout
    return done.stdout


def counts(said: Any) -> tuple[int, int, int, int]:
    return (*(said[word]["count"] for word in ("registered", "changed", "deleted")), said["unchanged"])


def searched(installation: Installation, query: str) -> list[str]:
    done = installation.metajournal("search", query, "--json")
    assert done.returncode == 0, done.stderr
    return [hit["urn"] for hit in json.loads(done.stdout)["hits"]]


def shown(installation: Installation, urn: str) -> Any:
    done = installation.metajournal("show", urn, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_commands_of_the_how_to_do_what_it_says(installation: Installation, server: Database) -> None:
    """A table is found by a column, a view's lineage is shown, people's tags stay, and the second run is silent."""
    server.execute(["create database shop"])
    url = re.sub(r"/postgres\?", "/shop?", server.url)
    with_shop = Database(url, lambda statements: _execute(url, statements))
    with_shop.execute([*SHOP, "comment on column orders.amount is 'net of taxes'"])

    def typed(block: str) -> str:
        out = typed_in(installation, installation.folder, block, SHOP_URL=url)
        assert "shop?" not in out
        return out

    dry, first, search, lineage, tag, recipe = blocks_of("bring-in-a-database.md")
    assert "would be: 5 registered" in typed(dry)
    assert "5 registered" in typed(first)
    orders = data("postgres://db.acme:5432", "shop.public.orders")
    eventually(lambda: orders in searched(installation, "schema:amount"), 30)
    eventually(lambda: searched(installation, "database.comment.*:net") == [orders], 30)
    found = typed(search)
    assert found.count(orders) == 3
    seen = typed(lineage)
    assert ("customers" in seen, "database.upstream.total" in seen) == (True, True)
    typed(tag)
    assert "5 unchanged" in (second := typed(recipe)), second
    assert shown(installation, orders)["user"]["tags"] == ["pii"]
    with_shop.execute(["alter table orders add column currency text", "drop view totals"])
    words = ("databases", url, "--id", "shop", "--namespace", "postgres://db.acme:5432")
    assert counts(ran(installation, *words)) == (0, 1, 1, 3)
    said = ran(installation, *words)
    assert (counts(said), said["events"], said["run"]) == ((0, 0, 0, 4), 0, None)
    assert shown(installation, orders)["user"]["tags"] == ["pii"]


def test_the_commands_of_the_how_to_for_dbt_do_what_it_says(installation: Installation, tmp_path: Path) -> None:
    """Models are found by owner, tag, column and failed test; lineage goes through; the second run is silent."""
    folder = target(tmp_path)
    _, dry, ingest, search, lineage = blocks_of("bring-in-a-dbt-project.md")
    assert "would be: 5 registered, 3 runs" in typed_in(installation, tmp_path, dry)
    assert "3 runs" in (told := typed_in(installation, tmp_path, ingest)), told
    assert "deleted" not in told  # though a database is brought in by the same id
    orders, totals = (data("postgres://db.acme:5432", f"shop.public.{name}") for name in ("orders", "totals"))
    for query in ("dbt.owner:sales", "schema:amount", "dbt.test.*:fail"):
        eventually(lambda query=query: {*searched(installation, query)} & {orders, totals}, 30)  # type: ignore[misc]
    out = typed_in(installation, tmp_path, search)
    assert [out.count(name) >= 2 for name in (orders, totals)] == [True, True], out
    seen = typed_in(installation, tmp_path, lineage)
    assert data("postgres://db.acme:5432", "shop.raw.orders") in seen
    assert "COMPLETED" in seen
    words = ("dbt", str(tmp_path / "target"), "--namespace", "postgres://db.acme:5432", "--id", "shop")
    said = ran(installation, *words)
    assert (counts(said), said["events"], said["runs"], said["run"]) == ((0, 0, 0, 5), 0, 0, None)
    without_totals(folder)
    assert counts(ran(installation, *words)) == (0, 0, 2, 3)
    (tmp_path / "target" / "manifest.json").write_text("{", "utf-8")
    assert ran(installation, *words, code=1)["error"]["code"] == "source-unreadable"


def test_the_commands_of_the_how_to_for_openlineage_do_what_it_says(installation: Installation, tmp_path: Path) -> None:
    """What lineage knows is found; the same files again emit nothing; an exported job has its own name."""
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event(hour))}\n" for hour in (11, 12)), "utf-8")
    ingest, search = blocks_of("bring-in-openlineage-files.md")
    assert "2 runs" in typed_in(installation, tmp_path, ingest)
    eventually(lambda: searched(installation, "openlineage.owner:sales") == [ORDERS], 30)
    assert typed_in(installation, tmp_path, search).count(ORDERS) >= 2
    said = ran(installation, "openlineage", str(tmp_path / "events.jsonl"))
    assert (counts(said), said["events"], said["runs"]) == ((0, 0, 0, 3), 0, 0)
    exported = installation.metajournal("lineage", "export", ORDERS)
    jobs = [json.loads(line)["job"] for line in exported.stdout.splitlines()]
    assert {"namespace": "airflow", "name": "load.orders"} in jobs


def _execute(url: str, statements: Any) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_refused_password_changes_nothing_and_shows_nothing(
    installation: Installation, server: Database, tmp_path: Path
) -> None:
    server.execute(
        ["create role locked login password 'right'", "create schema locked", "create table locked.t(id int)"]
    )
    words = ("--schema", "locked", "--id", "locked", "--namespace", "postgres://locked")
    ran(installation, "databases", server.url, *words)
    rules = Path(_one(server.url, "show hba_file"))
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    server.execute(["select pg_reload_conf()"])
    said = ran(installation, "databases", server.url.replace("postgres:@", "locked:geheim@"), *words, code=4)
    assert said["error"]["code"] == "not-authenticated"
    assert "geheim" not in json.dumps(said)
    assert counts(ran(installation, "databases", server.url, *words)) == (0, 0, 0, 3)
    done = installation.metajournal("runs", "program:ingest/databases/service/locked", "--json")
    assert [run["status"] for run in json.loads(done.stdout)["runs"]] == ["FAILED", "COMPLETED"]


def _one(url: str, statement: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


def test_a_run_that_is_killed_is_gone_on_with(installation: Installation, tmp_path: Path) -> None:
    database = sqlite(tmp_path / "many.db")
    database.execute([f"create table t{number}(id integer primary key)" for number in range(1_500)])
    words = ("ingest", "databases", database.url, "--id", "many")
    with subprocess.Popen(
        [*CLI, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=installation.folder,
        env=installation.environment,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        for line in running.stderr:
            if "bring in" in line:
                running.kill()
    said = ran(installation, *words[1:])
    assert (said["ok"], said["registered"]["count"] + said["changed"]["count"] + said["unchanged"]) == (True, 1_501)
    assert counts(ran(installation, *words[1:])) == (0, 0, 0, 1_501)
    (tmp_path / "many.db").rename(tmp_path / "away.db")
    assert ran(installation, *words[1:], code=1)["error"]["code"] == "source-not-found"
    (tmp_path / "away.db").rename(tmp_path / "many.db")
    database.execute([f"drop table t{number}" for number in range(1_400)])
    assert counts(ran(installation, *words[1:])) == (0, 0, 1_400, 101)
    assert counts(ran(installation, *words[1:])) == (0, 0, 0, 101)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_again_and_again_are_ended_by_a_signal(
    installation: Installation, tmp_path: Path, number: signal.Signals
) -> None:
    database = sqlite(tmp_path / f"{number.name}.db")
    database.execute(SHOP)
    words = ("ingest", "databases", database.url, "--id", number.name.lower(), "--every", "1h", "--json")
    with subprocess.Popen(
        [*CLI, *words], stdout=subprocess.PIPE, text=True, cwd=installation.folder, env=installation.environment
    ) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["registered"]["count"] == 4
        running.send_signal(number)
        assert running.wait(30) == 0


def test_of_several_sources_one_that_fails_does_not_stop_the_others(installation: Installation, tmp_path: Path) -> None:
    database = sqlite(tmp_path / "good.db")
    database.execute(SHOP)
    recipe = tmp_path / "two.toml"
    good = f'[good]\nsource = "databases"\nurl = "{database.url}"\n'
    recipe.write_text(f'[missing]\nsource = "databases"\nurl = "sqlite:///{tmp_path}/nowhere.db"\n{good}', "utf-8")
    missing, brought = ran(installation, "--recipe", str(recipe), code=1)["sources"]
    assert (missing["error"]["code"], brought["registered"]["count"]) == ("source-not-found", 4)
