"""Files of OpenLineage events as a source: what lineage names becomes entities, and runs become lineage."""
