"""Which of our own domains every journal has, and which kinds were never anybody else's."""

from __future__ import annotations

from pathlib import Path

from metajournal.schemas.kinds import KINDS
from metajournal.schemas.registry import domains, is_joining, served_domains
from tests.joining.own import version_with_toys
from tests.outside.test_installed import python

RESERVED = frozenset({"repo", "branch", "commit", "object", "chain", "table"})
"""What version 0.1.0 declares without serving it: no record of it was ever accepted in the catalog's topic."""


def test_every_journal_has_the_domains_of_the_first_version_and_no_other() -> None:
    assert [domain.name for domain in domains() if domain.original] == ["catalog", "files", "lineage"]
    assert served_domains() == ("catalog", "files")


def test_a_reserved_kind_stays_reserved_when_its_domain_is_served() -> None:
    """Else an old record of it, shelved as of another topic, would be accepted by every rebuild."""
    owners = {kind.name: domain for domain in domains() for kind in domain.kinds}
    freed = {name for name in RESERVED if owners[name].served and name not in owners[name].reserved}
    assert freed == set()
    assert KINDS.keys() >= RESERVED


def test_a_kind_that_comes_with_a_domain_was_nobodys_before() -> None:
    joined = [domain for domain in domains() if is_joining(domain.name)]
    assert [name for domain in joined for name in domain.reserved if name not in RESERVED] == []


def test_a_domain_that_a_package_brought_is_not_judged_by_our_own_of_that_name(tmp_path: Path) -> None:
    """The journal began it with that package's rules; only those may go on."""
    version_with_toys(tmp_path)
    code = f"""
import json
import metajournal.domains
metajournal.domains.__path__.append({str(tmp_path / "domains")!r})
from metajournal.producers.recorded.served import joined, require_packages
from metajournal.schemas.errors import DomainError
from metajournal.schemas.outside import declaration
def told(package):
    try:
        require_packages([joined(declaration("toys"), package, 2, {{}})])
    except DomainError as error:
        return [error.code, str(error)]
print(json.dumps([told("metajournal"), told("metajournal-toys")]))
"""
    ours, (code_of_other, message) = python(code)
    assert (ours, code_of_other) == (None, "declared-twice")
    assert "serves toys by the package metajournal-toys; metajournal has one of that name too" in message
