"""The gateway's own pages: of entities of every kind, events and the pipeline; their templates and assets."""
