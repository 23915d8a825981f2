"""The contracts of lineage events, one file a type and version."""
