"""Checks whether the configured Kafka and Elasticsearch answer, whoever runs them, and describes why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..schemas.setting_keys import scrubbed, url_shown
from ..schemas.settings import Settings

_ANSWER_S: Final = 3.0


def kafka_answer(settings: Settings) -> str:
    """Kafka's answer. Raises: any error of its client if there is none."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**settings.kafka, "log_level": 0})
    brokers = len(admin.list_topics(timeout=_ANSWER_S).brokers)
    return "1 broker" if brokers == 1 else f"{brokers} brokers"


def search_answer(settings: Settings) -> str:
    """Elasticsearch's answer. Raises: any error of its client if there is none."""
    from elasticsearch import Elasticsearch

    own = settings.elasticsearch
    options: dict[str, Any] = {"api_key": own.api_key, "ca_certs": own.ca}
    given = {key: value for key, value in options.items() if value}
    with Elasticsearch(own.url, request_timeout=_ANSWER_S, max_retries=0, **given) as client:
        return f"a {client.cluster.health().body['status']} cluster"


ANSWERS: Final[Mapping[str, Callable[[Settings], str]]] = {"kafka": kafka_answer, "elasticsearch": search_answer}


def endpoint(name: str, settings: Settings) -> str:
    """The configured address of one of these, for people to read."""
    address = settings.kafka.get("bootstrap.servers", "") if name == "kafka" else settings.elasticsearch.url
    return url_shown(address)


def words(error: Exception, hidden: Sequence[str]) -> str:
    """One line of an exception, without the settings' secrets; librdkafka's have their text inside."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    text = scrubbed(inner.str() if isinstance(inner, KafkaError) else str(error), hidden)
    return text.splitlines()[0][:120] if text else type(error).__name__
