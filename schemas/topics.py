"""Names of the Kafka topics: what each is called, and nothing about how it is configured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .errors import InputError
from .registry import changes_of, owner_of_undeclared


class UnknownTopicError(InputError):
    """A name is not a journal topic under this prefix."""

    CODE = "unknown-topic"
    HINT = "Journal topics are named <prefix>.journal.<domain>; check journal.prefix."


DOMAIN_HEADER: Final = "ce_domain"
"""The Kafka header of a change record that says its domain: an extension attribute in the words of CloudEvents."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The topics of one installation.

    Args:
        prefix: first part of every name.
        changes_topic: name of the topic of annotations of scope USER; `<prefix>.changes.<domain>` where None.
    """

    prefix: str = "metajournal"
    changes_topic: str | None = None

    def journal(self, domain: str) -> str:
        """Topic of a domain's events: the truth, never compacted."""
        return f"{self.prefix}.journal.{domain}"

    def changes(self, domain: str) -> str:
        """Topic of a domain's change records; of annotations those of scope USER."""
        if self.changes_topic is not None and domain == owner_of_undeclared():
            return self.changes_topic
        return f"{self.prefix}.changes.{domain}"

    @property
    def annotations(self) -> str:
        """Topic of the change records of annotations of scope USER."""
        return self.changes(owner_of_undeclared())

    @property
    def annotations_system(self) -> str:
        """Topic of the change records of annotations of scope SYSTEM."""
        return f"{self.prefix}.changes.{owner_of_undeclared()}.system"

    def state(self, domain: str) -> str:
        """Compacted topic of a domain's current entity documents."""
        return f"{self.prefix}.state.{domain}"

    def outcomes(self, domain: str) -> str:
        """Topic of the verdicts over a domain's events."""
        return f"{self.prefix}.outcomes.{domain}"

    def published(self, domain: str) -> list[str]:
        """Topics of all change and state records that follow from a domain's journal topic."""
        owner = owner_of_undeclared()
        topics = [self.annotations, self.annotations_system, self.state(domain)]
        return topics + [self.changes(name) for name in changes_of(domain) if name != owner]

    @property
    def schemas(self) -> str:
        """Compacted topic of the schemas that the journal's records were written with."""
        return f"{self.prefix}.schemas"

    @property
    def epochs(self) -> str:
        """Compacted topic of each topic's epoch, id and number of partitions, and of shelved positions."""
        return f"{self.prefix}.epochs"

    @property
    def dlq(self) -> str:
        """Topic of copies of shelved records."""
        return f"{self.prefix}.dlq"

    @property
    def audit(self) -> str:
        """Topic of what the gateway refused, who logged in, who changed rights and, if asked, who read what."""
        return f"{self.prefix}.audit"

    def domain_of(self, journal_topic: str) -> str:
        """Domain of a journal topic.

        Raises:
            UnknownTopicError: the name is no journal topic of this prefix.
        """
        start = f"{self.prefix}.journal."
        domain = journal_topic[len(start) :]
        if not journal_topic.startswith(start) or not domain or "." in domain:
            raise UnknownTopicError(
                f"{journal_topic!r} is not a journal topic under {self.prefix!r}.", topic=journal_topic
            )
        return domain
