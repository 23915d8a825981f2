"""Derived tables: pieces, the process that makes them beside the fold, and the driver's part that commits them."""
