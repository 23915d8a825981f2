"""What an index holds, document by document."""

from __future__ import annotations

from typing import Any

from elasticsearch import ApiError

from metajournal.indexer.connection import is_away, make_client
from metajournal.indexer.errors import IndexMissingError
from metajournal.indexer.mapping import POSITIONS_ID
from metajournal.indexer.shown import read_shown
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import behind
from metajournal.schemas.settings import Settings


def shows_the_lake(settings: Settings) -> bool:
    """Whether the index shows all that the journal table holds."""
    client = make_client(settings)
    try:
        shown = read_shown(client, settings.elasticsearch.index)
    except IndexMissingError:
        return False
    except ApiError as error:
        if not is_away(error):  # a shard may not have started yet
            raise
        return False
    finally:
        client.close()
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    topic = settings.journal.topics.journal("catalog")
    marks = {(topic, partition): lake.journal.mark((topic, partition)) for partition in range(4)}
    return not behind(shown.vector, marks)


def index_holds(settings: Settings) -> dict[str, dict[str, Any]]:
    """What each document keeps, and its version, by its id; without the indexer's own one."""
    client = make_client(settings)
    try:
        found: dict[str, dict[str, Any]] = {}
        after: list[Any] | None = None
        while True:
            more: dict[str, Any] = {"search_after": after} if after else {}
            answer = client.search(
                index=settings.elasticsearch.index, size=1000, sort=[{"urn": "asc"}], version=True, **more
            )
            hits = answer["hits"]["hits"]
            if not hits:
                return {key: document for key, document in found.items() if key != POSITIONS_ID}
            found |= {hit["_id"]: {**hit["_source"], "version": hit["_version"]} for hit in hits}
            after = hits[-1]["sort"]
    finally:
        client.close()
