"""`metajournal access` on a running installation: what is typed stands, and nothing of it is found elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.access.keys import parse_key
from metajournal.domains.access.urns import key_urn, principal_urn
from metajournal.schemas.errors import InputError
from tests.installation import Installation

pytestmark = pytest.mark.services


def said(installation: Installation, *words: str, code: int = 0) -> Any:
    """What a command with --json prints."""
    done = installation.metajournal("access", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_is_typed_stands_and_a_key_is_told_once(installation: Installation) -> None:
    assert said(installation, "register", "ada")["outcome"] == "accepted"
    assert said(installation, "grant", "ada", "Developer", "--on", "dataset:sales/*")["outcome"] == "accepted"
    refused = said(installation, "grant", "ada", "developer", "--on", "dataset:team-a*", code=2)
    assert "Use dataset:*" in refused["error"]["message"]
    issued = said(installation, "issue-key", "ada", "--label", "laptop", "--not-after", "2100-01-01")
    key = parse_key(issued["key"])
    assert key is not None
    shown = said(installation, "show", "ada")
    assert shown["grants"] == [{"role": "developer", "pattern": "dataset:sales/*"}]
    assert [(one["id"], one["label"]) for one in shown["keys"]] == [(key.id, "laptop")]
    drawn = [
        installation.metajournal("access", "show", "ada"),
        installation.metajournal("access", "keys", "ada"),
        installation.metajournal("access", "principals"),
        installation.metajournal("show", key_urn("ada", key.id)),
        installation.metajournal("history", key_urn("ada", key.id)),
        installation.metajournal("why", issued["event_id"], "--json"),
        installation.metajournal("access", "revoke-key", "ada", key.id),
    ]
    for done in drawn:
        assert done.returncode == 0, done.stderr
        for text in (done.stdout, done.stderr):
            assert key.hash not in text
            assert key.text not in text
    assert "developer on dataset:sales/*" in drawn[0].stdout
    assert "laptop" in drawn[1].stdout
    assert said(installation, "keys", "ada") == []
    assert installation.metajournal("access", "grant", "ada", "Admin", "--on", "*").returncode == 0
    mistyped = installation.metajournal("access", "grant", "ada", "developper", "--on", "*")
    assert (mistyped.returncode, "unknown-role" in mistyped.stderr) == (2, True)
    assert "Did you mean developer?" in mistyped.stderr
    turned = installation.metajournal("access", "grant", "developer", "ada", "--on", "*")
    assert (turned.returncode, "metajournal access grant ada developer" in turned.stderr) == (2, True)
    [place] = json.loads(drawn[5].stdout)["places"]
    never = "never: entities of this domain are not searchable"
    assert (place["index"]["said"], place["index"]["name"]) == (never, None)
    assert [one["grants"] for one in said(installation, "principals") if one["name"] == "ada"] == [
        [{"role": "admin", "pattern": "*"}, {"role": "developer", "pattern": "dataset:sales/*"}]
    ]
    dead = installation.metajournal("access", "issue-key", "ada", "--not-after", "2020-01-01")
    assert (dead.returncode, "It is refused already: 2020-01-01" in dead.stderr) == (0, True)
    late = said(installation, "issue-key", "nobody", code=1)
    assert (late["reason"], "key" in late) == ("unknown-entity", False)
    told = installation.metajournal("access", "issue-code", "nobody")
    assert told.returncode == 1
    assert "unknown-entity: There is no entity access-principal:nobody." in told.stdout
    assert "\n  next: " in told.stdout


def test_what_stands_of_access_is_published_and_found_nowhere(installation: Installation) -> None:
    with Journal.connect(installation.settings) as journal:
        journal.access.register("hidden-from-search")
        issued = journal.access.issue_key("hidden-from-search", label="hidden-from-search")
        position = issued.receipt.position
        issued.receipt.outcome(60).raise_if_rejected()
        assert journal.search("hidden-from-search", at_least=position, timeout_s=60).total == 0
        assert journal.suggest_names("hidden-from-search") == []
        assert [one.urn for one in journal.states("access", since="earliest", timeout_s=3)] == []
        changes = journal.changes(since="earliest", timeout_s=3)
        assert [one for one in changes if one.urn.startswith("access-")] == []
        assert journal.show(principal_urn("hidden-from-search"), at_least=position).record == {
            "enabled": True, "grants": []
        }  # fmt: skip
        with journal.access.opened() as directory:
            found = directory.who(issued.key.text)
            assert found is not None
            assert found.principal == "hidden-from-search"
        with pytest.raises(InputError, match="no action"):
            journal.access.define_role("mine", ["ReadEntities"])
    verified = installation.metajournal("verify", "--json")
    assert json.loads(verified.stdout)["ok"], verified.stdout
