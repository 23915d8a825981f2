"""What HTTP offers, as values: an endpoint, a request, an answer. The gateway serves them; domains declare theirs.

A domain's file `http` holds rows of the one table of endpoints and functions over its own client. Router, rights check,
OpenAPI and metrics are made of the rows, so what is not declared here is not served.
Invariant: a function of a row sees a checked request and gives values; status lines, headers and bytes are the
gateway's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from .errors import ForbiddenError, InputError
from .positions import Position
from .urn import Urn
from .within import Within

READ: Final = "Read"
WRITE: Final = "Write"
DELETE: Final = "Delete"
CREATE: Final = "Create"
"""Of kinds that tell creating from writing; else it is writing."""
LINEAGE: Final = "WriteLineage"
"""To say that a run did something."""
SYSTEM: Final = "WriteSystem"
"""To write metadata of scope SYSTEM."""
PIPELINE: Final = "ReadPipeline"
"""To see how far the pipeline is, and what became of an event."""
ACTIONS: Final = (READ, WRITE, DELETE, CREATE, LINEAGE, SYSTEM, PIPELINE)
"""What may be done. A single verb is a right of the class that the entity's kind belongs to."""


class Need(NamedTuple):
    """A right that a request needs.

    Args:
        action: one of `ACTIONS`.
        urn: the entity; None: no single one, so what is found is limited to what may be read.
    """

    action: str
    urn: Urn | None = None


class Wanted(Protocol):
    """What a feed is asked for."""

    @property
    def keys(self) -> frozenset[str] | None:
        """URNs, and namespaces by `in_namespace`, of which a change's subject must have one; None: it may be any."""

    def __call__(self, change: Any) -> bool:
        """Whether a change is asked for."""


def in_namespace(name: str) -> str:
    """How a namespace is told from a URN, which has no space."""
    return f"namespace {name}"


class Rights(Protocol):
    """What somebody may do."""

    @property
    def grants(self) -> Sequence[tuple[str, str]]:
        """Role and pattern of each grant; none: nothing is allowed."""

    def may(self, action: str, urn: Urn) -> bool:
        """Whether an action is allowed on an entity."""

    def whole(self, action: str, urn: Urn) -> str:
        """An action by the name that roles have: a verb with the class of the entity's kind."""

    def anywhere(self, action: str) -> bool:
        """Whether an action, by its whole name, is allowed on anything."""

    def everywhere(self, action: str) -> bool:
        """Whether an action is allowed on every entity that it is possible on."""

    def within(self, action: str) -> tuple[Within, ...]:
        """The entities that an action is allowed on, as conditions of which one must be true."""

    def covers(self, other: Any) -> bool:
        """Whether everything that others' rights allow is allowed by these."""


class _NoRights:
    grants: Sequence[tuple[str, str]] = ()

    def may(self, action: str, urn: Urn) -> bool:
        return False

    def whole(self, action: str, urn: Urn) -> str:
        return action

    def anywhere(self, action: str) -> bool:
        return False

    def everywhere(self, action: str) -> bool:
        return False

    def within(self, action: str) -> tuple[Within, ...]:
        return ()

    def covers(self, other: Any) -> bool:
        return False


NO_RIGHTS: Final[Rights] = _NoRights()


_DIGITS: Final = 19
"""Of the largest position."""


