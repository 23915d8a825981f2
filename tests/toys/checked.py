"""Never run: the files of the toys, held by the type checker against what metajournal loads them as."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metajournal.commands.program import CommandsFile
    from metajournal.fold.derived import DerivedFile
    from metajournal.fold.published import DocumentsFile
    from metajournal.indexer.documents import WordsFile
    from metajournal.lake.declared import TablesFile
    from metajournal.outside_client import ClientFile
    from metajournal.rules import ReadsFile
    from metajournal.rules.tables import RowsFile
    from metajournal.schemas.domain import DomainFile
    from metajournal.schemas.events import EventsFile
    from metajournal.terminal.parsing import TypedFile
    from tests.toys.metajournal_toys import (
        client,
        commands,
        derived,
        documents,
        domain,
        events,
        rows,
        rules,
        tables,
        typed,
        words,
    )

    _DOMAIN: DomainFile = domain
    _EVENTS: EventsFile = events
    _RULES: ReadsFile = rules
    _ROWS: RowsFile = rows
    _TABLES: TablesFile = tables
    _DERIVED: DerivedFile = derived
    _DOCUMENTS: DocumentsFile = documents
    _WORDS: WordsFile = words
    _CLIENT: ClientFile = client
    _TYPED: TypedFile = typed
    _COMMANDS: CommandsFile = commands
