"""Topics that tests make themselves: they are there when the call returns, as everybody sees the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic, TopicDescription

from tests.wait import eventually


def make_topics(admin: AdminClient, topics: Iterable[NewTopic], timeout_s: float = 10.0) -> None:
    """Make topics, and wait until the broker describes them with leaders: its metadata follow after it says "made".

    Raises:
        KafkaException: the broker refuses one.
        AssertionError: they do not appear in time.
    """
    wanted = {one.topic: one for one in topics}

    def made() -> bool:
        found = _described(admin, wanted)
        missing = [one for name, one in wanted.items() if name not in found]
        for future in admin.create_topics(missing).values() if missing else ():
            _raise_unless(KafkaError.TOPIC_ALREADY_EXISTS, future.exception())
        return not missing and all(at.leader is not None for one in found.values() for at in one.partitions)

    eventually(made, timeout_s, f"topics {', '.join(wanted)}")


def remake_topics(admin: AdminClient, topics: Iterable[NewTopic], timeout_s: float = 10.0) -> None:
    """Delete topics, and make others of the same names, which have other ids."""
    wanted = {one.topic: one for one in topics}
    delete_topics(admin, wanted, timeout_s)
    make_topics(admin, wanted.values(), timeout_s)


def delete_topics(admin: AdminClient, names: Iterable[str], timeout_s: float = 10.0) -> None:
    """Delete topics, and wait until the broker describes them no longer: its metadata follow after it says "deleted".

    Raises:
        KafkaException: the broker refuses one.
        AssertionError: they do not disappear in time.
    """
    names = list(names)
    if not names:
        return
    before = _described(admin, names)
    for future in admin.delete_topics(names).values():
        future.result()

    def gone() -> bool:
        found = _described(admin, names)
        # As text: two Uuid objects are never equal.
        return not any(name in found and str(found[name].topic_id) == str(one.topic_id) for name, one in before.items())

    eventually(gone, timeout_s, f"the end of {', '.join(names)}")


def _described(admin: AdminClient, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """The topics that the broker's metadata have."""
    found: dict[str, TopicDescription] = {}
    for name, future in admin.describe_topics(TopicCollection(list(names))).items():
        error = future.exception()
        _raise_unless(KafkaError.UNKNOWN_TOPIC_OR_PART, error)
        if error is None:
            found[name] = future.result()
    return found


def _raise_unless(expected: int, error: BaseException | None) -> None:
    if error is not None and not (isinstance(error, KafkaException) and error.args[0].code() == expected):
        raise error