def whole_number(name: str, text: str, most: int, *, least: int = 1) -> int:
    """A whole number as text has it. Raises: InputError: it is none, or out of bounds."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and least <= int(text) <= most):
        raise InputError(f"{name} must be a whole number from {least} to {most:,}, not {text!r:.40}.")
    return int(text)


def chosen_word(name: str, text: str, words: Sequence[str]) -> str:
    """One of some words. Raises: InputError: it is none of them."""
    if text not in words:
        raise InputError(f"{name} must be one of {', '.join(words)}, not {text!r:.40}.")
    return text


@dataclass(frozen=True, slots=True)
class Request:
    """A request, read and checked as far as its endpoint says.

    Args:
        parts: the parts of the path that its template names, decoded.
        query: the query's values by name.
        body: the body's value; None where there is none.
        tenant, actor: who asks, from the key.
        at_ms: when, milliseconds UTC: the time of its Idempotency-Key, so that a repeated request is the same event.
        urn: the entity that the path or `?urn=` names; None where the template has none.
        at_least: positions that the answer must include; the lake or the follower holds them already.
        rights: what they may.
        size: characters of the body that the value was read from; None where that is not known.
    """

    parts: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    tenant: str
    actor: str
    at_ms: int
    urn: Urn | None = None
    at_least: tuple[Position, ...] = ()
    rights: Rights = NO_RIGHTS
    size: int | None = None

    @property
    def entity(self) -> Urn:
        """The entity. Raises: InputError: the request names none."""
        if self.urn is None:
            raise InputError("The request names no entity.", hint="Name it in the path, or as ?urn=.")
        return self.urn

    @property
    def is_earlier(self) -> bool:
        """Whether an earlier state is asked for than the newest."""
        return "as_at" in self.query or "as_of" in self.query

    def whole(self, name: str, default: int, most: int, *, least: int = 1) -> int:
        """A whole number of the query. Raises: InputError: it is none, or out of bounds."""
        text = self.query.get(name)
        return default if text is None else whole_number(name, text, most, least=least)

    @property
    def asker(self) -> str:
        """Who asks, as one name: of whom there may be only so much at once."""
        return f"{self.tenant}/{self.actor}"

    @property
    def within(self) -> tuple[Within, ...]:
        """The entities that may be read, as conditions of which one must be true; none: no entity."""
        return self.rights.within(READ)

    def may(self, action: str, urn: Urn) -> bool:
        """Whether an action is allowed on an entity."""
        return self.rights.may(action, urn)

    def refusal(self, action: str, urn: Urn) -> ForbiddenError:
        """Why an action on an entity is refused."""
        whole = self.rights.whole(action, urn)
        return ForbiddenError(f"This key does not have the right {whole} on {urn}.", action=whole, urn=str(urn))

    def choice(self, name: str, words: Sequence[str], default: str) -> str:
        """One of some words of the query. Raises: InputError: it is none of them."""
        return chosen_word(name, self.query.get(name, default), words)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with.

    Args:
        value: as JSON has it; None: no body.
        status: of HTTP.
        headers: further ones.
        next: the query's changed values that ask for the next page; None: there is none, or no pages.
        etag: what the answer's state is called; None: it has no name.
        weak: whether the same name may stand for answers that differ in bytes.
        by_rights: whether what is told of that state depends on its reader's rights, so that whoever has it may have a
            part, and is told it again.
    """

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    next: Mapping[str, str] | None = None
    etag: str | None = None
    weak: bool = False
    by_rights: bool = False


class Made(NamedTuple):
    """An event that a request makes.

    Args:
        event: what is emitted.
        tells: what an accepted answer has besides the verdict; it is in no log and no journal.
    """

    event: Any
    tells: Mapping[str, Any]


T = TypeVar("T")


class Sends(Protocol):
    """What an endpoint that sends by itself sends by: for one request, as who asks it."""

    @property
    def left_s(self) -> float:
        """Seconds until the request must be answered."""

    def refused(self, error: ForbiddenError) -> None:
        """Record that one of several events may not be sent."""

    async def follow(self, urn: Urn) -> None:
        """Begin to follow an entity's aggregate: before anything is sent of one whose rows or verdicts are asked for.

        What was sent before is read again, all of it.
        """

    async def send(self, event: Any, *, event_time: int, expected: int | None = None) -> int:
        """Send an event and wait for its acknowledgement.

        Args:
            event_time: when it happened, milliseconds UTC.
            expected: logical timestamp of the entity's newest row; 0: it must not exist; None: no condition.
        Returns:
            Its logical timestamp.
        Raises:
            MetajournalError: as `Journal.emit` and the receipt.
        """

    async def send_all(self, events: Sequence[Any], *, event_time: int) -> None:
        """Send events in their order and wait for all acknowledgements. Arguments and errors as `send`."""

    async def write(self, event: Any, *, event_time: int, expected: int | None = None) -> Any:
        """Send an event and wait for the verdict on it, an outcome as a receipt's. Arguments and errors as `send`.

        Raises:
            UnavailableError: there is no verdict in time; the event is in the journal.
        """

    async def newest(self, urn: Urn) -> Any:
        """The newest row of an entity, as every acknowledged event makes it; None: it never existed.

        Raises:
            UnavailableError: nothing holds it in time.
        """

    @property
    def positions(self) -> Sequence[Position]:
        """Where the last event of each partition stands that was sent and acknowledged."""

    def kept(self, make: Callable[[], T]) -> T:
        """What outlives requests: made once in a process, by this very function."""


