"""The lake's entities as state documents, in pages: what a rebuild indexes and what an index is compared with.

Pages follow each other by (tenant, URN) and hold a bounded number of history rows, so memory does not grow with the
lake. Each page is read from the newest version of the table: a row that a later version brings is one that the state
topic brings too, and compaction between two pages does no harm.
Left to whom: which position is shown is the callers' matter; rows above the journal table's marks are given as well,
since a batch that is not finished is folded to the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...lake.entities import COLUMNS, row_from_dict
from ...lake.storage.damage import asked_again
from ...lake.storage.log_damage import NoTableError
from ...lake.tables import Lake, quoted
from ...rules.documents import Document, state_document
from ...schemas.errors import UnavailableError
from ...schemas.positions import Cut
from ...schemas.registry import has_documents, served_domains
from ...schemas.settings import Settings

PAGE_ROWS: Final = 5_000
"""History rows in a page, where no single entity has more."""


class Key(NamedTuple):
    """Where a page ends."""

    tenant: str
    urn: str


class LakeStates:
    """The newest state document of every entity.

    Args:
        settings: where the lake is, and how its topics are called.
        domains: the domains that the journal serves; our own where None.
    Raises:
        UnavailableError: there is no lake.
    """

    def __init__(self, settings: Settings, *, page_rows: int = PAGE_ROWS, domains: Sequence[str] | None = None) -> None:
        self._lake = Lake(settings.lake.path, settings.lake.storage_options)
        self._topics = [settings.journal.topics.journal(domain) for domain in domains or served_domains()]
        self._page_rows = page_rows
        try:
            self._lake.refresh()
        except NoTableError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error

    @asked_again
    def marks(self, known: Cut) -> dict[tuple[str, int], int]:
        """How far the journal table holds each partition now: those it has rows of, and those that are asked for."""
        self._lake.refresh()
        journal = self._lake.journal
        keys = {key for key in known if key[0] in self._topics}
        for topic in self._topics:
            table = journal.sql(f"select max(journal_partition) as last from journal where topic = {quoted(topic)}")
            last = table["last"][0].as_py()
            keys.update((topic, partition) for partition in range(0 if last is None else last + 1))
        marks = {key: journal.mark(key) for key in sorted(keys)}
        return {key: mark for key, mark in marks.items() if mark}

    def is_read(self, topic: str) -> bool:
        """Whether a journal topic is one of the domains'; not where its domain is refused alone."""
        return topic in self._topics

    @asked_again
    def kept(self, shown: Cut) -> dict[tuple[str, int], int]:
        """What searches see of domains that are refused, and the lake holds: no topic brings more of them.

        The rows may be ahead of the journal table's marks: by a batch that was published and not finished.
        """
        rows, journal = self._table, self._lake.journal
        unread = {key: to for key, to in shown.items() if not self.is_read(key[0])}
        return {key: min(to, max(rows.mark(key), journal.mark(key))) for key, to in unread.items()}

    @asked_again
    def about(self) -> int:
        """About how many entities there are, within a few percent."""
        table = self._table.sql("select approx_distinct(tenant || '/' || urn) as entities from entities")
        return int(table["entities"][0].as_py())

    def pages(self, after: Key | None = None) -> Iterator[tuple[Key, list[Document]]]:
        """Pages behind a key, each with the key that it ends at."""
        while (last := self._page_end(after)) is not None:
            yield last, self._newest(after, last)
            after = last

    @asked_again
    def having(self, keys: list[Key]) -> set[Key]:
        """Which of some entities the lake has rows of."""
        urns = ", ".join(quoted(key.urn) for key in keys)
        rows = self._table.sql(f"select distinct tenant, urn from entities where urn in ({urns})").to_pylist()
        return {Key(row["tenant"], row["urn"]) for row in rows}.intersection(keys)

    @property
    def _table(self) -> Any:
        self._lake.refresh()  # also to tables that a rebuild of the lake has put in their place
        return self._lake.tables["entities"]

    @asked_again
    def _page_end(self, after: Key | None) -> Key | None:
        query = f"select tenant, urn from entities where {_behind(after)} order by tenant, urn limit {self._page_rows}"
        table = self._table.sql(query)
        if not table.num_rows:
            return None
        return Key(table["tenant"][-1].as_py(), table["urn"][-1].as_py())

    @asked_again
    def _newest(self, after: Key | None, last: Key) -> list[Document]:
        columns = f"{COLUMNS}, domain, journal_partition"
        order = "order by logical_timestamp desc, seq desc"
        ranked = f"select {columns}, row_number() over (partition by tenant, urn {order}) as age from entities"
        statement = (
            f"select {columns} from ({ranked} where {_behind(after)} and not ({_behind(last)})) where age = 1"
            " order by tenant, urn"
        )
        rows = self._table.sql(statement).to_pylist(maps_as_pydicts="strict")
        return [
            state_document(row_from_dict(row), row["journal_partition"], row["domain"])
            for row in rows
            if has_documents(row["domain"])
        ]


def _behind(key: Key | None) -> str:
    """The condition of all rows behind a key."""
    if key is None:
        return "true"
    tenant, urn = quoted(key.tenant), quoted(key.urn)
    return f"(tenant > {tenant} or (tenant = {tenant} and urn > {urn}))"
