"""The contracts keep the architecture's rules, and the event classes keep to the contracts."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.resources import files
from typing import Any

import pytest

from metajournal.schemas.encoding.avro import named_types
from metajournal.schemas.encoding.decoders import compile_reader
from metajournal.schemas.encoding.encoders import compile_encoder
from metajournal.schemas.encoding.evolution import full_transitive_faults
from metajournal.schemas.encoding.known import (
    all_contracts,
    contracts_by_fingerprint,
    current_contracts,
    header_schema,
    read_contract,
)
from metajournal.schemas.events import event_types
from metajournal.schemas.header import Header, Unit
from metajournal.schemas.registry import served

PUBLISHED = {
    "access.KeyIssued.1": ["15f2abcb63f60133"],
    "access.KeyRevoked.1": ["47f82a6acfb3c944"],
    "access.PrincipalDisabled.1": ["f5d31ebf99ef02a9"],
    "access.PrincipalRegistered.1": ["de2443916c73cee1"],
    "access.RoleDefined.1": ["1716ba2482fc1261"],
    "access.RoleDeleted.1": ["f7e9fcef2c24f726"],
    "access.RolesGranted.1": ["884bc2020656f6e5"],
    "access.RolesRevoked.1": ["0ec8159f1abd28c1"],
    "catalog.EntityDeleted.1": ["9a91b9fdc5803ec7"],
    "catalog.EntityRegistered.1": ["751e7e08dd9355ca"],
    "catalog.MetadataCleared.1": ["6e2e24c0eb3a2e22"],
    "catalog.PropertiesReplaced.1": ["58cad4f902250ed5"],
    "catalog.PropertiesRemoved.1": ["da1764f236f06d4f"],
    "catalog.PropertiesSet.1": ["deb154c0364270aa"],
    "catalog.TagsAdded.1": ["ed27aecd7c5593af"],
    "catalog.TagsRemoved.1": ["2e7e5273917327ec"],
    "lineage.AccessesRecorded.1": ["dad3030af5bfc5d7"],
    "lineage.ExternalWrite.1": ["e8fce0f07fe487b2"],
    "lineage.RunStarted.1": ["5a8b888657f91818"],
    "lineage.RunStopped.1": ["889bd020165908a7"],
    "files.FilesRecorded.1": ["d0b22c3546c28fa3"],
    "repositories.BranchCreated.1": ["4bcb6f052696aa81"],
    "repositories.BranchDeleted.1": ["0fa81bdfffe85397"],
    "repositories.BranchReset.1": ["75c300d269c49466"],
    "repositories.BranchReverted.1": ["f111d163d5777d55"],
    "repositories.Committed.1": ["dbe2a1558641779d"],
    "repositories.Merged.1": ["89cdaeac8066c473"],
    "repositories.ObjectsDeleted.1": ["1d30070b87fe2f95"],
    "repositories.ObjectsRegistered.1": ["b01a3e815ed05852"],
    "repositories.ObjectsUnregistered.1": ["f590fdf31fa27f5d"],
    "repositories.ObjectsWritten.1": ["6844b7c60600102f"],
    "repositories.RepositoryCreated.1": ["058e76ea86cf7c04"],
    "repositories.RepositoryDeleted.1": ["77b987a40a5e59cb"],
}
"""Fingerprints of every schema that ever stood in a journal: lines are added here, never removed or changed."""

contracts = pytest.mark.parametrize("contract", all_contracts(), ids=lambda contract: contract.event_type)


@pytest.mark.parametrize("event_type", sorted({contract.event_type for contract in all_contracts()}))
def test_all_versions_read_each_other(event_type: str) -> None:
    """FULL_TRANSITIVE over every known version; a version that differs must also be decodable by generated code."""
    versions = [contract for contract in all_contracts() if contract.event_type == event_type]
    assert full_transitive_faults([contract.schema for contract in versions]) == []
    for writer in versions:
        compile_reader(writer.schema, current_contracts()[event_type].schema)


def test_every_published_schema_is_still_known() -> None:
    known = {f"{number:016x}": contract.event_type for number, contract in contracts_by_fingerprint().items()}
    assert known == {number: event_type for event_type, numbers in PUBLISHED.items() for number in numbers}


@contracts
def test_the_header_stands_first(contract: Any) -> None:
    first = contract.schema["fields"][0]
    assert first["name"] == "header"
    assert first["type"] == header_schema()


@contracts
def test_ids_are_fixed_and_unions_are_nullable(contract: Any) -> None:
    assert named_types(contract.schema)["metajournal.v1.Id"] == {
        "type": "fixed",
        "name": "metajournal.v1.Id",
        "size": 16,
    }
    for union in _unions(contract.schema):
        assert len(union) == 2
        assert union[0] == "null"
    compile_encoder(contract.schema)


def _unions(schema: Any) -> list[list[Any]]:
    if isinstance(schema, list):
        return [schema] + [union for branch in schema for union in _unions(branch)]
    if not isinstance(schema, dict):
        return []
    below = [field["type"] for field in schema.get("fields", ())] + [schema.get("items"), schema.get("values")]
    return [union for inner in below for union in _unions(inner)]


def test_every_event_class_has_its_contract_and_the_reverse() -> None:
    assert set(event_types()) == set(current_contracts())


@pytest.mark.parametrize("event_type", sorted(event_types()))
def test_event_classes_are_in_step_with_their_contracts(event_type: str) -> None:
    wire = [field["name"] for field in current_contracts()[event_type].schema["fields"][1:]]
    mine = [field.name for field in fields(event_types()[event_type])]
    if "schema" in mine:  # on the wire two nullable fields, because contracts have no other union
        mine[mine.index("schema") : mine.index("schema") + 1] = ["schema_text", "schema_fields"]
    assert mine == wire


@pytest.mark.parametrize("event_type", sorted(event_types()))
def test_scopes_are_the_contracts_symbols(event_type: str) -> None:
    types = named_types(current_contracts()[event_type].schema)
    symbols = [
        definition["symbols"]
        for name, definition in types.items()
        if name.startswith("metajournal.catalog.") and definition["type"] == "enum"
    ]
    expected = {"catalog.MetadataCleared.1": [["USER", "SYSTEM", "BOTH"]]}.get(event_type, [["USER", "SYSTEM"]])
    assert symbols == (expected if "scope" in {field.name for field in fields(event_types()[event_type])} else [])


def test_header_and_unit_are_in_step_with_the_contract() -> None:
    assert list(Header._fields) == [field["name"] for field in header_schema()["fields"]]
    unit = named_types(header_schema())["metajournal.v1.Unit"]
    assert [field.name for field in fields(Unit)] == [field["name"] for field in unit["fields"]]


@contracts
def test_the_published_text_stands_by_itself(contract: Any) -> None:
    event_type = contract.event_type
    assert read_contract(contract.text, event_type, contract.revision, {}) == contract


def test_contracts_are_package_data() -> None:
    folder = files("metajournal.schemas") / "contracts"
    assert json.loads((folder / "header.avsc").read_text("utf-8"))["name"] == "Header"
    texts = [file for domain in served() for file in (files(domain.package) / "contracts").iterdir()]
    assert len([file for file in texts if file.name.endswith(".avsc")]) == len(all_contracts())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type":"record","name":"metajournal.catalog.v1.Other","fields":[]}', "is named"),
        (
            '{"type":"record","name":"metajournal.catalog.v1.X","fields":[{"name":"a","type":'
            '{"type":"fixed","name":"F","size":1}}]}',
            "does not begin with the header",
        ),
    ],
)
def test_contracts_that_break_the_rules_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_contract(text, "catalog.X.1", None, {})
