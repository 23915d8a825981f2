"""What is read of real files and tables: Parquet, CSV, Delta and Iceberg, on disk and in an S3 server."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.naming import data
from metajournal.schemas.errors import InputError
from metajournal.sources.found import Found, Problem
from metajournal.sources.lakehouse.source import Lakehouse
from metajournal.sources.plan import Change, Plan, plan
from metajournal.sources.source import Identity, SourceError, SourceUnavailableError
from tests.builders import NOON
from tests.properties import examples
from tests.rules.harness import Catalog
from tests.sources.lakehouses import CUSTOMERS, ORDERS, S3, Place, on_disk, s3_server, write_shop
from tests.sources.test_plan import brought, held_of, judged

NESTED = (
    ("id", "int64"), ("amount", "double"), ("address", "struct"), ("address.city", "string"),
    ("address.zips", "list<struct>"), ("address.zips.element", "struct"), ("address.zips.element.code", "string"),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.thorough)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place, on disk and in a bucket."""
    if request.param == "disk":
        return on_disk(tmp_path)
    server: S3 = request.getfixturevalue("server")
    return server.bucket(f"lake-{uuid4().hex}")


def read(place: Place, **how: Any) -> tuple[dict[str, Found], list[Problem]]:
    """What is found, by its path below the place; and what could not be read."""
    source = Lakehouse(place.url, **{"storage": place.storage, **how})
    every = list(source.read(lambda _: None))
    root = place.root if place.url == place.root else ""
    found = {one.entity.name.removeprefix(root).strip("/"): one for one in every if isinstance(one, Found)}
    return found, [one for one in every if isinstance(one, Problem)]


def test_tables_of_every_format_are_found_by_their_paths(place: Place) -> None:
    write_shop(place)
    found, problems = read(place)
    assert problems == []
    assert found.keys() == {"orders", "raw/customers.csv", "raw/countries.csv", "sales"}
    assert found["orders"].entity.namespace == ("file" if place.url == place.root else place.url)
    assert found["orders"].schema == (*NESTED, ("year", "int64"))
    told = found["orders"].properties
    assert (told["format"], told["files"], told["rows"], told["partitioned_by"]) == ("parquet", "2", "6", "year")
    assert told["last_change"].endswith("Z")
    sales = found["sales"]
    assert (sales.description, dict(sales.schema or ())["address.city"]) == ("What was sold", "string")
    assert {key: sales.properties[key] for key in ("format", "version", "rows", "partitions", "partitioned_by")} == {
        "format": "delta", "version": "0", "rows": "3", "partitions": "3", "partitioned_by": "id",
    }  # fmt: skip


def test_a_csv_file_has_a_header_types_and_a_delimiter(place: Place) -> None:
    place.write("customers.csv", CUSTOMERS)
    place.write("zipped.csv.gz", gzip.compress(b"a,b\n1,x\n"))
    place.write("no header.csv", "1,2.5\n2,3.5\n")
    place.write("quoted.csv", 'a,b\n"two\nlines",1\n')
    place.write("blank lines first.csv", "\n \r\n\nid,name\n1,x\n")
    place.write("blank.csv", "\n\n")
    found, problems = read(place)
    assert problems == []
    customers = found["customers.csv"]
    assert customers.schema == (("id", "int64"), ("name", "string"), ("since", "date32[day]"))
    assert (customers.properties["delimiter"], customers.properties["rows"]) == (";", "2")
    assert found["zipped.csv.gz"].schema == (("a", "int64"), ("b", "string"))
    first = found["blank lines first.csv"]
    assert (first.schema, first.properties["rows"]) == ((("id", "int64"), ("name", "string")), "1")
    assert (found["blank.csv"].schema, found["blank.csv"].properties["rows"]) == (None, "0")
    assert found["no header.csv"].schema == (("f0", "int64"), ("f1", "double"))
    assert (found["quoted.csv"].schema, found["quoted.csv"].properties["rows"]) == (
        (("a", "string"), ("b", "int64")),
        "1",
    )


def test_of_a_large_csv_file_a_sample_is_read_and_said_so(place: Place) -> None:
    place.write("large.csv", "id,text\n" + "".join(f'{number},"a text, and\n more"\n' for number in range(20_000)))
    found, problems = read(place)
    assert problems == []
    assert found["large.csv"].schema == (("id", "int64"), ("text", "string"))
    assert found["large.csv"].properties["sampled"].startswith("columns and types are those of the first 64 KiB")
    assert "rows" not in found["large.csv"].properties


