"""Event classes, one module a domain."""
