"""Databases brought into a running installation: what is typed arrives, is found, and stays what it was."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal import Journal, TagsAdded, UnknownEntityError
from metajournal.domains.catalog import urns
from metajournal.domains.catalog.naming import data
from metajournal.domains.lineage.events import RunStarted
from metajournal.sources import told
from metajournal.sources.bringing import Bringing
from metajournal.sources.databases.source import Databases
from metajournal.sources.found import Past
from metajournal.sources.openlineage.source import OpenLineageFiles
from metajournal.sources.plan import Change
from tests.installation import CLI, Installation
from tests.new_topics import delete_topics, make_topics
from tests.sources.databases import SHOP, Database, postgres, sqlite
from tests.sources.dbt_shop import target, without_totals
from tests.sources.lakehouses import on_disk, s3_server, write_shop
from tests.sources.many import SYSTEMS, System
from tests.sources.registry import running_registry
from tests.sources.test_kafka import ORDER
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
    eventually(lambda: orders in searched(installation, "schema:amount"), 120)
    eventually(lambda: searched(installation, "database.comment.*:net") == [orders], 120)
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
        eventually(lambda query=query: {*searched(installation, query)} & {orders, totals}, 120)  # type: ignore[misc]
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
    eventually(lambda: searched(installation, "openlineage.owner:sales") == [ORDERS], 120)
    assert typed_in(installation, tmp_path, search).count(ORDERS) >= 2
    said = ran(installation, "openlineage", str(tmp_path / "events.jsonl"))
    assert (counts(said), said["events"], said["runs"]) == ((0, 0, 0, 3), 0, 0)
    exported = installation.metajournal("lineage", "export", ORDERS)
    jobs = [json.loads(line)["job"] for line in exported.stdout.splitlines()]
    assert {"namespace": "airflow", "name": "load.orders"} in jobs


def test_the_commands_of_the_how_to_for_lakehouses_do_what_it_says(installation: Installation, tmp_path: Path) -> None:
    """Tables on disk and in a bucket are found by a column, a format and a partition; the second run is silent."""
    lake = on_disk(tmp_path / "lake")
    write_shop(lake)
    dry, ingest, search, bucket, recipe = blocks_of("bring-in-a-lakehouse.md")
    assert "would be: 4 registered" in typed_in(installation, tmp_path, dry, LAKE=lake.url)
    assert "4 registered" in typed_in(installation, tmp_path, ingest, LAKE=lake.url)
    orders, sales = (data("file", f"{lake.root}/{name}") for name in ("orders", "sales"))
    eventually(lambda: {orders, sales} <= {*searched(installation, "schema:amount")}, 120)
    out = typed_in(installation, tmp_path, search)
    assert (out.count(orders) >= 2, out.count(sales) >= 2) == (True, True), out
    with s3_server() as server:
        silver = server.bucket("acme-lake")
        write_shop(replace(silver, root="acme-lake/silver", url="s3://acme-lake/silver"))
        keys = {key.upper(): value for key, value in server.options.items()}
        assert "4 registered" in (first := typed_in(installation, tmp_path, bucket, **keys)), first
        assert "4 unchanged" in (second := typed_in(installation, tmp_path, recipe, **keys)), second
        assert "geheim" not in first + second
        assert data("s3://acme-lake", "silver/orders") in first
    words = ("lakehouse", lake.url, "--id", "lake")
    lake.delete("orders")
    lake.write_delta("sales", mode="append")
    lake.write("raw/countries.csv.gz", "not packed")
    said = ran(installation, *words, code=1)
    assert (counts(said), said["kept"], said["problems"][0]["what"]) == ((0, 1, 0, 2), 1, "raw/countries.csv.gz")
    lake.delete("raw/countries.csv.gz")
    assert counts(ran(installation, *words)) == (0, 0, 1, 3)
    said = ran(installation, *words)
    assert (counts(said), said["events"], said["run"]) == ((0, 0, 0, 3), 0, None)
    lake.delete("")
    assert ran(installation, *words, code=1)["error"]["code"] == "source-not-found"
    assert shown(installation, sales)["system"]["properties"]["lakehouse.version"] == "1"


def test_the_commands_of_the_how_to_for_kafka_do_what_it_says(installation: Installation, tmp_path: Path) -> None:
    """Topics are found by a column, a setting and a rule; metajournal's own are not; the second run is silent."""
    broker = installation.settings.kafka["bootstrap.servers"]
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    compact = {"cleanup.policy": "compact"}
    make_topics(admin, [NewTopic("shop.orders", 2, 1, config=compact), NewTopic("shop.clicks", 1, 1)])
    with running_registry("reader:geheim") as registry:
        registry.register("shop.orders-value", ORDER)
        variables = {"BROKER": broker, "REGISTRY": registry.url.replace("://", "://reader:geheim@")}
        dry, ingest, search, recipe = blocks_of("bring-in-a-kafka-cluster.md")
        assert "would be: 2 registered" in (told := typed_in(installation, tmp_path, dry, **variables)), told
        assert "2 registered" in typed_in(installation, tmp_path, ingest, **variables)
        orders = data(f"kafka://{broker}", "shop.orders")
        for query in ("schema:amount", "kafka.value.compatibility:backward"):
            eventually(lambda query=query: orders in searched(installation, query), 120)  # type: ignore[misc]
        assert typed_in(installation, tmp_path, search).count(orders) == 3
        told = typed_in(installation, tmp_path, recipe, **variables)
        assert "2 unchanged" in told
        said = installation.metajournal("show", orders, "--json").stdout + told
        assert "geheim" not in said
        words = ("kafka", broker, "--registry", variables["REGISTRY"], "--id", "events")
        delete_topics(admin, ["shop.clicks"])
        assert counts(ran(installation, *words)) == (0, 0, 1, 1)
        wrong = variables["REGISTRY"].replace("geheim", "falsch")
        failed = ran(installation, *(wrong if word == variables["REGISTRY"] else word for word in words), code=4)
        assert (failed["error"]["code"], "falsch" in json.dumps(failed)) == ("not-authenticated", False)
        said = ran(installation, *words)
        assert (counts(said), said["events"], said["run"]) == ((0, 0, 0, 1), 0, None)
    delete_topics(admin, ["shop.orders"])


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


