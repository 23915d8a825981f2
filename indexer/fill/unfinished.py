"""Indexes that a rebuild has begun and not finished, for those who look on."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from ...schemas.settings import Settings
from ..connection import make_client
from ..waiting import Deadline
from .lease import read_begun

_ASKED_S: Final = 2.0
_REFUSED_S: Final = 0.5
"""A server that refuses connections is away, not slow."""
_UNDER_WAY: Final = frozenset({"load", "catch-up", "failed"})


class Unfinished(NamedTuple):
    """An index that is being filled, or whose rebuild was ended.

    Attributes:
        name: of the index.
        phase: `load` from the lake, `catch-up` with the state topics, or `failed`.
        done: entities indexed from the lake.
    """

    name: str
    phase: str
    done: int


def unfinished_indexes(settings: Settings) -> list[Unfinished]:
    """The indexes of unfinished rebuilds, by name.

    Raises:
        SearchUnavailableError: Elasticsearch does not answer.
    """
    wanted = settings.elasticsearch
    client = make_client(settings)
    try:
        deadline = Deadline(client, wanted.url, _ASKED_S, refused_s=_REFUSED_S)
        names = deadline.ask(lambda client: client.indices.get(index=f"{wanted.index}-*", features="mappings")).body
        found = []
        for name in sorted(names):
            begun = deadline.ask(partial(read_begun, name=name))
            if begun is not None and begun[0].phase in _UNDER_WAY:
                found.append(Unfinished(name, begun[0].phase, begun[0].done))
        return found
    finally:
        client.close()
