"""Entities and their annotations: registered, tagged, described, found."""
