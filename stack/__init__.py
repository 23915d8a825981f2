"""The services on one machine without docker, for trying out and for tests."""
