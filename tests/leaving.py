"""The end of a test's own topics and indices, so that the services of a run stay as small as one test needs them.

A broker keeps files of each partition mapped, and what it tells of itself grows with the topics that are there: with
those of two thousand tests it is slow, and then ends.
"""

from __future__ import annotations

from functools import cache

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from elasticsearch import ApiError, Elasticsearch, TransportError

from metajournal.schemas.settings import Settings


def leave(settings: Settings) -> None:
    """Delete the topics and indices of an installation. Does not wait for it, nor mind services that are away."""
    try:
        _leave_topics(str(settings.kafka["bootstrap.servers"]), f"{settings.journal.prefix}.")
        _leave_indices(settings.elasticsearch.url, f"{settings.elasticsearch.index}*")
    except (KafkaException, ApiError, TransportError):
        return  # a test ended its services


def _leave_topics(servers: str, prefix: str) -> None:
    admin = _admin(servers)
    names = [name for name in admin.list_topics(timeout=5).topics if name.startswith(prefix)]
    if names:
        admin.delete_topics(names)


def _leave_indices(url: str, pattern: str) -> None:
    search = _search(url)
    found = search.cat.indices(index=pattern, h="index", format="json").body
    names = [str(one["index"]) for one in found if isinstance(one, dict)]
    if names:
        search.indices.delete(index=names, ignore_unavailable=True)


@cache
def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


@cache
def _search(url: str) -> Elasticsearch:
    return Elasticsearch(url, request_timeout=5)
