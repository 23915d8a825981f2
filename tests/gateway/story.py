"""A night of an Airflow DAG whose tasks run Spark and dbt, as their OpenLineage integrations tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from openlineage.client import event_v2 as ol
from openlineage.client.event_v2 import RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    datasource_dataset,
    documentation_dataset,
    documentation_job,
    error_message_run,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
)

from metajournal.domains.catalog.naming import data
from metajournal.domains.catalog.urns import program, run
from metajournal.schemas.urn import Urn

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
PRODUCER = "https://example.com/tests"
WAREHOUSE = "postgres://db.acme:5432"
_ALL = UUID("4bc6b9b6-6c6a-4a53-9b1e-2b0f3f6f8a10")


def schema(*columns: tuple[str, str]) -> schema_dataset.SchemaDatasetFacet:
    """A schema facet."""
    return schema_dataset.SchemaDatasetFacet([schema_dataset.SchemaDatasetFacetFields(*column) for column in columns])


class Night:
    """The events of one night, each with a time of its own.

    Args:
        name: of everything in it, so that nights are apart.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lake = f"s3://{name}"
        self.database = f"{name}.public"
        self._second = 0

    def run_id(self, job: str) -> str:
        """The id of a job's run."""
        return str(uuid5(_ALL, f"{self.name}/{job}"))

    def run_of(self, namespace: str, job: str) -> Urn:
        """The run of a job in the journal."""
        return run(f"{self.name}-{namespace}", job, "workflow", job, self.run_id(job))

    def job_of(self, namespace: str, job: str) -> Urn:
        """The program of a job in the journal."""
        return program(f"{self.name}-{namespace}", job, "workflow", job)

    @property
    def raw(self) -> Urn:
        return data(self.lake, "raw/orders")

    @property
    def staged(self) -> Urn:
        return data(WAREHOUSE, f"{self.database}.stg_orders")

    @property
    def daily(self) -> Urn:
        return data(WAREHOUSE, f"{self.database}.daily")

    def events(self) -> list[Any]:
        """All of them, in their order."""
        self._second = 0
        return [*self._airflow(), *self._spark(), *self._dbt(), *self._static()]

    def _airflow(self) -> Iterator[ol.RunEvent]:
        nominal = {"nominalTime": nominal_time_run.NominalTimeRunFacet("2026-01-05T00:00:00Z")}
        kind = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "AIRFLOW", "DAG")}
        note = {"documentation": documentation_job.DocumentationJobFacet("The nightly load")}
        yield self._event("airflow", "nightly", RunState.START, run=nominal, job={**kind, **note})
        yield self._event("airflow", "nightly", RunState.COMPLETE, run=nominal, job=kind)

    def _spark(self) -> Iterator[ol.RunEvent]:
        of = {"parent": parent_run.ParentRunFacet(
            parent_run.Run(self.run_id("nightly")), parent_run.Job(f"{self.name}-airflow", "nightly"))}  # fmt: skip
        engine = {"processing_engine": processing_engine_run.ProcessingEngineRunFacet("4.1.1", "spark", "1.54.0")}
        part, whole = schema(("id", "long")), schema(("id", "long"), ("amount", "double"))
        source = {"schema": part, "dataSource": datasource_dataset.DatasourceDatasetFacet("lake", self.lake)}
        raw = [ol.InputDataset(self.lake, "raw/orders", facets=source)]
        out = ol.OutputDataset(WAREHOUSE, f"{self.database}.stg_orders", facets={"schema": whole})
        yield self._event("spark", "stage", RunState.START, raw, [out], run={**of, **engine})
        yield self._event("spark", "stage", RunState.RUNNING, raw, [out], run=engine)
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=3)
        done = ol.OutputDataset(
            WAREHOUSE,
            f"{self.database}.stg_orders",
            facets={"schema": whole},
            outputFacets={"outputStatistics": counted},
        )
        yield self._event("spark", "stage", RunState.COMPLETE, raw, [done], run=of)

    def _dbt(self) -> Iterator[ol.RunEvent]:
        column = column_lineage_dataset.InputField(WAREHOUSE, f"{self.database}.stg_orders", "amount")
        facets: dict[str, Any] = {
            "schema": schema(("day", "date"), ("total", "numeric")),
            "documentation": documentation_dataset.DocumentationDatasetFacet("What was sold a day"),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(
                {"total": column_lineage_dataset.Fields([column])}),
        }  # fmt: skip
        read = [
            ol.InputDataset(WAREHOUSE, f"{self.database}.stg_orders", facets={"schema": schema(("amount", "double"))})
        ]
        wrote = [ol.OutputDataset(WAREHOUSE, f"{self.database}.daily", facets=facets)]
        sql = {"sql": sql_job.SQLJobFacet("select day, sum(amount) total from stg_orders group by 1")}
        yield self._event("dbt", "daily", RunState.START, read, wrote, job=sql)
        wrong = {"errorMessage": error_message_run.ErrorMessageRunFacet("relation is locked", "python")}
        yield self._event("dbt", "daily", RunState.FAIL, read, wrote, run=wrong, job=sql)
        newer = {**facets, "schema": schema(("day", "date"), ("total", "numeric"), ("orders", "bigint"))}
        yield self._event("dbt", "daily-2", RunState.START, read, wrote, job=sql)
        again = [ol.OutputDataset(WAREHOUSE, f"{self.database}.daily", facets=newer)]
        yield self._event("dbt", "daily-2", RunState.COMPLETE, read, again, job=sql)

    def _static(self) -> Iterator[ol.DatasetEvent | ol.JobEvent]:
        facets: dict[str, Any] = {
            "documentation": documentation_dataset.DocumentationDatasetFacet("Orders as the shop sends them")
        }
        yield ol.DatasetEvent(
            eventTime=self._time(), producer=PRODUCER, dataset=ol.StaticDataset(self.lake, "raw/orders", facets=facets)
        )
        yield ol.JobEvent(
            eventTime=self._time(), producer=PRODUCER,
            job=ol.Job(f"{self.name}-dbt", "report", facets={"sql": sql_job.SQLJobFacet("select * from daily")}),
            inputs=[ol.InputDataset(WAREHOUSE, f"{self.database}.daily")],
        )  # fmt: skip

    def _event(
        self, namespace: str, name: str, state: RunState, inputs: Sequence[ol.InputDataset] = (),
        outputs: Sequence[ol.OutputDataset] = (), *, run: dict[str, Any] | None = None,
        job: dict[str, Any] | None = None,
    ) -> ol.RunEvent:  # fmt: skip
        return ol.RunEvent(
            eventTime=self._time(), producer=PRODUCER, eventType=state, run=ol.Run(self.run_id(name), facets=run or {}),
            job=ol.Job(f"{self.name}-{namespace}", name, facets=job or {}),
            inputs=list(inputs), outputs=list(outputs),
        )  # fmt: skip

    def _time(self) -> str:
        self._second += 1
        return (MIDNIGHT + timedelta(seconds=self._second)).isoformat()
