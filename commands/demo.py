"""`metajournal demo`: the whole way of an event on real parts, with the running Python environment as input.

Each step does one thing, checks that it did it, tells it, and adds its part to the report; `ok` is true only if every
check is. Left to whom: steps over files, lineage and earlier moments are `demo_environment`'s, starting and ending
services is the stack's, what is installed is read by the sources.
Invariant: whatever happens, also a kill, no process outlives the demo, unless it was asked to keep them and came to its
end; its folder is gone unless something went wrong or it is kept.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..domains.catalog.events import EntityRegistered, TagsAdded
from ..domains.catalog.urns import dataset
from ..schemas.positions import Position
from ..schemas.rejections import detail_in_words
from ..schemas.urn import Urn
from ..terminal.exits import FINE, PROBLEM
from ..terminal.rendering import print_json, table
from ..terminal.views import entity_view, history_view, hits_view
from ..values import entity_json, outcome_json
from .demo_environment import ACTOR, EnvironmentSteps, tries
from .demo_git import GitInput, GitSteps, git_input
from .demo_git import tries as git_tries
from .demo_services import DEADLINE_S, STAGES, Stages, services
from .telling import Silent, Teller, teller

if TYPE_CHECKING:
    from ..client import Journal

NAMESPACE = "python"
PROBES = 10  # single events whose freshness is measured
SEARCHES = (
    ("kafka client", "words, in names and descriptions"),
    ("license*:mit*", "a prefix of a value, under every key with this prefix"),
    ("schema:rich.table", "which distribution brings this module?"),
)
LIVE_TAG = "added-live"
PROBE = dataset("demo", "freshness")
TAGGED = dataset(NAMESPACE, "rich")


def run_demo(*, as_json: bool, keep: bool = False, git: Path | None = None) -> int:
    """Run the demo and return the exit code; as JSON the report is the only thing on standard output.

    Args:
        keep: leave the services running, and say what to try next.
        git: a clone of a git repository; None: that of this project, where it runs in one.
    Raises:
        InputError, UnavailableError: `git` cannot be imported; nothing was started.
    """
    signal.signal(signal.SIGTERM, _end)  # so that the blocks below are left
    told = Silent() if as_json else teller()
    with git_input(git, told) as history:
        report = demo(told, keep=keep, history=history)
    if as_json:
        print_json(report)
    return FINE if report["ok"] else PROBLEM


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signal.SIGTERM)  # an instance: see producers.kafka.take_in


def demo(teller: Teller, *, keep: bool = False, history: GitInput | None = None) -> dict[str, Any]:
    """Do every step and give the report; those over a git history where there is one."""
    from ..client import Journal
    from ..sources.python_environment import installed

    began = time.monotonic()
    report: dict[str, Any] = {"ok": False, "python": platform.python_version(), "checks": {}, "git": None}
    with services(teller, keep=keep) as running:
        report["folder"] = str(running.folder)
        with Journal.connect(running.settings, create_topics=True) as journal, Stages(running) as stages:
            with teller.step("start the stream and the indexer"):
                stages.follow([journal.emit(EntityRegistered(PROBE), actor=ACTOR)], time.monotonic())
            with teller.step("read what is installed"):
                distributions = installed()
            show = Demo(teller, journal, stages, report)
            whole = EnvironmentSteps(teller, journal, stages, report, distributions, TAGGED)
            show.publish([dist.event() for dist in distributions.values()])
            whole.record_files()
            whole.tell_lineage()
            show.count()
            whole.count()
            show.measure()
            show.search()
            whole.draw_lineage()
            whole.query_files()
            show.tag_live()
            whole.look_back(show.position_of(TAGGED), show.tagged_at, LIVE_TAG)
            show.be_rejected()
            show.look_at_one()
            whole.rebuild_index()
            if history is not None:
                versions = GitSteps(teller, journal, report, history)
                versions.bring_in()
                versions.compare()
            report["events"] = stages.events()
            report["try"] = [list(pair) for pair in _tries(running.folder, show, history)] if keep else []
        report["ok"] = all(report["checks"].values())
        report["try"] = report["try"] if report["ok"] else []
        running.keep = not report["ok"]
    report["seconds"] = round(time.monotonic() - began, 1)
    teller.section("Done")
    teller.line(_summary(report))
    _tell_tries(teller, report)
    return report


def _tries(home: Path, show: Demo, history: GitInput | None) -> list[tuple[str, str]]:
    """What to try, with this very command."""
    own = Path(sys.executable).with_name("metajournal")
    named = "metajournal" if shutil.which("metajournal") == str(own) else shlex.quote(str(own))
    command = named if own.exists() else f"{shlex.quote(sys.executable)} -m metajournal.cli"
    *others, down = tries(command, home, TAGGED, show.position_of(TAGGED), SEARCHES[0][0])
    return [*others, *([] if history is None else git_tries(command, history)), down]


def _tell_tries(teller: Teller, report: dict[str, Any]) -> None:
    if not report["try"]:
        return
    teller.section("Everything keeps running. Try this next")
    for command, meaning in report["try"]:
        teller.line(Text.assemble((command, "bold"), (f"   # {meaning}", "dim")))


class Demo:
    """The steps, in their order; each adds to the report and to its checks."""

    def __init__(self, teller: Teller, journal: Journal, stages: Stages, report: dict[str, Any]) -> None:
        self.teller = teller
        self.journal = journal
        self.stages = stages
        self.report = report
        self.events: list[EntityRegistered] = []
        self.positions: list[Position] = []
        self.tagged_at = Position("", 0, 0)

    def check(self, name: str, holds: bool) -> None:
        self.report["checks"][name] = holds

    def position_of(self, entity: Urn) -> Position:
        """Where an entity's registration stands in the journal."""
        return self.positions[[event.entity for event in self.events].index(entity)]

    def publish(self, events: list[EntityRegistered]) -> None:
        """Every installed distribution, as one event each; wait until all are searchable."""
        self.teller.section(f"Publish this Python environment (Python {self.report['python']})")
        self.events = events
        began = time.monotonic()
        receipts = [self.journal.emit(event, actor=ACTOR, block_s=DEADLINE_S) for event in self.events]
        with self.teller.bars(STAGES, len(receipts)) as advance:
            reached = self.stages.follow(receipts, began, advance)
        self.positions = [receipt.position for receipt in receipts]
        outcomes = [receipt.outcome(DEADLINE_S).word for receipt in receipts]
        entities = [str(event.entity) for event in self.events]
        self.report["published"] = {"events": len(receipts), "milliseconds": reached, "entities": entities}
        self.report["outcomes"] = {word: outcomes.count(word) for word in sorted(set(outcomes))}
        self.check("every event was accepted", set(outcomes) == {"accepted"})

    def count(self) -> None:
        """The same number everywhere, and the same content in the index as in the environment."""
        hits_by_urn = {str(hit.urn): hit for hit in self._all_hits()}
        same = sum(_says(event, hits_by_urn.get(str(event.entity))) for event in self.events)
        counts = {
            "installed distributions": len(self.events),
            "acknowledged by Kafka": len(set(self.positions)),
            "accepted by the rules": self.report["outcomes"].get("accepted", 0),
            "entities in the lake": self.stages.entities(NAMESPACE),
            "documents in the index": len(hits_by_urn),
            "with the same properties and tags": same,
        }
        self.report["counts"] = counts
        self.check("all counts agree", len(set(counts.values())) == 1 and len(self.events) > 0)
        self.teller.section("The same counts everywhere")
        self.teller.show(table(["what", "count"], counts.items(), right=["count"]))

    def _all_hits(self) -> Iterator[Any]:
        cursor = None
        while True:
            page = self.journal.search("*", namespace=NAMESPACE, kinds=["dataset"], limit=100, cursor=cursor)
            yield from page.hits
            cursor = page.cursor
            if cursor is None or not page.hits:
                return

    def measure(self) -> None:
        """The way of single events, one after the other: milliseconds from emit to each stage."""
        self.teller.section("Freshness: milliseconds from emit to each stage")
        taken: dict[str, list[float]] = {stage: [] for stage in STAGES}
        with self.teller.step(f"send {PROBES} single events, each when the one before is searchable"):
            for number in range(PROBES):
                began = time.monotonic()
                event = EntityRegistered(PROBE, properties={"number": str(number)})
                receipt = self.journal.emit(event, actor=ACTOR)
                for stage, ms in self.stages.follow([receipt], began).items():
                    taken[stage].append(ms)
        rows = {stage: {"median": statistics.median(ms), "slowest": max(ms)} for stage, ms in taken.items()}
        self.report["freshness_ms"] = rows
        whole = self.report["published"]["milliseconds"]
        columns = ["stage", f"all {len(self.events)} at once", "one event, median", f"slowest of {PROBES}"]
        lines = [[stage, *map(_shown, (whole[stage], *figures.values()))] for stage, figures in rows.items()]
        self.teller.show(table(columns, lines, right=columns[1:]))

    def search(self) -> None:
        """Three searches, and why each hit matched."""
        self.report["searches"] = []
        for query, meaning in SEARCHES:
            results = self.journal.search(query, namespace=NAMESPACE, kinds=["dataset"], limit=4)
            hits = [{"urn": str(hit.urn), "why": [reason.marked() for reason in hit.why]} for hit in results.hits]
            self.report["searches"].append({"query": query, "total": results.total, "hits": hits})
            self.check(f"search {query!r} finds something and says why", bool(hits) and all(hit["why"] for hit in hits))
            self.teller.section(f"Search datasets of namespace python:  {query}   ({meaning}): {results.total} found")
            self.teller.show(hits_view(results.hits))

    def tag_live(self) -> None:
        """A tag that nobody had; found by its own writer at once, because the search waits for the write."""
        query = f"tags:{LIVE_TAG}"
        before = self.journal.search(query).total
        began = time.monotonic()
        receipt = self.journal.emit(TagsAdded(TAGGED, tags=[LIVE_TAG]), actor=ACTOR)
        self.tagged_at = receipt.position
        results = self.journal.search(query, at_least=self.tagged_at)
        took = _milliseconds(began)
        urns = [str(hit.urn) for hit in results.hits]
        self.report["live_tag"] = {"tag": LIVE_TAG, "before": before, "found": urns, "milliseconds": took}
        self.check("a tag added live is found", before == 0 and urns == [str(TAGGED)])
        self.teller.section("A tag, added live")
        self.teller.line(f"before: {query} finds {before}")
        self.teller.line(f"emit TagsAdded({TAGGED}, tags=[{LIVE_TAG}]) → {receipt.position}")
        self.teller.line(f"after {took:,.0f} ms: {query} finds {', '.join(urns) or 'nothing'}")

    def be_rejected(self) -> None:
        """An event that is in the journal for ever and changes nothing, with the reason."""
        event = TagsAdded(dataset(NAMESPACE, "never-registered"), tags=["x"])
        receipt = self.journal.emit(event, actor=ACTOR)
        verdict = outcome_json(receipt.outcome(DEADLINE_S))
        self.report["rejected"] = {"entity": str(event.entity), "position": str(receipt.position), **verdict}
        self.check(
            "an unknown entity is rejected",
            (verdict["outcome"], verdict.get("reason")) == ("rejected", "unknown-entity"),
        )
        self.teller.section("An event that the rules reject")
        self.teller.line(f"emit TagsAdded({event.entity}, tags=[x]) → {receipt.position}")
        why = f": {verdict.get('reason')}, {detail_in_words(verdict.get('detail'))}"
        self.teller.line(Text.assemble((verdict["outcome"], "bold red"), why))
        self.teller.line("It stays in the journal and changes nothing; the same journal always gives the same verdict.")

    def look_at_one(self) -> None:
        """One entity as it is, and its history."""
        entity = entity_json(self.journal.show(TAGGED))
        history = [entity_json(row) for row in self.journal.history(TAGGED)]
        self.report["entity"], self.report["history"] = entity, history
        tagged = [LIVE_TAG in row["user"]["tags"] for row in history]
        self.check("show and history agree", history[-1] == entity and tagged == [False, True])
        self.teller.section(f"{TAGGED} as it is, long values shortened")
        self.teller.show(entity_view(entity, width=76, most_lines=1))
        self.teller.section(f"The history of {TAGGED}")
        self.teller.show(history_view(history))


def _says(event: EntityRegistered, hit: Any) -> bool:
    """Whether the index holds exactly what the event registered."""
    if hit is None:
        return False
    user = hit.entity["user"]
    return user["properties"] == event.properties and tuple(user["tags"]) == tuple(sorted(event.tags))


def _milliseconds(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)


def _shown(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 10 else f"{milliseconds:.1f}"


def _summary(report: dict[str, Any]) -> Text:
    failed = [name for name, holds in report["checks"].items() if not holds]
    checks = len(report["checks"])
    if failed:
        what = f"{len(failed)} of {checks} checks failed: {'; '.join(failed)}; the logs stay in {report['folder']}"
        return Text(what, style="red")
    end = "everything keeps running" if report["try"] else "everything is stopped"
    summary = f"{checks} checks, all true, {report['events']:,} events, in {report['seconds']} s; {end}"
    return Text.assemble(("✓ ", "green"), summary)