def test_what_is_not_selected_any_more_is_kept_unless_pruned(installation: Installation, tmp_path: Path) -> None:
    database = sqlite(tmp_path / "many.db")
    database.execute([f"create table t{number}(id integer)" for number in range(12)])
    words = ("databases", database.url, "--id", "guarded")
    assert counts(ran(installation, *words))[0] == 13
    narrowed = ran(installation, *words, "--exclude", "*.t1*")
    assert (counts(narrowed), narrowed["unselected"]) == ((0, 0, 0, 10), 3)
    again = ran(installation, "databases", database.url, "--id", "another", "--dry-run")
    assert (again["other_sources"], len(again["changed"]["first"])) == ({"guarded": 13}, 13)
    database.execute([f"drop table t{number}" for number in range(10)])
    assert counts(ran(installation, *words)) == (0, 0, 10, 3)
    pruned = ran(installation, *words, "--exclude", "*.t11", "--prune")
    assert (counts(pruned), pruned["unselected"]) == ((0, 0, 1, 2), 0)


def test_runs_that_overlap_delete_nothing_of_each_other(installation: Installation, tmp_path: Path) -> None:
    database = sqlite(tmp_path / "overlapping.db")
    database.execute([*SHOP, "create table b(id integer)"])
    orders, b, c = (data(f"sqlite://{tmp_path}/overlapping.db", f"main.{name}") for name in ("orders", "b", "c"))

    class Slow(Databases):
        """While it reads, another run finds a table that it has not seen."""

        def read(self, tell: Any) -> Iterator[Any]:
            yield from list(super().read(tell))
            database.execute(["create table c(id integer)"])
            assert counts(ran(installation, "databases", database.url, "--id", "overlapping"))[0] == 1

    with Journal.connect(installation.settings) as journal:

        def bringing(kind: type[Databases] = Databases) -> Bringing:
            return Bringing(journal, kind(database.url, id="overlapping"))

        assert not (first := bringing()).bring(first.compare()).refused
        slow = bringing(Slow).compare()
        assert (slow.plan.steps, slow.plan.kept) == ([], 1)
        database.execute(["drop view totals", "drop table b", "drop table c"])
        runs = [bringing(), bringing()]
        compared = [run.compare() for run in runs]
        assert [len(each.plan.of(Change.DELETE)) for each in compared] == [3, 3]
        journal.emit(TagsAdded(b, tags=["pii"]), actor="carol").outcome(60)
        refusals = [run.bring(each).refused for run, each in zip(runs, compared, strict=True)]
        assert [[entity for entity, _ in refused] for refused in refusals] == [[b], [b]]
        assert "so it was not deleted" in refusals[0][0][1]
        assert (journal.show(b).user_tags, journal.show(orders).deleted) == (("pii",), False)
        with pytest.raises(UnknownEntityError):
            journal.show(c)
        last = bringing()
        compared_last = last.compare()
        assert (compared_last.plan.of(Change.DELETE), last.bring(compared_last).refused) == ([b], [])


def test_finished_runs_that_are_too_many_to_be_listed_are_not_emitted_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "TEXT_CHARS", 6_000)

    class Many(OpenLineageFiles):
        def read(self, tell: Any) -> Iterator[Any]:
            for number in range(900):
                of = urns.run("many", "loads", "workflow", "nightly", f"r{number}")
                yield Past(f"piece-{number:08}", (RunStarted(of, 1_767_268_800_000),))

    with Journal.connect(installation.settings) as journal:
        for runs in (900, 0):
            bringing = Bringing(journal, Many([], id="too-many"))
            compared = bringing.compare()
            assert compared.runs == runs
            bringing.bring(compared)


def _one(url: str, statement: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("make", SYSTEMS, ids=lambda make: make.__name__)
def test_a_run_that_is_killed_is_gone_on_with_and_a_system_that_is_away_deletes_nothing(
    installation: Installation, tmp_path: Path, make: Callable[[Path, str], AbstractContextManager[System]]
) -> None:
    broker = installation.settings.kafka["bootstrap.servers"]
    with make(tmp_path, broker) as system:
        words = (*system.words, "--id", f"many-{make.__name__}")
        with subprocess.Popen(
            [*CLI, "ingest", *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            cwd=installation.folder, env=installation.environment,
        ) as running:  # fmt: skip
            assert running.stderr is not None
            for line in running.stderr:
                if "bring in" in line:
                    running.kill()
        assert running.returncode == -signal.SIGKILL
        said = ran(installation, *words)
        told = said["registered"]["count"] + said["changed"]["count"] + said["unchanged"]
        assert (said["ok"], told) == (True, system.entities)
        assert counts(ran(installation, *words)) == (0, 0, 0, system.entities)
        with system.away():
            failed = installation.metajournal("ingest", *words, "--json")
            assert (failed.returncode in (1, 3), json.loads(failed.stdout)["ok"]) == (True, False)
        deleted, unchanged = system.shrink()
        said = ran(installation, *words)
        assert (said["registered"]["count"], said["deleted"]["count"]) == (0, deleted)
        assert counts(ran(installation, *words)) == (0, 0, 0, unchanged)


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
