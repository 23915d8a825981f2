"""Having a domain join an installation, from outside or of our own: when it may, and from which positions on.

The kinds of the domain were undeclared, so the catalog's, up to a cut: the marks of the lake, at which everything below
is judged and nothing above. So only whoever writes the lake can draw it: the stream does, between two batches; where
none runs, the command itself, under the stream's lock. Refused while an entity of such a kind lives in the catalog.

    1 the package declares a whole domain           4 no entity of its kinds lives in the catalog
    2 no other served domain has one of its kinds   5 its topics are made
    3 the marks are taken                           6 the record is written: from now on it is served
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from ...lake.columns import ENTITIES_TABLE
from ...lake.storage.locks import only_one
from ...lake.storage.requests import Answered, DomainRequests
from ...lake.tables import Lake, quoted
from ...producers.recorded.adding import serve
from ...producers.topics import Epochs, check_topics
from ...schemas.domain import Domain
from ...schemas.errors import DomainError, MetajournalError, NotYetVisibleError, StreamError
from ...schemas.outside import look_again, package_of
from ...schemas.positions import behind, behind_text
from ...schemas.registry import owner_of_undeclared
from ...schemas.settings import Settings
from ..publish import watermarks
from .whole import whole_domain

_POLL_S: Final = 0.1
_SHOWN: Final = 3
_RESTART: Final = "stop the stream and start it again (`metajournal down && metajournal up`)"
_BEGIN_AGAIN: Final = (
    f"A process only sees packages installed before it started: {_RESTART}, then add the domain. If the stream runs "
    "in another Python environment than this command, install the package there first."
)
Marks = Mapping[tuple[str, int], int]


def add_domain(settings: Settings, name: str, *, timeout_s: float = 60.0) -> Epochs:
    """Have the installation serve a domain that an installed package brings; nothing where it is served already.

    Args:
        settings: the installation.
        name: the domain's.
        timeout_s: seconds to wait for the lake to hold what the catalog's topic holds, and then for the stream.
    Raises:
        DomainError: the domain is not whole, is in another's way, or an entity of one of its kinds lives.
        NotYetVisibleError: the stream has not judged everything in time.
        UnavailableError: a service does not answer.
    """
    domain, package = whole_domain(name)
    epochs = check_topics(settings)
    if name in epochs.refusals:
        raise epochs.refusals[name]
    if name in epochs.domains:
        return epochs
    until = time.monotonic() + timeout_s
    requests = DomainRequests(settings.lake.path, settings.lake.storage_options)
    try:
        hint = "Wait until the other command has finished."
        with only_one(settings.lake.path, "stream", hint=hint, storage_options=settings.lake.storage_options):
            lake = Lake(settings.lake.path, settings.lake.storage_options)
            marks = marks_of(lake, epochs)
            _require_caught_up(settings, epochs, marks)
            return added(settings, domain, package, epochs, lake, marks)
    except StreamError as error:
        if error.code != "stream-runs":
            raise
    return _by_the_stream(settings, name, requests, until)


def _by_the_stream(settings: Settings, name: str, requests: DomainRequests, until: float) -> Epochs:
    """Ask the running stream, and wait for its answer."""
    requests.ask(name)
    while time.monotonic() < until:
        answered = requests.answered()
        if answered is None or answered.name != name:
            time.sleep(_POLL_S)
            continue
        if answered.code is not None:
            raise DomainError(answered.message, code=answered.code, hint=answered.hint)
        return check_topics(settings)
    requests.withdraw()
    raise DomainError(
        f"The stream did not add the domain {name} in time.",
        code="no-answer",
        hint="`metajournal status` shows whether it runs; if it is busy, use a longer --timeout.",
    )


def answer_request(settings: Settings, requests: DomainRequests, lake: Lake, epochs: Epochs, marks: Marks) -> bool:
    """Between two batches of the stream: add the domain that somebody asks for.

    Returns:
        Whether it was added, so that the stream has to begin anew.
    """
    name = requests.requested()
    if name is None:
        return False
    try:
        if name in epochs.whole.domains:
            requests.answer(Answered(name))
            return False
        look_again()
        domain, package = whole_domain(name)
        added(settings, domain, package, epochs, lake, marks)
    except MetajournalError as error:
        requests.answer(_refusal(name, error))
        return False
    requests.answer(Answered(name))
    return True


def _refusal(name: str, error: MetajournalError) -> Answered:
    """Why a domain is not added: perhaps since this process began before the package was installed."""
    missing = error.__cause__.name or "" if isinstance(error.__cause__, ModuleNotFoundError) else None
    brought = package_of(name) if missing else None
    unseen = brought is not None and f"{brought.module}.".startswith(f"{missing}.")
    if unseen or error.code == "missing-domain":
        message = f"The stream's process does not see the package of the domain {name} yet: {error.message}"
        return Answered(name, "package-not-seen", message, _BEGIN_AGAIN)
    again = f" Then {_RESTART}: the stream keeps what it has loaded." if error.code == "broken-domain" else ""
    return Answered(name, error.code, error.message, error.hint + again)


def added(settings: Settings, domain: Domain, package: str, epochs: Epochs, lake: Lake, marks: Marks) -> Epochs:
    """Add a domain, while nothing is judged.

    Args:
        lake: as far as its marks.
        marks: the next position of every journal partition: the cut.
    Raises:
        DomainError: another served domain has one of its kinds, an entity of one of them lives, or a domain is refused.
    """
    if epochs.refused:
        raise DomainError(
            f"{domain.name} cannot join while {', '.join(epochs.refusals)} is refused: the cut is not known there.",
            code="domain-refused",
            hint="Fix that first: `metajournal domains` says what is wrong with it and what to do.",
        )
    for served in epochs.outside:
        both = sorted(served.kind_names & domain.kind_names)
        if both:
            raise DomainError(
                f"This journal serves the kind {both[0]} by the domain {served.name} of {served.package}; {package} "
                f"declares it for {domain.name}.",
                code="declared-twice",
                hint="A kind belongs to one domain permanently: the new one must use another name.",
            )
    count, living = _living(lake, domain)
    if count:
        more = ", …" if count > len(living) else ""
        raise DomainError(
            f"{count:,} entities of kinds of {domain.name} exist in the {owner_of_undeclared()}: "
            f"{', '.join(living)}{more}.",
            code="kind-in-use",
            hint="Delete them (EntityDeleted), then add the domain; their history is kept.",
        )
    cuts = {
        topic: [marks[topic, partition] for partition in range(epoch.partitions)] for topic, epoch in epochs.items()
    }
    return serve(settings, domain, package, epochs, cuts)


def marks_of(lake: Lake, epochs: Epochs) -> Marks:
    """The next position of every journal partition that the lake holds."""
    exists = lake.journal.exists()
    return {
        (topic, partition): epoch.reached(partition, lake.journal.mark((topic, partition)) if exists else 0)
        for topic, epoch in epochs.items()
        for partition in range(epoch.partitions)
    }


def _require_caught_up(settings: Settings, epochs: Epochs, marks: Marks) -> None:
    """Raises: NotYetVisibleError: there are records that no stream has judged."""
    ends = {key: epochs[key[0]].position(key[1], high) for key, (_, high) in watermarks(settings, list(marks)).items()}
    lacking = behind(marks, ends)
    if lacking:
        raise NotYetVisibleError(
            lacking,
            f"Some events have not been evaluated yet, and may be of a kind of the new domain: {behind_text(lacking)} "
            "positions. Start the stream, and add the domain while it runs.",
        )


def _living(lake: Lake, domain: Domain) -> tuple[int, list[str]]:
    """How many entities of a domain's kinds are not deleted, and some of them."""
    entities = lake.tables[ENTITIES_TABLE]
    if not entities.exists():
        return 0, []
    entities.refresh()
    kinds = ", ".join(quoted(name) for name in sorted(domain.kind_names.difference(domain.reserved))) or "''"
    newest = "row_number() over (partition by tenant, urn order by logical_timestamp desc, seq desc) as age"
    rows = entities.sql(
        "select urn, count(*) over () as living "
        f"from (select urn, deleted, {newest} from entities where kind in ({kinds})) "
        f"where age = 1 and not deleted order by urn limit {_SHOWN}"
    )
    return (int(rows["living"][0].as_py()) if rows.num_rows else 0), list(rows["urn"].to_pylist())