def test_files_with_the_same_columns_are_one_data_set_and_others_are_not(place: Place) -> None:
    place.write_parquet("same/a.parquet")
    place.write_parquet("same/b.parquet", ORDERS.select(["address", "amount", "id"]))
    place.write_parquet("numbered/part-00000-7a.snappy.parquet", pa.table({"id": [1]}))
    place.write_parquet("numbered/part-00001-7a.snappy.parquet", pa.table({"id": [1.5], "more": ["x"]}))
    place.write_parquet("two/a.parquet")
    place.write_parquet("two/b.parquet", pa.table({"other": [1]}))
    place.write_parquet("both/0.parquet")
    place.write("both/0.csv", "a\n1\n")
    found, _ = read(place)
    assert found.keys() == {"same", "numbered", "two/a.parquet", "two/b.parquet", "both/0.parquet", "both/0.csv"}
    assert found["same"].properties["rows"] == "6"
    assert found["numbered"].schema == (("id", "double"), ("more", "string"))


def test_columns_of_types_that_fit_into_none_have_them_all(place: Place) -> None:
    place.write_parquet("t/0.parquet", pa.table({"id": [1]}))
    place.write_parquet("t/1.parquet", pa.table({"id": ["a"]}))
    assert read(place)[0]["t"].schema == (("id", "int64 | string"),)


def test_hidden_and_temporary_files_are_not_read(place: Place) -> None:
    place.write_parquet("t/0.parquet")
    for name in (
        "_SUCCESS",
        ".0.parquet.crc",
        "0.parquet.tmp",
        "_temporary/1.parquet",
        ".hidden/x.csv",
        "_committed.csv",
    ):
        place.write(f"t/{name}", "no data")
    place.write_parquet("t/_day=2026-01-01/1.parquet")
    found, problems = read(place)
    assert ({*found}, problems) == ({"t"}, [])
    assert (found["t"].properties["files"], found["t"].properties["partitioned_by"]) == ("2", "_day")


def test_what_is_left_out_is_not_read(place: Place) -> None:
    place.write_parquet("keep/0.parquet")
    place.write_parquet("scratch/tmp/0.parquet")
    assert {*read(place, exclude=["scratch*"])[0]} == {"keep"}


def test_names_of_any_characters_come_through(place: Place) -> None:
    place.write_parquet("Größe und % / mehr/a+b=c/Datei mit Leerzeichen.parquet".replace(" / ", " "))
    place.write_delta("Delta und mehr")
    found, problems = read(place)
    assert problems == []
    assert {*found} == {"Größe und % mehr", "Delta und mehr"}
    assert found["Größe und % mehr"].properties["partitioned_by"] == "a+b"


def test_a_file_that_cannot_be_read_is_named_and_its_data_set_keeps_what_was_known(place: Place) -> None:
    write_shop(place)
    ledger, identity = Catalog(), Identity("lakehouse", "lake", "lakehouse.")
    brought(ledger, identity, [*read(place)[0].values()])
    before = {urn: row.system_properties for (_, urn), row in ledger.newest.items()}
    place.write("orders/year=2026/part-0.parquet", "no Parquet at all")
    place.write("sales/_delta_log/00000000000000000001.json", "{no json")
    place.delete("raw/countries.csv")
    found, problems = read(place)
    assert {problem.what for problem in problems} == {"orders/year=2026/part-0.parquet", "sales"}
    made = plan(identity, found.values(), held_of(ledger), whole=not problems, at_ms=NOON)
    assert [step.change for step in made.steps] == ["changed"]
    brought(ledger, identity, [*found.values()], whole=False)
    orders = next(row for (_, urn), row in ledger.newest.items() if urn.endswith("orders"))
    for key in ("schema", "lakehouse.rows"):
        assert orders.system_properties[key] == before[str(found["orders"].entity)][key]
    assert not any(row.deleted for row in ledger.newest.values())


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    place = on_disk(tmp_path)
    place.write_parquet("a/0.parquet")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found, problems = read(place)
    assert ({*found}, problems) == ({"a"}, [])


