"""The room as a whole: dispatch by domain, the digest, and what the rules may not do."""

from __future__ import annotations

import ast
import sys
from dataclasses import FrozenInstanceError, fields
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metajournal.rules
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program, run, stream
from metajournal.rules import UNCHANGED, Accepted, At, ForeignRowError, Outcome, Rejected, apply
from metajournal.rules.digest import RULES_DIGEST, rules_digest
from metajournal.schemas import registry
from metajournal.schemas.domain import Domain
from metajournal.schemas.events import event_types
from metajournal.schemas.registry import served
from tests.builders import header_for
from tests.model import ModelRows
from tests.rules.harness import Catalog

PURE = ("domain", "events", "rows", "rules")
"""Files of a domain that decide verdicts and rows."""
FOLDER = Path(metajournal.rules.__file__).parent
PURCHASES = dataset("default", "purchases")
RUN = run("default", "A", "flow", "F", "1")


@pytest.mark.parametrize("event_type", sorted(event_types()))
def test_every_event_type_that_decodes_has_a_rule(event_type: str) -> None:
    """An event of no content is judged, never an error."""
    event = object.__new__(event_types()[event_type])
    values: dict[str, Any] = {"properties": {}, "tags": (), "keys": (), "all": True, "scope": "USER"}
    values |= {"entity": PURCHASES, "description": None, "schema": None}
    values |= {"files": (), "run": RUN, "accesses": (), "at": 0, "status": ""}
    values |= {"stream": stream("default", "s"), "source": ""}
    for field in fields(event):
        object.__setattr__(event, field.name, values[field.name])
    header = header_for(EntityRegistered(PURCHASES))._replace(type=event_type)
    assert Catalog().judge(event, header) is not None


def test_a_new_domain_adds_a_folder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file `rules` of the folder of the event's domain holds its rules."""
    rules = ModuleType("weather.rules")
    rules.apply = lambda header, event, at, rows: UNCHANGED  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, rules.__name__, rules)
    monkeypatch.setitem(sys.modules, "weather", ModuleType("weather"))
    monkeypatch.setitem(registry._declared, "weather", Domain("weather", "weather"))

    class RainFell:
        TYPE = "weather.RainFell.1"

    header = header_for(EntityRegistered(PURCHASES))
    assert apply(header, RainFell(), At(1, 1), ModelRows({}, "default", "x")) is UNCHANGED  # type: ignore[arg-type]


def test_the_model_reads_no_row_outside_the_aggregate() -> None:
    """'the row reader raises on any other', which is how a rule that reads too far would show."""
    history = app("default", "A")
    rows = ModelRows({}, "default", history)
    assert rows.entity(program("default", "A", "flow", "F")) is None
    assert rows.programs(history) == []
    with pytest.raises(ForeignRowError):
        rows.entity(PURCHASES)
    with pytest.raises(ForeignRowError):
        rows.programs(app("default", "B"))


def test_the_digest_covers_every_rule_and_nothing_of_the_machine() -> None:
    assert len(RULES_DIGEST) == 64
    assert int(RULES_DIGEST, 16)
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


def test_the_digest_is_taken_of_the_installed_sources() -> None:
    """Every module of rules, of the events, and the judging parts of schemas."""
    root = FOLDER.parent
    names = [f"rules/{path.name}" for path in FOLDER.glob("*.py")]
    names += [f"schemas/events/{path.name}" for path in (root / "schemas" / "events").glob("*.py")]
    judging = ("domain", "hashing", "header", "kinds", "limits", "registry", "urn")
    names += [f"schemas/{name}.py" for name in judging]
    pure = [root / "domains" / domain.name / f"{name}.py" for domain in served() for name in PURE]
    names += [str(path.relative_to(root)) for path in pure if path.exists()]
    assert len(names) >= 25
    assert rules_digest((name, (root / name).read_bytes()) for name in names) == RULES_DIGEST


ALLOWED = {
    "__future__",
    "collections",
    "dataclasses",
    "functools",
    "hashlib",
    "importlib",
    "itertools",
    "json",
    "typing",
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_rules_import_nothing_that_reads_the_world(path: Path) -> None:
    """'Pure and deterministic': no clock, no randomness, no service; and of the rooms, `schemas` only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            columns = path.name.endswith("_columns.py") and [one.name for one in node.names] == ["numpy"]
            assert columns, f"{path.name} imports {node.names[0].name} whole"
        assert not (isinstance(node, ast.Attribute) and node.attr == "random")
        if isinstance(node, ast.ImportFrom):
            room = (node.module or "").split(".")[0]
            assert room == "schemas" if node.level == 2 else node.level == 1 or room in ALLOWED


def test_tags_given_twice_are_one() -> None:
    catalog = Catalog()
    catalog.row(EntityRegistered(PURCHASES))
    assert catalog.row(TagsAdded(PURCHASES, ["a", "a"])).user_tags == ("a",)


@pytest.mark.parametrize("outcome", [Accepted(()), UNCHANGED, Rejected("invalid", [])])
def test_an_outcome_is_a_value(outcome: Outcome) -> None:
    """Nobody can change it or write to it: many records share the one UNCHANGED."""
    assert not hasattr(outcome, "__dict__")
    for name in (*outcome.__slots__, "note"):
        with pytest.raises((FrozenInstanceError, TypeError)):  # slots and frozen: TypeError for a new name
            setattr(outcome, name, None)
    assert hash(Accepted(())) == hash(Accepted(()))
    assert {UNCHANGED, type(UNCHANGED)()} == {UNCHANGED}
