"""The tables of a lake in duckdb: the catalog's current entities, the history of one, tags by count.

    python examples/duckdb_tables.py [LAKE] [--urn URN]

`entities` has one row for each change of an entity; the newest row of a URN says what is current. While the stream is
in the middle of a batch, a table may hold rows that the journal table does not vouch for yet.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

CURRENT = """
    select urn, user_tags, logical_timestamp from entities where domain = 'catalog'
    qualify row_number() over (partition by tenant, urn order by logical_timestamp desc, seq desc) = 1 and not deleted
    order by urn
"""
HISTORY = """
    select logical_timestamp, system_time, actor, user_tags, deleted from entities
    where urn = ? order by logical_timestamp, seq
"""
TAGS = f"""
    select tag, count(*) as entities from (select unnest(user_tags) as tag from ({CURRENT}))
    group by tag order by entities desc, tag
"""


def folder(lake: str, table: str) -> str:
    """Where a table stands: `tables.json` says it once tables have been rebuilt."""
    files = PyFileSystem(DeltaStorageHandler(lake))  # of a folder, or of an object store (AWS_* in the environment)
    try:
        with files.open_input_stream("tables.json") as pointer:
            moved = json.loads(pointer.read())["tables"]
    except FileNotFoundError:
        moved = {}
    return f"{lake}/{moved.get(table, table)}"


def configured_lake() -> str:
    """The lake of the configuration; how to reach its store goes into the environment."""
    from metajournal.config import load_settings

    lake = load_settings().settings.lake
    os.environ |= lake.storage_options
    return lake.path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lake", nargs="?", help="folder or URL of the lake (default: the configured one)")
    parser.add_argument("--urn", help="the entity whose history is shown (default: the first current entity)")
    given = parser.parse_args()
    lake = given.lake or configured_lake()
    if "://" not in lake and not (Path(lake).is_dir() and Path(folder(lake, "entities")).is_dir()):
        parser.error(f"there is no lake with entities at {lake}; `metajournal config show` shows where yours is")
    duckdb.execute("set timezone = 'UTC'")
    duckdb.register("entities", DeltaTable(folder(lake, "entities")).to_pyarrow_dataset())

    current = duckdb.execute(CURRENT).fetchall()
    print(f"{len(current)} current entities")
    for urn, tags, _ in current[:10]:
        print(f"  {urn}  {', '.join(tags)}")
    urn = given.urn or (current[0][0] if current else "")
    print(f"history of {urn}")
    for place, when, actor, tags, deleted in duckdb.execute(HISTORY, [urn]).fetchall():
        print(f"  {place}  {when:%Y-%m-%d %H:%M:%S}  {actor}  {'deleted' if deleted else ', '.join(tags)}")
    print("tags by count")
    for tag, count in duckdb.execute(TAGS).fetchall():
        print(f"  {count}  {tag}")


if __name__ == "__main__":
    main()
