"""Topics that tests make themselves: they are there when the call returns, as everybody sees the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient, NewTopic

from tests.wait import eventually


def make_topics(admin: AdminClient, topics: Iterable[NewTopic], timeout_s: float = 10.0) -> None:
    """Make topics, and wait until the broker describes them: its metadata follow a moment after it says "made".

    Raises:
        KafkaException: the broker refuses one.
        AssertionError: they do not appear in time.
    """
    wanted = {one.topic: one for one in topics}

    def made() -> bool:
        missing = [wanted[name] for name, found in _ids(admin, wanted).items() if found is None]
        for future in admin.create_topics(missing).values() if missing else ():
            _refused(future.exception(), KafkaError.TOPIC_ALREADY_EXISTS)
        return not missing

    eventually(made, timeout_s, f"topics {', '.join(wanted)}")


def remake_topics(admin: AdminClient, topics: Iterable[NewTopic], timeout_s: float = 10.0) -> None:
    """Delete topics, and make others of the same names, which have other ids."""
    wanted = {one.topic: one for one in topics}
    before = _ids(admin, wanted)
    for future in admin.delete_topics(list(wanted)).values():
        future.result()

    def gone() -> bool:
        found = _ids(admin, wanted)
        return all(found[name] != before[name] for name in wanted)

    eventually(gone, timeout_s, f"the end of {', '.join(wanted)}")
    make_topics(admin, wanted.values(), timeout_s)


def _ids(admin: AdminClient, names: Iterable[str]) -> Mapping[str, Uuid | None]:
    """The ids of the topics, as the broker's metadata have them; None for those that they do not have."""
    found: dict[str, Uuid | None] = {}
    for name, future in admin.describe_topics(TopicCollection(list(names))).items():
        error = future.exception()
        _refused(error, KafkaError.UNKNOWN_TOPIC_OR_PART)
        found[name] = None if error else future.result().topic_id
    return found


def _refused(error: BaseException | None, expected: int) -> None:
    """Raise an error, but for one that was to be expected."""
    if error is not None and not (isinstance(error, KafkaException) and error.args[0].code() == expected):
        raise error