def run(catalog: Catalog, place: Place, **how: Any) -> tuple[Plan, list[str]]:
    """One run, as `ingest` does it."""
    source = Lakehouse(place.url, storage=place.storage, id="lake", **how)
    every = list(source.read(lambda _: None))
    found = [one for one in every if isinstance(one, Found)]
    problems = [one.what for one in every if isinstance(one, Problem)]
    whole = not problems
    made = plan(source.identity, found, held_of(catalog), whole=whole, at_ms=NOON, selects=source.selects)
    for step in made.steps:
        for event in step.events:
            judged(catalog, event, source.identity.actor)
    return made, problems


@pytest.mark.parametrize(
    ("link", "kept"),
    [
        ("orders", 1),  # a folder of partitions, on a disk of its own
        ("orders/year=2026", 1),
        ("orders/year=2026/part-0.parquet", 1),
        ("raw", 3),
        ("raw/customers.csv", 2),  # whether the other file is one data set with it is not known
        ("raw/same/b.csv", 1),
        ("sales", 1),
        ("sales/_delta_log", 1),
    ],
)
def test_a_link_to_nothing_is_told_and_what_it_led_to_is_not_gone(tmp_path: Path, link: str, kept: int) -> None:
    """A disk that is not mounted looks so. A single file counts too: its data set would lose its rows and columns."""
    place, catalog = on_disk(tmp_path / "lake"), Catalog()
    write_shop(place)
    for name in ("a", "b"):
        place.write(f"raw/same/{name}.csv", "id,name\n1,x\n")
    (tmp_path / "disk").mkdir()
    disk, here = tmp_path / "disk" / "of", tmp_path / "lake" / link
    here.rename(disk)
    here.symlink_to(disk)
    assert run(catalog, place)[1] == []
    before = held_of(catalog)
    disk.rename(tmp_path / "disk" / "away")
    made, problems = run(catalog, place)
    assert (problems, made.steps) == ([link], [])
    assert made.kept == kept
    assert held_of(catalog) == before
    made, problems = run(catalog, place, exclude=[link])
    assert problems == []
    (tmp_path / "disk" / "away").rename(disk)
    made, problems = run(catalog, place)
    assert (problems, made.kept, made.unselected) == ([], 0, 0)


def test_what_was_in_a_folder_that_is_empty_now_is_kept_unless_pruned(tmp_path: Path) -> None:
    """A disk may not be mounted there. A folder that is gone, or holds anything, says that its tables are gone."""
    place, catalog = on_disk(tmp_path), Catalog()
    write_shop(place)
    place.write_parquet("disk/totals/0.parquet")
    assert run(catalog, place)[1] == []
    for path in ("disk", "orders"):
        place.store.delete_dir_contents(f"{place.root}/{path}")
    made, problems = run(catalog, place)
    assert (problems, made.of(Change.DELETE), made.unselected) == ([], [], 2)
    place.write("disk/README.md", "mounted")
    place.delete("orders")
    made, _ = run(catalog, place)
    assert ({urn.name.rpartition("/")[2] for urn in made.of(Change.DELETE)}, made.unselected) == (
        {"totals", "orders"}, 0,
    )  # fmt: skip


def test_a_name_that_is_not_utf8_is_a_problem_and_nothing_is_deleted(tmp_path: Path) -> None:
    place = on_disk(tmp_path)
    place.write_parquet("a/0.parquet")
    place.write_parquet("b/0.parquet")
    place.write_parquet("parts/year=1/0.parquet")
    place.write_parquet("parts/year=2/0.parquet")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/parts/year=2/\xff.csv"))).write_text("a\n1\n")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/b/\xff.csv"))).write_text("a\n1\n")
    found, problems = read(place)
    assert ({*found}, [problem.what for problem in problems]) == ({"a"}, ["b", "parts/year=2"])


def test_a_name_that_does_not_fit_into_a_urn_is_a_problem_and_the_others_are_found(tmp_path: Path) -> None:
    place = on_disk(tmp_path)
    place.write("raw/a.csv", "a\n1\n")
    place.write(f"raw/{'ü' * 120}/{'ü' * 120}/z.csv", "z\n1\n")
    found, problems = read(place)
    assert ({*found}, len(problems)) == ({"raw/a.csv"}, 1)


