"""Files of OpenLineage events as a source: the data and jobs in them become entities, and runs become lineage."""
