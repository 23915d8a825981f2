"""The filter of entities that somebody may see: part of every request of a search, so counts and pages are exact."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...schemas.within import Within
from ..errors import InvalidQueryError
from .query import NONE, Dsl, any_of, begins


def checked_within(within: Any) -> tuple[Within, ...] | None:
    """The conditions; None where there is none, and everything is seen.

    Raises:
        InvalidQueryError: they are something else.
    """
    if within is None:
        return None
    is_several = isinstance(within, Collection) and not isinstance(within, Within | str | bytes)
    if not is_several or not all(isinstance(one, Within) for one in within):
        raise InvalidQueryError("within must be None or a list of Within.", option="within")
    return tuple(within)


def readable(within: Sequence[Within]) -> Dsl:
    """What is true of each entity for which one of the conditions holds; of none where there is no condition."""
    return any_of(map(_holds, within)) if within else NONE


def spelled_within(within: Sequence[Within] | None) -> Any:
    """The conditions as JSON values, equal for equal ones: for digests."""
    if within is None:
        return None
    return [[sorted(field) if isinstance(field, frozenset) else field for field in one] for one in within]


def _holds(one: Within) -> Dsl:
    """A condition: the kinds, and any of what is named."""
    if one.kinds is None:
        of_kind: Dsl = {"bool": {"must_not": [{"terms": {"kind": sorted(one.others)}}]}}
    else:
        of_kind = {"terms": {"kind": sorted(one.kinds)}}
    if one.every:
        return of_kind
    named: list[Dsl] = [{"terms": {"urn": list(one.urns)}}] if one.urns else []
    if one.namespaces:
        spaced = {"bool": {"must_not": [{"terms": {"kind": sorted(one.unspaced)}}]}}
        named.append({"bool": {"filter": [{"terms": {"namespace": list(one.namespaces)}}, spaced]}})
    whole = [start[:-1] for start in one.starts if start.endswith(":")]
    if whole:
        named.append({"terms": {"kind": whole}})
    named += [begins("urn", start) for start in one.starts if not start.endswith(":")]
    return {"bool": {"filter": [of_kind, any_of(named)]}} if named else NONE
