"""The sizes the journal accepts, in one place.

Producers refuse what is larger before sending, decoders before allocating, rules when a decision would grow an
entity beyond its limit. Raising a limit is a compatible change for writers only once every reader has it.
"""

from __future__ import annotations

from typing import Final

MAX_EVENT_BYTES: Final = 1024 * 1024
"""Largest encoded value of a journal record: single-object header and body, bytes."""

MAX_ENTITY_BYTES: Final = 512 * 1024
"""Largest metadata of one entity, bytes of its canonical JSON (both scopes)."""

MAX_URN_BYTES: Final = 1024
"""Longest URN, bytes (URNs are ASCII, so characters too)."""

MAX_ENTRIES: Final = 1000
"""Most properties, tags, keys, schema fields or bulk entries that one event carries."""

MAX_UNIT_EVENTS: Final = 1000
"""Most events of one unit: its transaction must end within seconds, because it holds readers up meanwhile."""

MAX_UNIT_BYTES: Final = 16 * 1024 * 1024
"""Largest unit, bytes of its encoded values together."""

MAX_KEY_BYTES: Final = 1024
"""Longest property key or tag, bytes of UTF-8."""

MAX_FILE_TEXT_BYTES: Final = 8 * 1024
"""Longest url and longest path of a file, bytes of UTF-8: both stand in the row of each of its day buckets."""

MAX_BUCKETS: Final = 400
"""Most day buckets that one file touches."""

RESERVED_PROPERTIES: Final = frozenset({"creation_time", "created_by", "last_update_time", "last_updated_by"})
"""SYSTEM properties that the fold alone keeps; no producer can set or remove them."""
