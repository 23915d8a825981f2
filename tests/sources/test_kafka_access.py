"""A Kafka that knows its users: a wrong password and missing rights are errors, so no topic seems to be gone."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal.sources.found import Found
from metajournal.sources.kafka.source import Kafka
from metajournal.sources.source import SourceError
from metajournal.stack.server import Server
from tests.new_topics import make_topics
from tests.producers.test_access_lists import broker, security

__all__ = ["broker"]


def of(server: Server, user: str, **more: str) -> Kafka:
    settings = {**security(user), **more}
    return Kafka(server.endpoint, settings=[f"{key}={value}" for key, value in settings.items()])


@pytest.mark.thorough
def test_users_that_may_not_see_the_topics_are_told_so(broker: Server) -> None:
    admin = AdminClient({"bootstrap.servers": broker.endpoint, "log_level": 0, **security("admin")})
    make_topics(admin, [NewTopic("orders", 1, 1)])
    found = [one for one in of(broker, "admin").read(lambda _: None) if isinstance(one, Found)]
    assert [one.entity.name for one in found] == ["orders"]
    for user, more, code in (
        ("admin", {"sasl.password": "geheim"}, "not-authenticated"),
        ("stranger", {}, "no-such-topic"),
    ):
        with pytest.raises(SourceError) as refused:
            list(of(broker, user, **more).read(lambda _: None))
        assert refused.value.code == code
        assert "geheim" not in f"{refused.value}{refused.value.__dict__}"
        assert "secret" not in f"{refused.value}{refused.value.__dict__}"
