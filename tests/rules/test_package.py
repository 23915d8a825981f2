"""The room as a whole: dispatch by domain, the digest, and what the rules may not do."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metajournal.rules
from metajournal.domains.access.urns import key_urn, principal_urn, role_urn
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program, run, stream
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.rules import UNCHANGED, Accepted, At, ForeignRowError, Outcome, Reads, Rejected, apply, load
from metajournal.rules.admission import REASONS
from metajournal.schemas import registry
from metajournal.schemas.domain import Domain
from metajournal.schemas.events import event_types
from metajournal.schemas.registry import served
from tests.builders import NO_DIGEST, header_for
from tests.model import ModelRows
from tests.rules.harness import Catalog

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
    values |= {"repository": repository_urn("r"), "default_branch": "", "storage_namespace": "", "paths": ()}
    values |= {"branch": branch_urn("r", "b"), "destination": branch_urn("r", "b"), "commit": None, "entries": ()}
    values |= {"message": "", "metadata": {}, "strategy": "", "staged": "", "allow_empty": False, "path": None}
    heads = ("expected_head", "source_head", "destination_head", "staging_digest", "prefix")
    values |= dict.fromkeys(heads)
    values |= {"principal": principal_urn("p"), "role": role_urn("r"), "grants": (), "actions": ()}
    values |= {"key": key_urn("p", "0" * 24), "hash": "", "not_after": None, "label": "", "once": False}
    for field in fields(event):
        object.__setattr__(event, field.name, values[field.name])
    header = header_for(EntityRegistered(PURCHASES))._replace(type=event_type)
    assert Catalog().judge(event, header) is not None


def declared(patch: pytest.MonkeyPatch, name: str, event_types: tuple[str, ...], **rules: Any) -> Domain:
    """A domain of no files but its rules."""
    domain, module = Domain(name, name, event_types=event_types), ModuleType(f"{name}.rules")
    vars(module).update(rules)
    patch.setitem(sys.modules, module.__name__, module)
    patch.setitem(sys.modules, name, ModuleType(name))
    patch.setitem(registry._declared, name, domain)
    return domain


def unchanged(*_: Any) -> Outcome:
    return UNCHANGED


def test_a_new_domain_adds_a_folder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file `rules` of the folder of the event's domain holds its rules."""
    load(declared(monkeypatch, "weather", ("weather.RainFell.1",), RULES={"weather.RainFell.1": unchanged}))

    class RainFell:
        TYPE = "weather.RainFell.1"

    header = header_for(EntityRegistered(PURCHASES))
    at = At(1, 1, NO_DIGEST)
    assert apply(header, RainFell(), at, ModelRows({}, "default", "x")) is UNCHANGED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "rules", "wrong"),
    [
        ("storms", {"RULES": {"storms.Came.1": unchanged}}, "storms.Went.1"),
        ("winds", {"RULES": {f"winds.{one}.1": unchanged for one in ("Came", "Went", "Blew")}}, "winds.Blew.1"),
        (
            "tides",
            {"RULES": {f"tides.{one}.1": unchanged for one in ("Came", "Went")}, "READS": {"tides.Rose.1": unchanged}},
            "tides.Rose.1",
        ),
    ],
)
def test_an_event_type_without_a_rule_is_an_error_when_the_rules_are_loaded(
    monkeypatch: pytest.MonkeyPatch, name: str, rules: dict[str, Any], wrong: str
) -> None:
    """So is a rule of a type that is not declared: neither is left to the first such event."""
    domain = declared(monkeypatch, name, (f"{name}.Came.1", f"{name}.Went.1"), **rules)
    with pytest.raises(TypeError, match=rf"these differ: {wrong}\."):
        load(domain)


@pytest.mark.thorough
@pytest.mark.parametrize("domain", served(), ids=lambda domain: domain.name)
def test_the_fold_cannot_be_loaded_while_a_type_has_no_rule(domain: Domain) -> None:
    """One type of each domain is taken away, in a process of its own."""
    code = f"""
from metajournal.domains.{domain.name} import rules
del rules.RULES[{domain.event_types[-1]!r}]
import metajournal.fold.judging
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "TypeError" in done.stderr
    assert domain.event_types[-1] in done.stderr


def reasons_given(path: Path) -> set[str]:
    """The reasons of every rejection that a file makes."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    given = [node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "Rejected"]
    assert all(isinstance(one, ast.Constant) for one in given), path
    return {one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_admission_gives_its_own_reasons_and_no_others() -> None:
    assert reasons_given(FOLDER / "admission.py") == set(REASONS)


@pytest.mark.parametrize("domain", served(), ids=lambda domain: domain.name)
def test_rules_give_the_reasons_that_their_domain_declares_and_no_others(domain: Domain) -> None:
    given = reasons_given(FOLDER.parent / "domains" / domain.name / "rules.py")
    assert given - set(REASONS) == set(domain.reasons)


def test_the_model_reads_no_row_outside_the_aggregate() -> None:
    """'the row reader raises on any other', which is how a rule that reads too far would show."""
    history = app("default", "A")
    rows = ModelRows({}, "default", history, Reads(members=("program",)))
    assert rows.entity(program("default", "A", "flow", "F")) is None
    assert rows.members(history, ["program"]) == []
    with pytest.raises(ForeignRowError):
        rows.entity(PURCHASES)
    with pytest.raises(ForeignRowError):
        rows.members(app("default", "B"), ["program"])
    with pytest.raises(ForeignRowError):
        rows.members(history, ["run"])


ALLOWED = {
    "__future__",
    "collections",
    "dataclasses",
    "functools",
    "hashlib",
    "importlib",
    "itertools",
    "json",
    "operator",
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
