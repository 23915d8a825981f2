"""Hypothesis without a deadline for each example: beside a busy broker a time proves nothing."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("metajournal", deadline=None)
settings.load_profile("metajournal")
