"""What people type, as events: their types and fields.

Left to whom: whether an event is *valid* its own class says, JSON and times are read by `values.py`; here text only
finds an event's class, fields and types.
Invariant: nothing typed is dropped or guessed at; an unknown name is an error that names the nearest known one.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, lru_cache
from inspect import Parameter, signature
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

from ..schemas.errors import Fault, InputError, InvalidEventError
from ..schemas.events import event_types
from ..schemas.outside import event_types_from_outside, file_of
from ..schemas.registry import domain_named, domains, role
from ..values import json_value, moment

EVENT_CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in event_types().values()}
ENVELOPE = ("actor", "event_id", "event_time", "expected", "cause", "repeat", "tenant")
"""Keys of a JSON line that say something about the event and are not its own."""


_MOST_FAULTS = 100
_LONGEST_NAME = 100
"""Characters of a name that are told, and of one that others are compared with."""


class TypedFile(Protocol):
    """The file `typed` of a domain: what people type, made ready for its events' classes."""

    def typed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of an event as JSON has them, as its class takes them."""


class Typed(NamedTuple):
    """An event and what is said about it: the arguments of `Journal.emit`."""

    event: Any
    about: dict[str, Any]


def event_class(name: str) -> type[Any]:
    """The class of `TagsAdded`, `catalog.TagsAdded` or `catalog.TagsAdded.1`.

    Raises:
        InputError: there is no such event type.
    """
    own = _own_classes().get(name)
    if own is not None:
        return own
    brought = _from_outside(name)
    if brought is not None:
        return brought
    outside = {known.rpartition(".")[2]: known for known in sorted(event_types_from_outside())}
    last = name.rpartition(".")[2]
    near = get_close_matches(last, [*EVENT_CLASSES, *outside], 1, 0.4) if len(last) <= _LONGEST_NAME else []
    if ":" in name:
        meant = " It looks like an entity, and the event type comes first: `metajournal emit TYPE ENTITY`."
    else:
        meant = f" Did you mean {outside.get(near[0], near[0])}?" if near else ""
    raise InputError(
        f"There is no event type {name!r:.{_LONGEST_NAME}}.{meant}",
        code="unknown-event-type",
        hint="Known types: " + ", ".join([*sorted(EVENT_CLASSES), *outside.values()]) + ".",
    )


@cache
def _own_classes() -> Mapping[str, type[Any]]:
    """Our own event classes by each of their names."""
    found: dict[str, type[Any]] = {}
    for known, cls in EVENT_CLASSES.items():
        for name in (known, cls.TYPE, cls.TYPE.rpartition(".")[0]):
            found.setdefault(name, cls)
    return found


@lru_cache(maxsize=1_000)
def _fields(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an event class's fields, and of those that must be given."""
    parameters = signature(cls).parameters.values()
    required = tuple(parameter.name for parameter in parameters if parameter.default is Parameter.empty)
    return tuple(parameter.name for parameter in parameters), required


def _from_outside(name: str) -> type[Any] | None:
    """The class of an event type that is said with the name of a domain from outside.

    Raises:
        InputError: no installed package brings such a domain.
    """
    domain, dot, _ = name.partition(".")
    if not dot or any(own.name == domain for own in domains()):
        return None
    events = file_of(domain, "events")
    if events is None:
        raise InputError(
            f"There is no event type {name!r:.{_LONGEST_NAME}}: no installed package provides a domain "
            f"{domain!r:.{_LONGEST_NAME}}.",
            code="unknown-event-type",
            hint="`metajournal domains` shows what is installed, and which package provides a served domain: install "
            "it to emit its events.",
        )
    return next((cls for cls in events.EVENTS if name in (cls.TYPE, cls.TYPE.rpartition(".")[0])), None)


def event_of(name: str, values: Mapping[str, Any]) -> Any:
    """An event from its type and its fields by name.

    Raises:
        InputError: no such type.
        InvalidEventError: unknown or missing fields, or values that the class refuses.
    """
    cls = event_class(name)
    known, required = _fields(cast("Hashable", cls))
    unknown = islice((key for key in values if key not in known), _MOST_FAULTS)
    faults = [Fault(f"{key:.{_LONGEST_NAME}}", _no_such_field(cls, key, known)) for key in unknown]
    faults += [Fault(key, "must be given") for key in required if key not in values]
    if faults:
        raise InvalidEventError(faults)
    domain = cls.TYPE.partition(".")[0]
    own = role(domain, "typed") if domain_named(domain) is not None else file_of(domain, "typed")
    return cls(**(values if own is None else cast(TypedFile, own).typed(values)))


