"""The demo's steps over files, lineage, earlier moments and the rebuilt index: the width of the journal.

Left to whom: `demo.py` orders the steps and does those over datasets; the sources say what is installed.
Invariant: what a step counts it reads back from where it was to arrive, never from what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from ..domains.catalog.urns import dataset
from ..domains.files.values import file_json
from ..domains.lineage.views import lineage_view
from ..indexer.fill.rebuild import rebuild_index
from ..schemas.positions import Position
from ..schemas.urn import Urn
from ..sources.python_files import WHERE, files_of, read_files
from ..sources.python_requirements import building, requirements, run_of
from ..terminal.rendering import table, time_text
from .demo_services import DEADLINE_S, IN_LAKE, SEARCHABLE, Stages
from .telling import Teller

if TYPE_CHECKING:
    from ..client import Journal
    from ..domains.files.rows import FileRecordRow
    from ..producers.receipts import Receipt
    from ..sources.python_environment import Installed

ACTOR: Final = "demo"
LEAST_EVENTS: Final = 5_000
"""Files go in bulk, but in events as small as to make at least so many: a journal is known by its many events."""
NEWEST: Final = 5
_EARLIEST: Final = 0
_LATEST: Final = 4_102_444_800_000  # 2100-01-01
_DATASETS: Final = ["dataset"]
HASHED, RECORDED = FILE_STAGES = ("hashed", "acknowledged by Kafka")


class EnvironmentSteps:
    """Steps that need the whole environment; each adds to the report and to its checks.

    Args:
        installed: what is installed, by canonical name.
        shown: the distribution whose files and lineage are shown.
    """

    def __init__(
        self,
        teller: Teller,
        journal: Journal,
        stages: Stages,
        report: dict[str, Any],
        installed: Mapping[str, Installed],
        shown: Urn,
    ) -> None:
        self.teller = teller
        self.journal = journal
        self.stages = stages
        self.report = report
        self.installed = installed
        self.shown = shown
        self.required: dict[str, tuple[str, ...]] = {}

    def check(self, name: str, holds: bool) -> None:
        self.report["checks"][name] = holds

    def record_files(self) -> None:
        """Each file of each distribution: size, time and content hash, in bulk."""
        files = files_of(self.installed.values())
        self.teller.section("Record each file of each distribution: size, time, content hash")
        an_event = min(max(len(files) // LEAST_EVENTS, 1), 1000)
        began = time.monotonic()
        with self.teller.bars(FILE_STAGES, len(files)) as advance:
            receipts = self.journal.files.record(
                self._hashed(files, lambda count: advance(HASHED, count)),
                progress=lambda count: advance(RECORDED, count),
                files_an_event=an_event,
                actor=ACTOR,
                block_s=DEADLINE_S,
            )
        recorded = round(time.monotonic() - began, 1)
        self.teller.line(f"{len(receipts):,} events of up to {an_event} files each, through the stream and the index:")
        with self.teller.bars((IN_LAKE, SEARCHABLE), len(receipts)) as advance:
            self.stages.follow(receipts, began, lambda stage, count: advance(stage, count), (IN_LAKE, SEARCHABLE))
        seconds = {"acknowledged": recorded, "searchable": round(time.monotonic() - began, 1)}
        self.report["files"] = {"events": len(receipts), "sent": self._sent, "seconds": seconds}
        self._all_accepted("every event of files was accepted", receipts)

    def _hashed(self, files: list[Any], advance: Callable[[int], None]) -> Iterator[Any]:
        self._sent = 0
        for record in read_files(files):
            self._sent += 1
            advance(self._sent)
            yield record

    def tell_lineage(self) -> None:
        """Building a distribution reads what it requires, and writes it."""
        self.teller.section("Record the requirements as lineage: building a distribution reads what it requires")
        self.required = requirements(self.installed)
        facts = [fact for name, dist in self.installed.items() for fact in building(dist, self.required[name])]
        began = time.monotonic()
        receipts = [self.journal.emit(fact, actor=ACTOR, block_s=DEADLINE_S) for fact in facts]
        with self.teller.bars((IN_LAKE,), len(receipts)) as advance:
            self.stages.follow(receipts, began, lambda stage, count: advance(stage, count), (IN_LAKE,))
        self._all_accepted("every fact of lineage was accepted", receipts)
        self.report["lineage"] = {"events": len(receipts)}

    def _all_accepted(self, name: str, receipts: list[Receipt]) -> None:
        words = {receipt.outcome(DEADLINE_S).word for receipt in receipts}
        self.check(name, words == {"accepted"})

    def count(self) -> None:
        """Files and requirements, as the lake and the index hold them."""
        files = list(self.journal.files.find(where=WHERE, start=_EARLIEST, end=_LATEST))
        hits_total = self.journal.search("*", namespace="python", kinds=["file"], limit=0).total
        pairs = sorted(self._pairs())
        summary = self.report["files"] | {
            "in_lake": len(files),
            "in_index": hits_total,
            "bytes": sum(file.size_bytes or 0 for file in files),
            "digest": digest_of(files),
        }
        self.report["files"] = summary
        self.report["lineage"] |= {"requirements": [f"{reader} -> {read}" for reader, read in pairs]}
        self.report["events"] = self.stages.events()
        sent = {(name, other) for name, others in self.required.items() for other in others}
        self.check(
            "as many files in the lake and in the index as were sent", {summary["sent"], hits_total} == {len(files)}
        )
        self.check("the lake's lineage holds every requirement and no other", set(pairs) == sent)
        rows = [
            ("files in the lake", f"{len(files):,}"),
            ("files in the index", f"{hits_total:,}"),
            ("bytes of all files", f"{summary['bytes']:,}"),
            ("requirements in the lake's lineage", f"{len(pairs):,}"),
            ("events in the journal so far", f"{self.report['events']:,}"),
        ]
        self.teller.show(table(["files and requirements", "count"], rows, right=["count"]))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Who reads whom, asked run by run."""
        for name, distribution in self.installed.items():
            cursor = None
            while True:
                page = self.journal.lineage.accesses(run_of(distribution), limit=1000, cursor=cursor)
                yield from ((name, Urn.parse(item["data"]).name) for item in page.items if item["access"] == "read")
                if (cursor := page.cursor) is None:
                    break

    def draw_lineage(self) -> None:
        """What a distribution is built of, and what these are built of."""
        answer = self.journal.lineage.of(self.shown, direction="upstream")
        direct = {requirement.replace(".", "%2E") for requirement in self.required[self.shown.name]}
        program = f"workflow.python.build.{self.shown.name.replace('.', '%2E')}"
        read = {
            relation["data"].rpartition(".")[2]
            for relation in answer["relations"]
            if relation["program"] == program and relation["access"] == "read"
        }
        self.report["lineage"]["shown"] = answer
        self.check("the lineage shown begins with the requirements", read == direct)
        self.teller.section(f"metajournal lineage {self.shown} --direction upstream")
        self.teller.show(lineage_view(answer, self.shown))

    def query_files(self) -> None:
        """The newest files of one distribution."""
        what, where = self.shown.name, WHERE
        latest = self.journal.files.latest(what, where)
        began = time.monotonic()
        files = list(self.journal.files.find(what=what, where=where, start=_EARLIEST, end=_LATEST))
        took = round((time.monotonic() - began) * 1000, 1)
        newest = sorted(files, key=lambda file: (file.start_ms, file.file_id), reverse=True)[:NEWEST]
        self.report["files"] |= {
            "of": what,
            "found": len(files),
            "milliseconds": took,
            "newest": [file_json(file) for file in newest],
        }
        same = latest is not None and bool(newest) and latest.start_ms == newest[0].start_ms
        self.check("the newest file is the newest of all", same)
        self.teller.section(f"The newest files of one distribution: what {what}, where {where}")
        self.teller.line(f"{len(files)} files found in {took:,.0f} ms, the newest {len(newest)}:")
        self.teller.show(table(["written", "size", "hash", "file"], map(_file_row, newest), right=["size"]))

    def look_back(self, before: Position, after: Position, tag: str) -> None:
        """The same entity as at two positions: without the live tag, and with it."""
        points = (("before the tag", before), ("with the tag", after))
        seen = [(words, position, self.journal.answer(self.shown, as_at=position)) for words, position in points]
        has = [answer.row is not None and tag in answer.row.user_tags for _, _, answer in seen]
        self.report["as_at"] = [
            {"as_at": str(position), "tagged": tagged, "final": answer.final}
            for (_, position, answer), tagged in zip(seen, has, strict=True)
        ]
        self.check("as at the registration there is no live tag, as at the tag there is", has == [False, True])
        self.check("both moments are final", all(answer.final for _, _, answer in seen))
        self.teller.section("Time travel: the same entity as the journal recorded it then")
        rows = [
            (
                f"--as-at {position}",
                words,
                f"tag {tag}: {'yes' if tagged else 'no'}",
                "final" if answer.final else "not final",
            )
            for (words, position, answer), tagged in zip(seen, has, strict=True)
        ]
        self.teller.show(table([f"metajournal show {self.shown}", "", "", ""], rows))

    def rebuild_index(self) -> None:
        """A new index from the lake, each document compared, in the place of the old one; the same is found."""
        self.teller.section("Throw the index away, and rebuild it from the lake")
        searches: list[dict[str, Any]] = [{"query": search["query"]} for search in self.report["searches"]]
        before = [self._search(**search) for search in searches]
        phases = ("load", "compare")
        entities = self.stages.entities()
        with self.teller.bars(phases, entities) as advance:
            done = rebuild_index(
                self.stages.settings,
                tell=lambda stage: advance(stage.phase, min(stage.done, entities)) if stage.phase in phases else None,
            )
            for phase in phases:
                advance(phase, entities)
        after = [self._search(**search) for search in searches]
        self.report["rebuild"] = {
            "entities_in_lake": entities,
            "documents": done.documents,
            "compared": done.compared,
            "different": 0,  # a difference is an error that ends the rebuild before the swap
            "index": done.index,
            "old": done.old,
            "seconds": round(done.took_s, 1),
        }
        self.check(
            "the rebuilt index equals the lake, document by document", done.documents == done.compared == entities
        )
        self.check("searches find the same in the rebuilt index", before == after and done.index != done.old)
        self.teller.line(
            f"{done.documents:,} documents rebuilt from the lake, {done.compared:,} compared, 0 different;"
            f" swapped in after {done.took_s:.1f} s. Searches continued meanwhile and find the same."
        )

    def _search(self, query: str) -> tuple[int, list[tuple[str, Any]]]:
        results = self.journal.search(query, namespace="python", kinds=_DATASETS, limit=100)
        return results.total, sorted((str(hit.urn), hit.entity) for hit in results.hits)


