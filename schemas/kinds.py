"""The table of entity kinds: which domain owns each, what its aggregate is, how many parts its path has.

The journal topic of an event follows from its entity's kind alone. The domains declare their kinds; one that none of
them declares belongs to the domain that owns undeclared kinds, and is its own aggregate.

A kind that a domain took over when it joined a journal was undeclared in records before that: whoever reads those does
it within `undeclared`, which only that reader's own context feels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Final

from .domain import Domain, Kind
from .registry import for_each_domain, owner_of_undeclared, taken_in

KIND_PATTERN: Final = re.compile(r"[a-z][a-z0-9-]*")
_UNDECLARED: Final[ContextVar[frozenset[str]]] = ContextVar("undeclared kinds", default=frozenset())
undeclared_now: Final = _UNDECLARED.get
"""The kinds that are read as undeclared in this context."""

KINDS: Final[dict[str, Kind]] = {}
"""Every declared kind by name."""


def _take(domain: Domain) -> None:
    KINDS.update({kind.name: kind for kind in domain.kinds})


for_each_domain(_take)


def kind_of(name: str) -> Kind:
    """Row of a kind; a name outside the table is a custom kind.

    Raises:
        ValueError: the name is not `[a-z][a-z0-9-]*`.
    """
    known = KINDS.get(name)
    if known is not None and name not in undeclared_now():
        return known
    if not KIND_PATTERN.fullmatch(name):
        raise ValueError("the kind must match [a-z][a-z0-9-]*")
    return Kind(name, owner_of_undeclared())


def domain_of_kind(name: str) -> str:
    """Domain that owns a kind, declared or not."""
    known = KINDS.get(name)
    return owner_of_undeclared() if known is None else known.domain


def a_kind(name: str) -> str:
    """A kind with its article, as messages name it: `a dataset`, `an app`."""
    return f"{'an' if name[:1] in 'aeio' else 'a'} {name}"


def nearest_kind(name: str, custom: Collection[str] = ()) -> str | None:
    """The known kind that another one resembles most; None where none does.

    Args:
        custom: kinds that are known besides the declared ones.
    """
    return next(iter(get_close_matches(name, sorted({*KINDS, *custom}), 1)), None)


def kind_advice(name: str) -> str:
    """What to say of a kind that nobody declares to who looks for such an entity, and finds none."""
    nearest = None if name in KINDS else nearest_kind(name)
    return "" if nearest is None else f"No domain declares the kind {name!r}; did you mean {nearest!r}? "


def kinds_from_outside() -> frozenset[str]:
    """The kinds of every domain that joined a journal of this process, from outside or of our own."""
    return frozenset(kind for domain in taken_in() for kind in domain.kind_names)


@contextmanager
def undeclared(kinds: Collection[str]) -> Iterator[None]:
    """Read URNs of these kinds as those of kinds that nobody declares, within the block."""
    before = _UNDECLARED.set(frozenset(kinds))
    try:
        yield
    finally:
        _UNDECLARED.reset(before)
