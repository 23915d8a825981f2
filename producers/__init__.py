"""The emitting side of the client library."""
