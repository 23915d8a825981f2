"""How far the pipeline is: where the journal ends, what lake and index hold of it, what is being rebuilt, and what the
rules refused of late.

All of it is asked of Kafka, lake and index themselves, so it is told on a cluster as on one machine. What was asked is
good for all who ask within two seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from ...client import Journal
from ...consumers.ends import appended_ms, committed_ends
from ...indexer.search.visible import shown_by
from ...lake.events import Refused, refused_events
from ...lake.views.views import View
from ...schemas.endpoints import PIPELINE, READ, Need, Request
from ...schemas.errors import MetajournalError
from ...schemas.pages import Page, Shown
from ...schemas.positions import EPOCH_SHIFT, Cut
from ...schemas.rejections import detail_in_words, next_step
from ..own.rows import may, may_name
from .rebuilds import rebuilds, said_of

_GOOD_S: Final = 2.0
_ASKED_S: Final = 2.0
_PATIENCE_S: Final = 0.5
_DAYS: Final = 7
_EVENTS: Final = 50


class Stage(NamedTuple):
    """One stage: what it holds of the journal.

    Attributes:
        lags: positions that it does not hold, by journal topic and partition; empty where that is not known.
        behind_s: seconds since the oldest event that it does not hold was stored; 0: it holds all; None: not known.
        problem: why it is not known.
    """

    name: str
    lags: dict[tuple[str, int], int]
    behind_s: float | None
    problem: str | None = None


class Freshness(NamedTuple):
    """Where the journal ends, and how far each stage is. `problem`: why the end is not known."""

    ends: Cut
    stages: tuple[Stage, ...]
    problem: str | None = None


class _Known:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told: Freshness | None = None
        self.at_s = 0.0


_known: Final[WeakKeyDictionary[Journal, _Known]] = WeakKeyDictionary()
_adding: Final = threading.Lock()


def freshness(journal: Journal) -> Freshness:
    """How far lake and index are behind the journal: two seconds old, or what was known while others ask."""
    with _adding:
        known = _known.setdefault(journal, _Known())
    if not known.lock.acquire(timeout=_PATIENCE_S):  # somebody asks, and Kafka takes its time
        return known.told or Freshness({}, (), "It is being asked; load this page again.")
    try:
        if known.told is None or time.monotonic() - known.at_s > _GOOD_S:
            known.told, known.at_s = _asked(journal), time.monotonic()
        return known.told
    finally:
        known.lock.release()


def _asked(journal: Journal) -> Freshness:
    ends: dict[tuple[str, int], int] = {}
    try:
        for topic in journal.epochs.topics:
            ends |= committed_ends(journal.settings, journal.epochs, topic, timeout_s=_ASKED_S)
    except MetajournalError as error:
        return Freshness({}, (), said_of(journal, error))
    return Freshness(ends, (_stage(journal, "lake", ends, _marks), _stage(journal, "index", ends, _shows)))


def _stage(journal: Journal, name: str, ends: Cut, reached: Any) -> Stage:
    try:
        held: Cut = reached(journal, ends)
        lacking = {
            place: held[place] for place, end in ends.items() if place in held and _first(held, place, end) < end
        }
        stored = appended_ms(journal.settings, lacking, _ASKED_S)
    except MetajournalError as error:
        return Stage(name, {}, None, said_of(journal, error))
    lags = {place: max(0, ends[place] - _first(held, place, ends[place])) for place in held}
    oldest = min(stored.values(), default=None)
    if oldest is None:
        return Stage(name, lags, 0.0 if not lacking else None)
    return Stage(name, lags, max(0.0, time.time() - oldest / 1000))


def _first(held: Cut, place: tuple[str, int], end: int) -> int:
    """The next position that is not held: of a topic of which nothing is held its beginning."""
    return max(held[place], end >> EPOCH_SHIFT << EPOCH_SHIFT)


def _marks(journal: Journal, ends: Cut) -> Cut:
    def marks(view: View | None) -> Cut:
        return {place: 0 if view is None else view.journal.mark(place) for place in ends}

    return journal.lake.of_all_tables(marks)


def _shows(journal: Journal, ends: Cut) -> Cut:
    """What the index shows, of the topics that are indexed."""
    _, vector = shown_by(journal.settings)
    topics = {topic for topic, _ in vector}
    return {place: vector.get(place, 0) for place in ends if place[0] in topics}


def _pipeline(journal: Journal, request: Request) -> Shown:
    told = freshness(journal)
    refused, problem = Refused([], 0), None
    try:
        since_ms = request.at_ms - _DAYS * 86_400_000
        refused = journal.lake.of_all_tables(lambda view: _refused(view, request, since_ms))
    except MetajournalError as error:
        problem = said_of(journal, error)
    shown = [
        (name, one if may_name(one.detail, request) else one._replace(detail=None))
        for name, one in refused.events if all(may(request, READ, entity) for entity in one.entities)
    ]  # fmt: skip
    unfinished, unknown = rebuilds(journal, told.ends)
    values = {
        "rebuilds": unfinished, "unknown": unknown, "freshness": told, "next_step": next_step,
        "in_words": detail_in_words, "places": sorted(told.ends), "refused": shown, "days": _DAYS,
        "hidden": len(shown) < len(refused.events), "looked": len(refused.events), "shelved": refused.shelved,
        "problem": problem,
    }  # fmt: skip
    return Shown("pipeline.html", values)


def _refused(view: View | None, request: Request, since_ms: int) -> Refused:
    return Refused([], 0) if view is None else refused_events(view, request.tenant, since_ms, _EVENTS)


def _may_see(request: Request) -> Sequence[Need]:
    return (Need(PIPELINE),)


def _freshness(journal: Journal, request: Request) -> Shown:
    return Shown("freshness.html", {"freshness": freshness(journal)})


FRESHNESS: Final = Page(
    "GET", "/freshness", "How far lake and index are, as a part of pages.", PIPELINE, show=_freshness, needs=_may_see,
)  # fmt: skip
PIPELINE_PAGE: Final = Page(
    "GET", "/pipeline", "How far lake and index are, and what was refused.", PIPELINE, show=_pipeline, needs=_may_see,
    menu="Pipeline",
)  # fmt: skip
