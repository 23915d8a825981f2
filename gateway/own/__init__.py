"""The rows of the table that belong to no domain: entities of every kind, search, events."""
