"""dbt as a source: models, seeds, snapshots, sources, exposures, tests, owners, and the lineage of its runs."""
