"""The journal over HTTP: one table of endpoints, rights, answers, and the server. It names no domain."""
