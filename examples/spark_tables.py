"""The tables of a lake in Spark SQL: the catalog's current entities, the history of one, tags by count.

    python examples/spark_tables.py [LAKE] [--urn URN]

`entities` has one row for each change of an entity; the newest row of a URN says what is current. While the stream is
in the middle of a batch, a table may hold rows that the journal table does not vouch for yet.
On a cluster that has Delta already, only the two `spark.sql` settings are needed.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

CURRENT = """
    select urn, user_tags from (
        select *, row_number() over (partition by tenant, urn order by logical_timestamp desc, seq desc) as age
        from entities where domain = 'catalog'
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


def session(lake: str) -> SparkSession:
    """Spark on this machine, with the jars that metajournal downloads: of Delta, and of S3 where the lake is there."""
    from metajournal.stack.jars import ensure_parts

    groups = ("spark", "s3a") if "://" in lake else ("spark",)
    parts = ensure_parts(groups)
    jars = ",".join(str(jar) for group in groups for jar in parts.files(group))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "2")  # 200 are for a cluster, and so are
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "2")  # 50 for the table's log
    if "://" in lake:  # credentials: S3A finds AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment
        builder = builder.config("spark.hadoop.fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
        builder = builder.config("spark.hadoop.fs.s3a.endpoint.region", os.environ.get("AWS_REGION", "us-east-1"))
        if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
            builder = builder.config("spark.hadoop.fs.s3a.endpoint", endpoint)
            builder = builder.config("spark.hadoop.fs.s3a.path.style.access", "true")
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lake", nargs="?", help="folder or URL of the lake (default: the configured one)")
    parser.add_argument("--urn", help="the entity whose history is shown (default: the first current entity)")
    given = parser.parse_args()
    lake = given.lake or configured_lake()
    if "://" not in lake and not (Path(lake).is_dir() and Path(folder(lake, "entities")).is_dir()):
        parser.error(f"there is no lake with entities at {lake}; `metajournal config show` shows where yours is")
    spark = session(lake)
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
