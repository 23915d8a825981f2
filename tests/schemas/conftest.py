"""Hypothesis without a deadline for each example: the machine may be busy with brokers, and a time proves nothing here."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("metajournal", deadline=None)
settings.load_profile("metajournal")
