"""Lakehouses: tables that are files, in a folder or an object store."""
