"""metajournal: metadata as a journal of events (the public API of the package)."""