def test_an_empty_place_and_one_that_is_not_there_are_errors(place: Place) -> None:
    for url in (f"{place.url}/nowhere", place.url):
        with pytest.raises(SourceError) as failed:
            list(Lakehouse(url, storage=place.storage).read(lambda _: None))
        assert failed.value.code == "source-not-found"


@pytest.mark.thorough
def test_a_store_that_does_not_answer_or_refuses_is_told_so_without_its_keys(server: S3) -> None:
    place = server.bucket(f"lake-{uuid4().hex}")
    write_shop(place)
    gone = [text if "endpoint" not in text else "aws_endpoint_url=http://127.0.0.1:1" for text in place.storage]
    server.admit(0)
    try:
        for storage, kind, code in (
            (gone, SourceUnavailableError, "source-unavailable"),
            (place.storage, SourceError, "not-authenticated"),
        ):
            with pytest.raises(kind) as failed:
                list(Lakehouse(place.url, storage=storage).read(lambda _: None))
            assert failed.value.code == code
            assert "geheim" not in f"{failed.value}{failed.value.__dict__}"
    finally:
        server.admit(1e9)
    with pytest.raises(SourceError) as missing:
        list(Lakehouse("s3://nowhere-at-all", storage=place.storage).read(lambda _: None))
    assert missing.value.code == "source-not-found"
    assert "geheim" not in repr(Lakehouse(place.url, storage=place.storage)._place)


@pytest.mark.thorough
def test_a_store_that_dies_in_the_middle_ends_the_reading() -> None:
    with s3_server() as dying:
        place = dying.bucket("lake")
        write_shop(place)
        reading = Lakehouse(place.url, storage=place.storage).read(lambda _: None)
        assert isinstance(next(reading), Found)
        dying.process.kill()
        dying.process.wait()
        with pytest.raises(SourceUnavailableError):
            list(reading)


