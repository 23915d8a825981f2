"""Errors of the index and of searches, under the roots of `schemas.errors`."""

from __future__ import annotations

from ..schemas.errors import InputError, OperatorError, SearchUnavailableError


class InvalidQueryError(InputError):
    """A search's text or options cannot be answered."""

    CODE = "invalid-query"
    HINT = "Shorten the query, or correct the named option."


class InvalidCursorError(InputError):
    """A cursor is not valid, belongs to another search, or has expired."""

    CODE = "invalid-cursor"
    HINT = "Start the search again without a cursor."


class IndexMissingError(SearchUnavailableError):
    """There is no index yet."""

    CODE = "index-missing"
    HINT = "Start the indexer (`metajournal index`, or `metajournal up`); it makes the index and fills it."
    index: str

    def __init__(self, index: str) -> None:
        super().__init__(f"There is no search index {index!r}.", index=index)


class MappingMismatchError(OperatorError):
    """The index was created by another version of the mapping."""

    CODE = "mapping-mismatch"
    HINT = (
        "`metajournal rebuild index` rebuilds it from the lake while searches continue. Or stop the indexer, delete "
        "that"
        " index in Elasticsearch and start the indexer again (`metajournal index`); the state topics fill it."
    )
    _NOT_OURS = "Choose another name (elasticsearch.index), or delete that index if it is not needed."

    def __init__(self, alias: str, name: str, version: object, wanted: int) -> None:
        state = "is not metajournal's" if version is None else f"has mapping version {version}"
        super().__init__(
            f"The index {name!r} behind {alias!r} {state}; this version of metajournal needs version {wanted} "
            "exactly as it writes it.",
            hint=self._NOT_OURS if version is None else None,
            index=name,
            held=version,
            wanted=wanted,
        )


class AliasReplacedError(OperatorError):
    """Another index has the name of metajournal's alias, so metajournal's index cannot be reached by it."""

    CODE = "alias-replaced"
    _HINT = (
        "Nothing is lost: journal and lake contain everything. Look at its content: curl "
        "'{url}/{index}/_search?size=3'. "
        "If it is not needed, stop the program that writes to it, then: curl -X DELETE '{url}/{index}', and start "
        "the indexer again (metajournal index, or metajournal down; metajournal up): it sets the alias and fills in "
        "what is missing. If it is needed, give metajournal another name: elasticsearch.index."
    )
    HINT = _HINT.format(url="ELASTICSEARCH_URL", index="INDEX")
    index: str

    def __init__(self, index: str, url: str) -> None:
        super().__init__(
            f"{index!r} is an index, and not metajournal's alias: the alias or its index was deleted, and another "
            "program's write made an index of that name. Searches cannot see the catalog, and nothing is indexed.",
            hint=self._HINT.format(url=url, index=index),
            index=index,
        )


class IndexerError(OperatorError):
    """The indexer cannot continue without skipping something."""

    CODE = "indexer"
    HINT = "Read the message, fix its cause and start the indexer again; it resumes where the index stopped."
