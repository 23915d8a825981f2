"""The tables of a lake in Spark SQL: current entities, the history of one, tags by count.

    python examples/spark_tables.py [LAKE] [--urn URN]

`entities` has one row for each change of an entity; the newest row of a URN says what is current. While the stream is
in the middle of a batch, a table may hold rows that the journal table does not vouch for yet.
On a cluster that has Delta already, only the two `spark.sql` settings are needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

CURRENT = """
    select urn, user_tags from (
        select *, row_number() over (partition by tenant, urn order by logical_timestamp desc, seq desc) as age
        from entities
    ) where age = 1 and not deleted order by urn
"""
HISTORY = """
    select logical_timestamp, date_format(system_time, 'yyyy-MM-dd HH:mm:ss'), actor, user_tags, deleted, urn
    from entities order by logical_timestamp, seq
"""
TAGS = f"""
    select tag, count(*) as entities from (select explode(user_tags) as tag from ({CURRENT}))
    group by tag order by entities desc, tag
"""


def folder(lake: str, table: str) -> str:
    """Where a table stands: `tables.json` says it once tables have been rebuilt."""
    pointer = Path(lake, "tables.json")
    moved = json.loads(pointer.read_text())["tables"] if pointer.exists() else {}
    return f"{lake}/{moved.get(table, table)}"


def configured_lake() -> str:
    """The lake of the configuration."""
    from metajournal.config import load_settings

    return load_settings().settings.lake.path


def session() -> SparkSession:
    """Spark on this machine, with the Delta jars that metajournal has downloaded."""
    from metajournal.stack.jars import ensure_parts

    jars = ",".join(str(jar) for jar in ensure_parts(("spark",)).files("spark"))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "2")  # 200 are for a cluster, and so are
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "2")  # 50 for the table's log
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lake", nargs="?", help="folder of the lake (default: the configured one)")
    parser.add_argument("--urn", help="the entity whose history is shown (default: the first current entity)")
    given = parser.parse_args()
    lake = given.lake or configured_lake()
    if "://" not in lake and not Path(folder(lake, "entities")).is_dir():
        parser.error(f"there is no lake with entities at {lake}; `metajournal config show` shows where yours is")
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    table = spark.read.format("delta").load(folder(lake, "entities"))
    table.createOrReplaceTempView("entities")

    current = spark.sql(CURRENT).collect()
    print(f"{len(current)} current entities")
    for one in current[:10]:
        print(f"  {one.urn}  {', '.join(one.user_tags)}")
    urn = given.urn or (current[0].urn if current else "")
    print(f"history of {urn}")
    for place, when, actor, tags, deleted, _ in spark.sql(HISTORY).where(col("urn") == urn).collect():
        print(f"  {place}  {when}  {actor}  {'deleted' if deleted else ', '.join(tags)}")
    print("tags by count")
    for tag, count in spark.sql(TAGS).collect():
        print(f"  {count}  {tag}")
    spark.stop()


if __name__ == "__main__":
    main()