def digest_of(files: list[FileRecordRow]) -> str:
    """One digest of path, size, time and hash of many files, whatever their order."""
    lines = sorted(
        f"{file.file_what}\t{metadata['path']}\t{file.size_bytes}\t{file.start_ms}\t{metadata['hash']}\n"
        for file, metadata in ((file, file.metadata or {}) for file in files)
    )
    return blake2b("".join(lines).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _file_row(file: FileRecordRow) -> tuple[object, ...]:
    metadata = file.metadata or {}
    name = "/".join(PurePath(metadata["path"]).parts[-3:])
    return time_text(file.start_ms), f"{file.size_bytes:,}", f"{metadata['hash'][:12]}…", name


def tries(command: str, home: PurePath, shown: Urn, before: Position, query: str) -> list[tuple[str, str]]:
    """What to try while the services run on: a command and what it does."""
    return [
        (f"export METAJOURNAL_HOME={home}", "the services of this demo"),
        (f"{command} status", "what is running, and how fresh each stage is"),
        (
            f"{command} search '{query}' --namespace python --kind dataset",
            "words, fields, phrases; --json for programs",
        ),
        (f"{command} show {shown} --as-at {before}", "as the journal recorded it then"),
        (f"{command} lineage {dataset('python', 'pyspark')} --levels 1", "what depends on it, and what it depends on"),
        (f"{command} files latest {shown.name} python", "the newest file of a distribution"),
        (f"{command} emit TagsAdded {shown} --tag mine", "your own event"),
        (f"{command} history {shown}", "and its history"),
        (f"{command} down", f"stop the services; then remove {home}"),
    ]
