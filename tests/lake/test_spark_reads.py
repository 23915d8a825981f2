"""Spark opens what compaction and vacuum leave of a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from metajournal.lake.storage.runs import MOST_LOOSE
from metajournal.lake.tables import Reached
from metajournal.stack.jars import spark_jars
from tests.lake.test_compaction import KEY, append, fill, journal_rows
from tests.lake.test_tables import lake_at

pytestmark = pytest.mark.services
SCRIPT = """
import json, sys
from metajournal.streaming.spark.session import open_session
entities, journal, log, *jars = sys.argv[1:]
session = open_session(jars, {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}, log=log)
session.read.format("delta").load(entities).createOrReplaceTempView("entities")
session.read.format("delta").load(journal).createOrReplaceTempView("journal")
ask = lambda text: [list(row) for row in session.sql(text).collect()]
json.dump([
    ask("select urn, logical_timestamp, size(user_tags) from entities order by all"),
    ask("select cast(system_date as string), count(*) from journal group by all order by all"),
], sys.stdout)
session.stop()
"""


def test_spark_reads_a_table_that_was_compacted_and_vacuumed(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    entities, journal = lake.tables["entities"], lake.journal
    fill(entities, MOST_LOOSE)
    for number in range(MOST_LOOSE):
        journal.append(journal_rows([number % 2], number + 1), Reached({KEY: number + 2}, {}, {"catalog": "rules-1"}))
    assert (entities.compact(), journal.compact()) == (MOST_LOOSE, MOST_LOOSE // 2)
    append(entities, [1, 2], entities.mark(KEY))
    for table in (entities, journal):
        table.vacuum(0)
    command = [sys.executable, "-c", SCRIPT, entities.uri, journal.uri, str(tmp_path), *spark_jars()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ended.returncode == 0, ended.stderr
    rows, dates = json.loads(ended.stdout)
    found = entities.query("urn, logical_timestamp, user_tags", "true order by urn, logical_timestamp")
    assert len(rows) == MOST_LOOSE * 3 + 2
    assert rows == [[row["urn"], row["logical_timestamp"], len(row["user_tags"])] for row in found]
    assert dates == [["2026-01-01", MOST_LOOSE // 2], ["2026-01-02", MOST_LOOSE // 2]]