@pytest.mark.parametrize(
    ("path", "storage"),
    [
        ("", ()), ("ftp://host/x", ()), ("s3://", ()), ("s3://key:geheim@bucket/x", ()), ("file://host/x", ()),
        ("s3://bucket", ("geheim",)),
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_and_not_shown(path: str, storage: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as refused:
        Lakehouse(path, storage=storage)
    assert "geheim" not in f"{refused.value}{refused.value.__dict__}"


def test_the_id_and_the_names_follow_from_the_address() -> None:
    for address in ("s3a://acme-lake/silver/", "s3://acme-lake/silver"):
        source = Lakehouse(address)
        assert (source.identity.id, source.systems) == ("s3-acme-lake-silver", (data("s3://acme-lake", "silver"),))
    assert (
        Lakehouse("/data/x/../lake/").systems == Lakehouse("file:///data/lake").systems == (data("file", "/data/lake"),)
    )


# Iceberg: tables that pyiceberg writes, and metadata of every format version.


def iceberg_catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("own", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    return catalog


@pytest.mark.thorough
@pytest.mark.parametrize("version", [1, 2])
def test_an_iceberg_table_says_its_schema_partitions_and_snapshot(tmp_path: Path, version: int) -> None:
    from pyiceberg.transforms import BucketTransform, IdentityTransform

    catalog = iceberg_catalog(tmp_path)
    table = catalog.create_table(
        "shop.orders", ORDERS.append_column("day", pa.array([date(2026, 1, 1)] * 3)).schema,
        properties={"format-version": str(version), "comment": "What was ordered"},
    )  # fmt: skip
    place = on_disk(tmp_path / "warehouse")
    found, problems = read(place)
    assert ({*found}, problems) == ({"shop/orders"}, [])
    assert (found["shop/orders"].properties["rows"], found["shop/orders"].properties["files"]) == ("0", "0")
    table.append(ORDERS.append_column("day", pa.array([date(2026, 1, 1)] * 3)))
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day")
        spec.add_field("id", BucketTransform(4), "id_bucket")
    with table.update_schema() as schema:
        schema.update_column("amount", doc="net of taxes")
        schema.rename_column("id", "number")
    found, problems = read(place)
    assert problems == []
    orders = found["shop/orders"]
    assert orders.schema == (
        ("number", "long"), ("amount", "double"), ("address", "struct"), ("address.city", "string"),
        ("address.zips", "list<struct>"), ("address.zips.element", "struct"), ("address.zips.element.code", "string"),
        ("day", "date"),
    )  # fmt: skip
    told = orders.properties
    assert (told["format_version"], told["rows"], told["partitioned_by"]) == (
        str(version),
        "3",
        "day, bucket[4](number)",
    )
    assert (told["comment.amount"], orders.description) == ("net of taxes", "What was ordered")
    assert told["files"] == str(len(list(table.scan().plan_files())))


def test_the_newest_metadata_of_an_iceberg_table_counts_and_a_hint_before_it(tmp_path: Path) -> None:
    def metadata(column: str) -> str:
        return (
            '{"format-version": 1, "last-updated-ms": 1767268800000, "current-snapshot-id": -1, "schema":'
            f' {{"type": "struct", "fields": [{{"id": 1, "name": "{column}", "required": false, "type": "long"}}]}},'
            ' "partition-spec": [{"source-id": 1, "name": "p", "transform": "identity"}]}'
        )

    place = on_disk(tmp_path)
    for number in (2, 10, 9):
        place.write(f"t/metadata/{number:05}-aa.metadata.json", metadata(f"c{number}"))
    place.write("t/metadata/snap-1.avro", "x")
    assert read(place)[0]["t"].schema == (("c10", "long"),)
    place.write("t/metadata/v3.metadata.json", metadata("hinted"))
    place.write("t/metadata/version-hint.text", "3\n")
    found = read(place)[0]["t"]
    assert (found.schema, found.properties["partitioned_by"]) == ((("hinted", "long"),), "hinted")
    assert found.properties["last_change"] == "2026-01-01T12:00:00Z"
    place.write("t/metadata/v3.metadata.json", gzip.compress(metadata("packed").encode()))
    assert read(place)[0]["t"].schema == (("packed", "long"),)
    for broken in ("[]", "{", '{"format-version": 9}', '{"format-version": 2}'):
        place.write("t/metadata/v3.metadata.json", broken)
        found_now, problems = read(place)
        assert ([problem.what for problem in problems], found_now) == (["t"], {})


# Whatever changes between runs.

kinds = st.sampled_from(["parquet", "csv", "delta"])
columns = st.lists(st.sampled_from(["id", "name", "amount"]), min_size=1, max_size=3, unique=True)
lakes = st.dictionaries(
    st.sampled_from(["orders", "customers", "deep/er/totals"]), st.tuples(kinds, columns), max_size=3
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(lakes, st.none() | st.integers(0, 9)), min_size=1, max_size=4))
def test_whatever_changes_between_runs_the_catalog_ends_at_what_the_lake_holds(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[dict[str, tuple[str, list[str]]], int | None]]
) -> None:
    """Tables added, changed, renamed, dropped, runs killed anywhere: what is there equals the lake, twice or once."""
    place, ledger = on_disk(tmp_path_factory.mktemp("lake")), Catalog()
    identity = Lakehouse(place.url, id="lake").identity
    place.write("README.md", "so that the place is never empty")
    tables: dict[str, tuple[str, list[str]]] = {}
    for wanted, most in [*runs, (runs[-1][0], None)]:
        for name in [name for name in tables if wanted.get(name) != tables[name]]:
            place.delete(name)
        for name, (kind, names) in wanted.items():
            if tables.get(name) != (kind, names):
                table = pa.table({column: pa.array([1, 2], pa.int64()) for column in names})
                if kind == "delta":
                    place.write_delta(name, table)
                elif kind == "csv":
                    place.write(f"{name}/0.csv", f"{','.join(names)}\n{','.join('1' * len(names))}\n")
                else:
                    place.write_parquet(f"{name}/0.parquet", table)
        tables = wanted
        found, problems = read(place)
        assert problems == []
        brought(ledger, identity, [*found.values()], most=most)
    live = {urn: row for (_, urn), row in ledger.newest.items() if row.kind == "dataset" and not row.deleted}
    assert live.keys() == {data("file", f"{place.root}/{name}") for name in tables}
    for name, (kind, names) in tables.items():
        properties = live[data("file", f"{place.root}/{name}")].system_properties
        word = "long" if kind == "delta" else "int64"
        assert properties["schema"] == "[" + ",".join(f'["{column}","{word}"]' for column in names) + "]"
        assert properties["lakehouse.format"] == kind
        assert properties["lakehouse.rows"] == ("1" if kind == "csv" else "2")
    assert plan(identity, read(place)[0].values(), held_of(ledger), whole=True, at_ms=NOON).steps == []
