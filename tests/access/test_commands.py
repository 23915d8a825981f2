"""`metajournal access` on a running installation: what is typed stands, and nothing of it is found elsewhere."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from metajournal import Journal, dataset
from metajournal.domains.access.keys import parse_key
from metajournal.domains.access.urns import key_urn, principal_urn
from metajournal.schemas.errors import InputError
from metajournal.stack.home import gateway_address
from tests.gateway.serving import Asked
from tests.installation import Installation
from tests.wait import eventually

pytestmark = pytest.mark.services
WITHOUT_INDEX = ("--set", "elasticsearch.url=http://127.0.0.1:1")
"""Nothing answers there."""
ME = "/api/v1/access/me"


def said(installation: Installation, *words: str, code: int = 0, before: Sequence[str] = ()) -> Any:
    """What a command with --json prints; `before` stands before its name."""
    done = installation.metajournal(*before, "access", *words, "--json")
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
    nobody = installation.metajournal("access", "keys", "nobody")
    assert (nobody.returncode, "access-principal:nobody" in nobody.stderr) == (1, True)
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
    assert "unknown-entity: There is no principal 'nobody'.\n  next: " in told.stdout
    assert "`metajournal access register nobody`" in told.stdout
    for words in (("grant", "adda", "developer", "--on", "*"), ("issue-key", "adda"), ("issue-code", "adda")):
        refused = installation.metajournal("access", *words)
        assert refused.returncode == 1
        assert "There is no principal 'adda'. Did you mean ada?\n  next: " in refused.stdout
        assert "access-principal:" not in refused.stdout


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


def test_roles_that_are_typed_allow_what_they_say_until_they_are_deleted(installation: Installation) -> None:
    """The commands need no index; what they did is then asked of Kafka and the lake alone."""

    def typed(*words: str, code: int = 0) -> Any:
        return said(installation, *words, code=code, before=WITHOUT_INDEX)

    entity, elsewhere = dataset("grown", "x"), dataset("other", "x")
    assert typed("register", "grace")["outcome"] == "accepted"
    key = typed("issue-key", "grace")["key"]
    assert typed("define-role", "grower", "ReadEntity", "WriteEntity")["outcome"] == "accepted"
    assert typed("grant", "grace", "grower", "--on", "dataset:grown/*", "--on", "dataset:other/*")["ok"]
    assert [(one["actions"], one["constant"]) for one in typed("roles") if one["name"] == "grower"] == [
        (["ReadEntity", "WriteEntity"], False)
    ]
    with Journal.connect(installation.settings) as journal, journal.access.opened() as directory:

        def allowed() -> list[bool]:
            """Whether the key's holder may read and write, and read elsewhere."""
            directory.wait(60)
            who = directory.who(key)
            assert who is not None
            asked = (("Read", entity), ("Write", entity), ("Read", elsewhere))
            return [who.rights.may(verb, urn) for verb, urn in asked]

        assert allowed() == [True, True, True]
        assert typed("define-role", "grower", "ReadEntity")["outcome"] == "accepted"
        assert allowed() == [True, False, True]
        assert typed("revoke", "grace", "grower", "--on", "dataset:other/*")["outcome"] == "accepted"
        assert allowed() == [True, False, False]
        assert typed("delete-role", "grower")["outcome"] == "accepted"
        assert allowed() == [False, False, False]
        again = typed("define-role", "grower", "ReadEntity", code=1)
        assert (again["outcome"], again["reason"]) == ("rejected", "retired")
        assert allowed() == [False, False, False]
        assert typed("show", "grace")["grants"] == [{"role": "grower", "pattern": "dataset:grown/*"}]
        assert typed("revoke", "grace", "--all")["outcome"] == "accepted"
        assert typed("show", "grace")["grants"] == []
    assert "grower" not in [one["name"] for one in typed("roles")]
    assert typed("define-role", "admin", "ReadEntity", code=1)["reason"] == "protected"
    assert typed("define-role", "other", "ReadEntities", code=2)["error"]["code"] == "unknown-action"
    assert typed("grant", "grace", "grower", "--on", "*", code=2)["error"]["code"] == "unknown-role"
    assert "error" in typed("revoke", "grace", "grower", code=2)


def test_keys_that_are_revoked_or_whose_principal_is_disabled_are_refused(installation: Installation) -> None:
    """By whoever follows the journal, the running gateway too; and for good, though its principal is enabled again."""

    def typed(*words: str, code: int = 0) -> Any:
        return said(installation, *words, code=code, before=WITHOUT_INDEX)

    address = gateway_address(installation.folder)
    assert address is not None
    gateway = Asked(address.partition("//")[2])
    assert typed("register", "hal")["ok"]
    assert typed("grant", "hal", "analyst", "--on", "*")["ok"]
    first, second = (typed("issue-key", "hal") for _ in range(2))
    with Journal.connect(installation.settings) as journal, journal.access.opened() as directory:

        def good() -> list[bool]:
            """Which of the two keys are taken."""
            directory.wait(60)
            taken = [directory.who(one["key"]) is not None for one in (first, second)]
            eventually(
                lambda: (
                    [gateway.get(ME, key=one["key"]).status for one in (first, second)]
                    == [200 if one else 401 for one in taken]
                )
            )
            return taken

        assert good() == [True, True]
        assert typed("revoke-key", "hal", first["id"])["outcome"] == "accepted"
        assert good() == [False, True]
        assert typed("disable", "hal")["outcome"] == "accepted"
        assert good() == [False, False]
        shown = typed("show", "hal")
        assert (shown["enabled"], shown["keys"]) == (False, [])
        assert typed("issue-key", "hal", code=1)["reason"] == "disabled"
        assert typed("register", "hal")["outcome"] == "accepted"
        assert good() == [False, False]
        shown = typed("show", "hal")
        assert (shown["enabled"], shown["grants"]) == (True, [{"role": "analyst", "pattern": "*"}])
    assert typed("disable", "nobody", code=1)["reason"] == "unknown-entity"
    assert typed("revoke-key", "hal", "laptop", code=2)["error"]["message"].startswith("The id of a key must be")


@pytest.mark.skipif(sys.platform != "linux", reason="arguments of processes are read in /proc")
def test_no_key_stands_in_an_argument_of_a_process(installation: Installation) -> None:
    """A command makes a key and prints it, and is never given one where every user can read it."""
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    seen.add((process / "cmdline").read_bytes())
            done.wait(0.02)

    watching = threading.Thread(target=look)
    watching.start()
    try:
        issued = [said(installation, "issue-key", "admin")["key"], said(installation, "issue-code", "admin")["code"]]
    finally:
        done.set()
        watching.join()
    for command in (b"issue-key", b"issue-code"):
        assert [line for line in seen if command in line]
    for text in (*issued, *re.findall(r"mjk_\w+", installation.printed_by_up.read_text())):
        assert [line for line in seen if text.split("_")[2].encode() in line] == []
