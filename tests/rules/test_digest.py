"""A domain's digest covers what decides its verdicts and rows, and nothing of another domain or of the machine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest

import metajournal.rules
from metajournal.rules import digest as digest_module
from metajournal.rules.digest import (
    digest_of,
    digests_from,
    digests_of_topics,
    digests_text,
    rules_digest,
    served_digests,
)
from metajournal.schemas import registry
from metajournal.schemas.domain import Domain
from metajournal.schemas.registry import served, served_domains

PURE = ("columns/judging", "domain", "events", "rows", "rules", "urns")
"""Files of a domain that decide verdicts and rows."""
ROOT = Path(metajournal.rules.__file__).parents[1]


def test_the_digest_covers_names_and_texts_and_no_line_ends() -> None:
    sources = [("rules/a.py", b"x = 1\n"), ("rules/b.py", b"y = 2\n")]
    digest = rules_digest(sources)
    assert digest == rules_digest(sources[::-1])
    assert digest == rules_digest([("rules/a.py", b"x = 1\r\n"), ("rules/b.py", b"y = 2\r\n")])
    spelled_out = b"rules/a.py\x006\x00x = 1\nrules/b.py\x006\x00y = 2\n"
    assert digest == blake2b(spelled_out, digest_size=32).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        [("rules/a.py", b"x = 1\n")],
        [("rules/a.py", b"x = 2\n"), ("rules/b.py", b"y = 2\n")],
        [("rules/a.py", b"x = 1\n"), ("rules/c.py", b"y = 2\n")],
        [("rules/a.py", b"x = 1\ny = 2\n"), ("rules/b.py", b"")],
    ],
)
def test_the_digest_tells_other_sources(other: list[tuple[str, bytes]]) -> None:
    assert rules_digest(other) != rules_digest([("rules/a.py", b"x = 1\n"), ("rules/b.py", b"y = 2\n")])


@pytest.mark.parametrize("domain", served(), ids=lambda domain: domain.name)
def test_the_digest_is_taken_of_the_installed_sources(domain: Domain) -> None:
    """Every module of rules, of the events, the judging parts of schemas, and pure files of the domain and imports."""
    names = [f"rules/{path.name}" for path in (ROOT / "rules").glob("*.py")]
    names += [f"schemas/events/{path.name}" for path in (ROOT / "schemas" / "events").glob("*.py")]
    judging = ("domain", "hashing", "header", "kinds", "limits", "registry", "urn")
    names += [f"schemas/{name}.py" for name in judging]
    pure = [ROOT / "domains" / one / f"{name}.py" for one in (domain.name, *domain.imports) for name in PURE]
    names += [str(path.relative_to(ROOT)) for path in pure if path.exists()]
    assert {f"domains/{domain.name}/{name}.py" for name in ("domain", "events", "rules")} <= {*names}
    assert rules_digest((name, (ROOT / name).read_bytes()) for name in names) == digest_of(domain.name)


DECLARATION = """
from metajournal.schemas.domain import Domain
DOMAIN = Domain({name!r}, __package__, imports={imports!r})
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package outside of the tree with four domains, of which rains imports clouds, and floods imports rains."""
    package = tmp_path / "meteorology"
    for name, imports in {"clouds": (), "rains": ("clouds",), "floods": ("rains",), "winds": ()}.items():
        folder = package / name
        (folder / "columns").mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "domain.py").write_text(DECLARATION.format(name=name, imports=imports))
        (folder / "rules.py").write_text("RULES = {}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for path in package.iterdir():
        module = importlib.import_module(f"meteorology.{path.name}.domain")
        monkeypatch.setitem(registry._declared, path.name, module.DOMAIN)
    digest_of.cache_clear()
    yield package
    digest_of.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        del sys.modules[name]


def digests(names: tuple[str, ...]) -> dict[str, str]:
    digest_of.cache_clear()
    return {name: digest_of(name) for name in names}


@pytest.mark.parametrize("file", ["rules.py", "columns/judging.py", "domain.py", "events.py", "rows.py", "urns.py"])
def test_a_changed_file_changes_the_digest_of_its_domain_and_of_those_that_import_it(
    elsewhere: Path, file: str
) -> None:
    """Of domains from outside of the package too, and through one that imports it."""
    names = ("clouds", "rains", "floods", "winds", "catalog", "files")
    before = digests(names)
    assert len({*before.values()}) == len(names)
    with (elsewhere / "clouds" / file).open("a") as text:
        text.write("SKY = 'grey'\n")
    assert {name for name, digest in digests(names).items() if digest != before[name]} == {"clouds", "rains", "floods"}
    (elsewhere / "clouds" / "queries.py").write_text("")
    after = digests(names)
    (elsewhere / "clouds" / "queries.py").write_text("SKY = 'blue'\n")
    assert digests(names) == after


def test_the_rules_package_and_the_language_belong_to_every_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    before = served_digests()
    monkeypatch.setattr(digest_module, "_JUDGING_SCHEMAS", digest_module._JUDGING_SCHEMAS[1:])
    digest_of.cache_clear()
    after = served_digests()
    digest_of.cache_clear()
    assert all(before[name] != after[name] for name in before)


def test_an_import_of_a_domain_that_is_not_declared_is_said(monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> None:
    monkeypatch.delitem(registry._declared, "clouds")
    with pytest.raises(LookupError, match="the domain 'clouds', which the rules of 'floods' need, is not declared"):
        digest_of("floods")


def of_originals() -> dict[str, str]:
    """The digests of the domains that the first version served."""
    return {domain.name: digest_of(domain.name) for domain in served() if domain.original}


def test_a_topic_has_the_rules_of_all_domains_whose_events_stand_in_it() -> None:
    assert set(digests_of_topics(["catalog"])) == {"catalog", "lineage"}
    assert set(digests_of_topics(["files"])) == {"catalog", "files"}
    assert digests_of_topics(served_domains()) == of_originals()
    assert set(digests_of_topics(["repositories"])) == {"catalog", "repositories"}
    assert digests_of_topics(domain.name for domain in served() if domain.journal is None) == served_digests()


def test_a_tables_log_tells_them_by_domain_and_that_of_the_first_version_is_of_every_domain() -> None:
    every = served_digests()
    assert digests_from(digests_text(every)) == every
    assert digests_text({"files": "b", "catalog": "a"}) == "catalog=a files=b"
    assert digests_from("0" * 64) == dict.fromkeys(of_originals(), "0" * 64)
