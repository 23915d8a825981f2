"""The topic of the gateway's audit: made at the gateway's first start, and the operator's from then on."""

from __future__ import annotations

from typing import Final

from ..schemas.settings import Settings
from .answers import Administrator
from .recorded.topic_admin import Wanted, await_topics, create, described

KEPT_MS: Final = 90 * 24 * 60 * 60 * 1000
_CONFIG: Final = {
    "cleanup.policy": "delete", "retention.ms": str(KEPT_MS), "message.timestamp.type": "CreateTime",
}  # fmt: skip


def ensure_audit_topic(settings: Settings, *, timeout_s: float = 10.0) -> None:
    """Make the topic where it is missing; one that is there stays as it is.

    Raises:
        KafkaUnavailableError: the broker does not answer in time, or refuses.
    """
    topic = settings.journal.topics.audit
    admin = Administrator(settings).connect(timeout_s)
    if topic not in described(admin, [topic], timeout_s):
        create(admin, [Wanted(topic, 1, _CONFIG)], timeout_s)
        await_topics(admin, [topic], timeout_s)