class Parameter(NamedTuple):
    """A name of the query.

    Args:
        name: as it is written.
        about: what it says.
        type: a type of Python that JSON Schema can tell.
        required: whether the address refuses a request without it.
        read: reads its text, and raises InputError where that says nothing: a question is refused for it before
            anything is waited for.
    """

    name: str
    about: str
    type: Any = str
    required: bool = False
    read: Callable[[str], object] | None = None


def number(name: str, about: str, most: int, *, least: int = 1) -> Parameter:
    """A name of the query whose value is a whole number, within bounds."""
    return Parameter(name, about, int, read=partial(whole_number, name, most=most, least=least))


Needs: TypeAlias = Callable[[Request], Sequence[Need]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the table. Exactly one of `event`, `row`, `read`, `lines`, `sends` and `feed` is given.

    Args:
        method: GET, POST or DELETE; HEAD goes with GET.
        path: a template: literal parts, `{name}` for one part, `{urn}` at the end for all parts of a URN.
        about: one sentence.
        action: what the request does to the entity that it names.
        event: makes the event that is emitted, or `Made`; the answer is its verdict.
        check: gets the journal and the request, and raises ForbiddenError where rights on entities do not tell.
        row: answers with the entity's newest row, as every acknowledged event makes it.
        read: answers a question, in a thread that reads; gets the journal.
        lines: the body has events, one alone or one a line; each is answered by itself.
        sends: sends events by itself, on the loop and within 4 s, each of them safe to repeat. Its `needs` names none:
            it holds each event against the request's rights before it sends any of it. Who asks for too much waits a
            little, then gets a 503.
        feed: answers with changes as they come, until the caller leaves; gives what tells whether one is asked for.
        creates: the event may be held against that nothing is there yet (`If-None-Match: *`).
        waits: the answer to an event waits for the verdict; else 202 after the acknowledgement.
        is_fresh: what is read includes every acknowledged event about the entity.
        is_whole: whether a request reads the lake and must find them there.
        waits_itself: `read` waits for what must be included; else the lake is waited for before.
        urn: the entity that the parts of the path name, where the template does not end with one.
        needs: the rights that it needs, where they are others than `action` to `urn`.
        words: for parts that are one of some words: what each is read as, by its small letters.
        body: type of the body; None: there must be none.
        optional_body: whether the body may be missing.
        answer: type or shape (`schemas.shapes`) of the answer, for OpenAPI.
        query: names of the query, besides those that every such endpoint has.
        created: status of an accepted event.
        is_public: needs no key.
        audited: what the audit calls a request to it; nothing: only refusals and reads are recorded.
    """

    method: str
    path: str
    about: str
    action: str = READ
    event: Callable[[Request], Any] | None = None
    check: Callable[[Any, Request], object] | None = None
    row: Callable[[Any, Request, Any], Answer] | None = None
    read: Callable[[Any, Request], Answer] | None = None
    lines: bool = False
    sends: Callable[[Sends, Request], Awaitable[Answer]] | None = None
    feed: Callable[[Request], Wanted] | None = None
    creates: bool = False
    waits: bool = True
    is_fresh: bool = False
    is_whole: Callable[[Request], bool] | None = None
    waits_itself: bool = False
    urn: Callable[[Mapping[str, str]], Urn] | None = None
    needs: Needs | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    body: Any = None
    optional_body: bool = False
    answer: Any = Any
    query: tuple[Parameter, ...] = ()
    created: int = 200
    is_public: bool = False
    audited: str = ""

    @property
    def name(self) -> str:
        """How the table, metrics and logs call it."""
        return f"{self.method} {self.path}"

    @property
    def has_events(self) -> bool:
        """Whether its body has events, which may be many."""
        return self.lines or self.sends is not None

    def check_values(self, query: Mapping[str, str]) -> None:
        """Refuse values of the query that say nothing. Raises: InputError."""
        for parameter in self.query:
            if parameter.read is not None and parameter.name in query:
                parameter.read(query[parameter.name])

    def needed(self, request: Request) -> Sequence[Need]:
        """The rights that a request needs."""
        if self.needs is not None:
            return self.needs(request)
        return (Need(self.action, request.urn),)