def _no_such_field(cls: type[Any], key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, 1) if len(key) <= _LONGEST_NAME else []
    what = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return f"{cls.__name__} has no such field; {what}"


def typed_event(line: str) -> Typed:
    """An event from one JSON line: `{"type": …, "entity": …, <the type's fields>, "actor"?: …}`.

    Raises:
        InputError: the line is no JSON object, or names no known type.
        InvalidEventError: as `event_of`.
    """
    try:
        fields = json_value(line)
    except ValueError as error:
        raise InputError(
            f"The line is not JSON: {error}.", code="not-json", hint='Each line is {"type": …, "entity": …, …}.'
        ) from error
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise InputError(
            "The line is not a JSON object with a type.",
            code="not-json",
            hint='Each line is {"type": …, "entity": …, …}.',
        )
    about = {key: fields.pop(key) for key in ENVELOPE if key in fields}
    if isinstance(about.get("event_time"), str):
        about["event_time"] = moment(about["event_time"])
    return Typed(event_of(fields.pop("type"), fields), about)


def pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """`key=value` texts; the first `=` separates.

    Raises:
        InputError: a text has no `=` or no key, or a key comes twice.
    """
    seen: set[str] = set()
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise InputError(
                f"{text!r} is not of the form key=value.",
                code="no-key-value",
                hint="Write key=value; repeat the option for more.",
            )
        if key in seen:
            raise InputError(f"The key {key!r} is given twice.", code="given-twice", hint="Omit one of them.", key=key)
        seen.add(key)
        yield key, value


def typed_options(
    name: str,
    entity: str | None,
    *,
    data: str | None = None,
    tags: Iterable[str] = (),
    properties: Iterable[str] = (),
    keys: Iterable[str] = (),
    everything: bool = False,
    scope: str | None = None,
    description: str | None = None,
    schema: str | None = None,
    actor: str | None = None,
    expected: int | None = None,
    event_time: str | None = None,
) -> Typed:
    """An event from the options of the command line; what is not given is left to the event's own defaults.

    Raises:
        InputError: unknown type, `data` that is no JSON object, a property without `=` or said twice, a schema that
            begins as JSON and is none, a malformed time, a field that stands in `data` and in an option.
        InvalidEventError: a field that the type does not have, or none where it needs one.
    """
    if schema is not None:
        _check_schema(schema)
    given = {"tags": [*tags], "properties": dict(pairs(properties)), "keys": [*keys], "all": everything}
    given |= {"scope": scope and scope.upper(), "description": description, "schema": schema}
    given |= {_entity_field(name): entity}
    about = {"actor": actor, "expected": expected, "event_time": None if event_time is None else moment(event_time)}
    options = {key: value for key, value in given.items() if value not in (None, [], {}, False)}
    values = _object(data)
    for key in options:
        if key in values:
            raise InputError(
                f"The field {key!r} is given twice, in --data and in its own option or argument.",
                code="given-twice",
                hint="Omit one of them.",
                key=key,
            )
    return Typed(event_of(name, values | options), {key: value for key, value in about.items() if value is not None})


def _entity_field(name: str) -> str:
    """What a type calls the entity that it is about: most `entity`, facts about runs `run`; of several the first."""
    event = event_class(name)
    urns = getattr(event, "URN_FIELDS", ("entity",))
    return next((field.name for field in fields(event) if field.name in urns), "entity")


def _object(data: str | None) -> dict[str, Any]:
    try:
        data_fields = json_value("{}" if data is None else data)
    except ValueError as error:
        raise InputError(
            f"--data is not JSON: {error}.", code="not-json", hint='Write --data \'{"tags": ["pii"]}\'.'
        ) from error
    if not isinstance(data_fields, dict):
        raise InputError("--data is not a JSON object.", code="not-json", hint='Write --data \'{"tags": ["pii"]}\'.')
    return data_fields


def _check_schema(text: str) -> None:
    """Refuse what was meant as JSON and is none; other text is kept as it is and searched as words."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return
    try:
        json.loads(text)  # any that is JSON: it is kept as it was written
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"--schema looks like JSON but is not valid: {error}.",
            code="not-json",
            hint='Write an Avro schema, quoted for the shell: --schema \'{"type": "record", …}\'.',
        ) from error
