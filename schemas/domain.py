"""How a domain is declared: its kinds, its events, where they stand. Light values, read by every process.

What a domain does stands in the other files of its folder, which the layers load by their names (`registry`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

MANY: Final = 1024
"""No bound on the parts but the URN's length."""


class Choice(NamedTuple):
    """A part of a path that must be one of some words.

    Args:
        part: index of the part.
        words: what it may be.
        what: what such a word is called.
    """

    part: int
    words: frozenset[str]
    what: str


class Kind(NamedTuple):
    """A kind of entity. A kind never changes its row: that would move an aggregate to another topic.

    Args:
        name: the word before the colon.
        domain: the domain whose journal topic takes its events.
        min_parts: fewest parts of the path.
        max_parts: most parts of the path.
        aggregate_kind: kind of the aggregate; None where the entity is its own aggregate.
        aggregate_parts: leading parts that name the aggregate.
        choice: a part that must be one of some words; None where there is none.
    """

    name: str
    domain: str
    min_parts: int = 1
    max_parts: int = MANY
    aggregate_kind: str | None = None
    aggregate_parts: int = 0
    choice: Choice | None = None


class Named(NamedTuple):
    """A field of a kind's records that names other entities of the aggregate by the last part of their URNs alone.

    Whoever may not read such an entity is not told of it, and search does not find by it: `words` leaves it out. A
    field that has whole URNs needs no such row.

    Args:
        kind: whose records have the field.
        field: a text, or a list of texts.
        other: kind of the entities that it names.
    """

    kind: str
    field: str
    other: str


class Actions(NamedTuple):
    """What may be allowed or forbidden to users of the gateway: an action is a verb and a class, such as `ReadRepo`.

    Args:
        of: the class.
        verbs: what can be done with entities of the domain's kinds; of a domain without kinds, what its events do with
            those of others.
    """

    of: str
    verbs: tuple[str, ...] = ("Read", "Write", "Delete")


class Domain(NamedTuple):
    """One domain.

    Args:
        name: its folder's name, the first word of its event types, the last of its topics.
        package: dotted name of its folder.
        kinds: the kinds that it owns.
        event_types: `<name>.<Event>.<version>` of each event that producers of this version write.
        reasons: why its rules reject events, besides what every event must pass (`rules.admission`).
        imports: names of the domains whose pure files its own import.
        journal: the domain whose journal topic takes its events, where that is not its own.
        served: False while only its kinds are reserved.
        owns_undeclared_kinds: it is the domain of every kind that no domain declares; of one domain only. The change
            records of properties and tags, of entities of every kind, are its own too.
        has_changes: it publishes change records on a topic of its own name.
        names_many: its events name many entities of an aggregate, so look-ups go by the events' headers and not by
            the records' keys.
        original: every journal serves it, since the first version did. Any other domain with a topic of its own joins
            a journal: it is served there from the position on that the journal's record tells (`registry.joining`).
        has_documents: its entities have state documents, from which the index is filled, and take annotations; False:
            they have neither, and only its own events are about them.
        actions: what may be allowed or forbidden to do with its entities.
        has_namespaces: the first of several parts of its entities' paths is a namespace, which they share with others.
        reserved: its kinds that every version reserved before one served it, so that they never were the catalog's; of
            one that is not served yet, those are all of them.
        next_steps: reasons, each with what to do then, a sentence; one without gets the step that fits all.
        names: fields of its entities' records that name others of its entities.
    """

    name: str
    package: str
    kinds: tuple[Kind, ...] = ()
    event_types: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    journal: str | None = None
    served: bool = True
    owns_undeclared_kinds: bool = False
    has_changes: bool = True
    names_many: bool = False
    original: bool = False
    has_documents: bool = True
    actions: Actions = Actions("Entity")
    has_namespaces: bool = False
    reserved: tuple[str, ...] = ()
    next_steps: tuple[tuple[str, str], ...] = ()
    names: tuple[Named, ...] = ()

    @property
    def kind_names(self) -> frozenset[str]:
        """Names of the kinds that it owns."""
        return frozenset(kind.name for kind in self.kinds)


class DomainFile(Protocol):
    """The file `domain` of a domain: its declaration. It imports `schemas` alone, since every process reads it."""

    @property
    def DOMAIN(self) -> Domain:  # noqa: N802  (a constant of the module)
        """The declaration."""
