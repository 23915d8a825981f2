"""Which changes a subscriber asks for: a filter that looks at headers first and at the record only when it must.

Kinds of conditions are joined by *and*, the values of one kind by *or*. What is left out still counts as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..schemas.errors import InputError
from ..schemas.header import TENANT_PATTERN
from ..schemas.kinds import kind_of
from ..schemas.urn import Urn

Words: TypeAlias = str | Iterable[str] | None
"""One text, several, or None for any."""
SCOPES: Final = ("USER", "SYSTEM")
TOUCHES: Final = ("additions", "deletions")
ALL_TENANTS: Final = "*"
"""Asks for every tenant's changes; no tenant can have this name."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions; an empty set matches everything.

    Attributes:
        urns: whole URNs.
        prefixes: prefixes of URNs.
        types: CloudEvents types.
        tags: a change must add or remove one of them; a state must have one.
        keys: the same of property keys.
        touches: "additions" or "deletions": a change must contain such changes of `tags` and `keys`, or any if these
            are empty.
    """

    kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    urns: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    touches: str | None = None

    @classmethod
    def of(
        cls,
        *,
        kinds: Words = None,
        namespace: Words = None,
        urn: Words = None,
        scope: Words = None,
        tenant: Words = None,
        types: Words = None,
        tags: Words = None,
        keys: Words = None,
        touches: str | None = None,
    ) -> Filter:
        """A filter from a caller's arguments.

        Args:
            urn: a URN, or a prefix followed by `*`: `dataset:default/*`.
            scope: USER or SYSTEM.
            tenant: names; None or `*`: every tenant.
        Raises:
            InputError: no such kind or scope; not a valid tenant name; a `*` that is not at the end.
            InvalidUrnError: a text without `*` is not a valid URN.
        """
        asked = _set(urn)
        for kind in (given := _set(kinds)):
            _check_kind(kind)
        scopes = frozenset(name.upper() for name in _set(scope))
        if wrong := scopes.difference(SCOPES):
            raise InputError(f"The scope must be USER or SYSTEM, not {min(wrong)!r}.", code="no-such-scope")
        if touches not in (None, *TOUCHES):
            raise InputError(f"`touches` must be additions or deletions, not {touches!r}.", code="no-such-side")
        return cls(
            given,
            _set(namespace),
            frozenset(str(Urn.parse(text)) for text in asked if "*" not in text),
            tuple(sorted(_prefix(text) for text in asked if "*" in text)),
            scopes,
            _tenants(_set(tenant)),
            _set(types),
            _set(tags),
            _set(keys),
            touches,
        )

    @property
    def everything(self) -> bool:
        """Whether key and headers can be anything."""
        return not (self.tenants or self.kinds or self.types or self.urns or self.prefixes or self.namespaces)

    @property
    def reads_records(self) -> bool:
        """Whether the record itself must be looked at."""
        return bool(self.tags or self.keys or self.touches)

    def wants(self, urn: str, tenant: str, type_: str) -> bool:
        """Whether a record may match, by its key and headers alone."""
        if self.everything:
            return True
        if self.tenants and tenant not in self.tenants:
            return False
        if self.kinds and urn.partition(":")[0] not in self.kinds:
            return False
        if self.types and type_ not in self.types:
            return False
        if (self.urns or self.prefixes) and urn not in self.urns and not urn.startswith(self.prefixes or ("\0",)):
            return False
        return not self.namespaces or Urn.parse(urn).namespace in self.namespaces

    def wants_change(self, record: Mapping[str, Any]) -> bool:
        """Whether a change record matches; one without annotations (such as a fact) has no tags and keys."""
        if "changes" not in record:
            return False
        sides = [record["changes"][name] for name in ((self.touches,) if self.touches else TOUCHES)]
        if self.tags and not any(self.tags.intersection(side["tags"]) for side in sides):
            return False
        if self.keys and not any(self.keys.intersection(side["properties"]) for side in sides):
            return False
        return bool(self.tags or self.keys) or any(side["tags"] or side["properties"] for side in sides)

    def wants_state(self, document: Mapping[str, Any]) -> bool:
        """Whether an entity matches in one of the requested scopes."""
        scopes = [document[name.lower()] for name in (self.scopes or SCOPES)]
        if self.tags and not any(self.tags.intersection(annotations["tags"]) for annotations in scopes):
            return False
        return not self.keys or any(self.keys.intersection(annotations["properties"]) for annotations in scopes)


def _set(words: Words) -> frozenset[str]:
    given = [words] if isinstance(words, str) else words or ()
    texts = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"A condition must be a text or several texts, not {words!r:.60}.", code="wrong-type")
    return frozenset(texts)


def _check_kind(kind: str) -> None:
    try:
        kind_of(kind)
    except ValueError as error:
        raise InputError(f"{kind!r} is not a valid kind: {error}.", code="no-such-kind") from error


def _tenants(names: frozenset[str]) -> frozenset[str]:
    """The tenants to choose, none for all. A name that no tenant can have would wait for ever."""
    if ALL_TENANTS in names:
        return frozenset()
    for name in sorted(names):
        if not TENANT_PATTERN.fullmatch(name):
            raise InputError(
                f"{name!r:.60} is not a valid tenant name.",
                code="no-such-tenant",
                hint=f"A name matches {TENANT_PATTERN.pattern}; `*` alone asks for every tenant.",
            )
    return names


def _prefix(text: str) -> str:
    if text.index("*") != len(text) - 1:
        raise InputError(
            f"{text!r} is not a URN prefix: `*` is only allowed at the end.",
            code="no-such-prefix",
            hint="Write dataset:default/* for all URNs with that prefix.",
        )
    return text[:-1]
