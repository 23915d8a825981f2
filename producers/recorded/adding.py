"""Topics and record of a domain that joins a journal, made when an installation begins to serve it.

The record is written last: until it stands, nothing has changed. Topics that an interrupted attempt left behind are
taken as they are, since nobody can have written into them.
Left to others: whether the domain may be added, and its cuts (streaming.between.adding).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...schemas.domain import Domain
from ...schemas.errors import DomainError
from ...schemas.registry import owner_of_undeclared
from ...schemas.settings import Settings
from ..answers import Administrator
from ..compacted import write_all
from ..topics import Epochs, check_topics, topics_of
from .served import joined
from .topic_admin import await_topics, create, described, has_records


def serve(
    settings: Settings,
    domain: Domain,
    package: str,
    epochs: Epochs,
    cuts: Mapping[str, Sequence[int]],
    *,
    timeout_s: float = 30.0,
) -> Epochs:
    """Make the topics of a domain that joins, and record that this journal serves it.

    Args:
        settings: names, how to reach Kafka.
        domain: what the package declares.
        package: what pip calls it.
        epochs: the journal's topics as they are recorded.
        cuts: the next position of each partition of those topics: below it the domain's kinds are undeclared.
    Returns:
        What is recorded now.
    Raises:
        DomainError: its journal topic is there already, and holds records that nobody accounts for.
        KafkaUnavailableError: the broker does not answer in time.
        TopicMismatchError: what is there already is not as it must be.
    """
    names = settings.journal.topics
    topic, first = names.journal(domain.name), epochs[names.journal(owner_of_undeclared())]
    changes = [names.changes(domain.name)] if domain.has_changes else []
    wanted = topics_of(settings, domain.name, first.partitions, changes)
    admin = Administrator(settings).connect(timeout_s)
    there = described(admin, [topic_wanted.topic for topic_wanted in wanted], timeout_s)
    if topic in there and has_records(admin, there[topic], timeout_s):
        raise DomainError(
            f"The topic {topic} holds records, but this journal does not serve {domain.name}.",
            code="topic-in-use",
            hint=f"Look who wrote them. Delete the topic if nobody needs it, and add {domain.name} again.",
        )
    create(admin, [topic_wanted for topic_wanted in wanted if topic_wanted.topic not in there], timeout_s)
    description = await_topics(admin, [topic_wanted.topic for topic_wanted in wanted], timeout_s)[topic]
    served = joined(domain, package, first.epoch + 1, cuts)
    record = served.record(topic, first.epoch + 1, str(description.topic_id), len(description.partitions))
    write_all(settings, names.epochs, {topic: json.dumps(record).encode()}, timeout_s=timeout_s)
    return check_topics(settings, timeout_s=timeout_s)
