"""Sources that turn real things into events."""
