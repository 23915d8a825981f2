"""Never run: our own files, held by the type checker against what the rooms load them as.

Rooms load a domain's files by their names, which a type checker does not follow. Here each file is assigned to the
Protocol of its role, which stands in the room that loads it; a test sees to it that none is left out. A package with a
domain of its own does the same for itself (docs/how-to/write-a-domain.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..consumers.every_change import NamedFile
    from ..domains.access import client as access_client
    from ..domains.access import commands as access_commands
    from ..domains.access import domain as access
    from ..domains.access import events as access_events
    from ..domains.access import http as access_http
    from ..domains.access import pages as access_pages
    from ..domains.access import rows as access_rows
    from ..domains.access import rules as access_rules
    from ..domains.access import sessions as access_sessions
    from ..domains.access import tables as access_tables
    from ..domains.catalog import as_of as catalog_as_of
    from ..domains.catalog import documents as catalog_documents
    from ..domains.catalog import domain as catalog
    from ..domains.catalog import events as catalog_events
    from ..domains.catalog import http as catalog_http
    from ..domains.catalog import pages as catalog_pages
    from ..domains.catalog import rules as catalog_rules
    from ..domains.catalog import typed as catalog_typed
    from ..domains.catalog.columns import folder as catalog_folder
    from ..domains.datasets import domain as datasets
    from ..domains.files import client as files_client
    from ..domains.files import commands as files_commands
    from ..domains.files import documents as files_documents
    from ..domains.files import domain as files
    from ..domains.files import events as files_events
    from ..domains.files import http as files_http
    from ..domains.files import pages as files_pages
    from ..domains.files import rows as files_rows
    from ..domains.files import rules as files_rules
    from ..domains.files import tables as files_tables
    from ..domains.files import typed as files_typed
    from ..domains.files import words as files_words
    from ..domains.files.columns import documents as files_column_documents
    from ..domains.files.columns import folder as files_folder
    from ..domains.lineage import as_of as lineage_as_of
    from ..domains.lineage import client as lineage_client
    from ..domains.lineage import commands as lineage_commands
    from ..domains.lineage import derived as lineage_derived
    from ..domains.lineage import documents as lineage_documents
    from ..domains.lineage import domain as lineage
    from ..domains.lineage import events as lineage_events
    from ..domains.lineage import http as lineage_http
    from ..domains.lineage import named as lineage_named
    from ..domains.lineage import pages as lineage_pages
    from ..domains.lineage import rows as lineage_rows
    from ..domains.lineage import rules as lineage_rules
    from ..domains.lineage import tables as lineage_tables
    from ..domains.repositories import client as repositories_client
    from ..domains.repositories import commands as repositories_commands
    from ..domains.repositories import derived as repositories_derived
    from ..domains.repositories import documents as repositories_documents
    from ..domains.repositories import domain as repositories
    from ..domains.repositories import errors as repositories_errors
    from ..domains.repositories import events as repositories_events
    from ..domains.repositories import http as repositories_http
    from ..domains.repositories import lines as repositories_lines
    from ..domains.repositories import named as repositories_named
    from ..domains.repositories import pages as repositories_pages
    from ..domains.repositories import rows as repositories_rows
    from ..domains.repositories import rules as repositories_rules
    from ..domains.repositories import tables as repositories_tables
    from ..domains.repositories import words as repositories_words
    from ..domains.repositories.columns import folder as repositories_folder
    from ..domains.tables import domain as tables
    from ..fold.derived import DerivedFile
    from ..fold.published import AnnotationsFile, ColumnDocumentsFile, DocumentsFile
    from ..gateway.sessions import SessionsFile
    from ..gateway.table import HttpFile, PagesFile
    from ..indexer.documents import WordsFile
    from ..lake.as_of import BeginsFile, FactsFile
    from ..lake.declared import TablesFile
    from ..outside_client import ClientFile
    from ..producers.verdicts import ErrorsFile
    from ..rules import ReadsFile, RulesFile
    from ..rules.tables import RowsFile
    from ..schemas.domain import DomainFile
    from ..schemas.events import EventsFile
    from ..streaming.tasks import ColumnFolderFile
    from ..terminal.parsing import TypedFile
    from .program import CommandsFile
    from .tailing import LinesFile

    _DOMAINS: Sequence[DomainFile] = (access, catalog, datasets, files, lineage, repositories, tables)
    _EVENTS: Sequence[EventsFile] = (access_events, catalog_events, files_events, lineage_events, repositories_events)
    _RULES: Sequence[RulesFile] = (access_rules, catalog_rules, files_rules, lineage_rules, repositories_rules)
    _READS: Sequence[ReadsFile] = (access_rules, catalog_rules, lineage_rules, repositories_rules)
    _ROWS: Sequence[RowsFile] = (access_rows, files_rows, lineage_rows, repositories_rows)
    _TABLES: Sequence[TablesFile] = (access_tables, files_tables, lineage_tables, repositories_tables)
    _DERIVED: Sequence[DerivedFile] = (lineage_derived, repositories_derived)
    _CLIENTS: Sequence[ClientFile] = (access_client, files_client, lineage_client, repositories_client)
    _DOCUMENTS: Sequence[DocumentsFile] = (files_documents, lineage_documents, repositories_documents)
    _ANNOTATIONS: AnnotationsFile = catalog_documents
    _COLUMN_DOCUMENTS: ColumnDocumentsFile = files_column_documents
    _FOLDERS: Sequence[ColumnFolderFile] = (catalog_folder, files_folder, repositories_folder)
    _WORDS: Sequence[WordsFile] = (files_words, repositories_words)
    _BEGINS: BeginsFile = catalog_as_of
    _FACTS: FactsFile = lineage_as_of
    _TYPED: Sequence[TypedFile] = (catalog_typed, files_typed)
    _COMMANDS: Sequence[CommandsFile] = (access_commands, files_commands, lineage_commands, repositories_commands)
    _LINES: LinesFile = repositories_lines
    _HTTP: Sequence[HttpFile] = (access_http, catalog_http, files_http, lineage_http, repositories_http)
    _PAGES: Sequence[PagesFile] = (access_pages, catalog_pages, files_pages, lineage_pages, repositories_pages)
    _SESSIONS: SessionsFile = access_sessions
    _ERRORS: ErrorsFile = repositories_errors
    _NAMED: Sequence[NamedFile] = (lineage_named, repositories_named)
