"""Databases as a source: schemas, tables and views with columns, comments and keys, and the lineage of views."""
