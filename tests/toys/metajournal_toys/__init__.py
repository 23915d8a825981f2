"""Toys: a domain for metajournal, from outside of its package."""
