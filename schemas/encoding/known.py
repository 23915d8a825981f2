"""The contracts that this package knows: every version of every event's schema there has been.

`schemas/contracts/header.avsc` and `contracts/<Name>.v<version>.avsc` of each domain are what producers write now. When
one changes (compatibly: see `evolution`), its former text stays, complete with the header of then, as
`<Name>.v<version>.r<revision>.avsc`, so that every record ever written decodes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from ..domain import Domain
from ..registry import for_each_domain, served, taken_in
from .avro import canonical, expand, fingerprint

HEADER_NAME: Final = "metajournal.v1.Header"
_FILE: Final = re.compile(r"(?P<name>\w+)\.v(?P<version>\d+)(?:\.r(?P<revision>\d+))?\.avsc")


@dataclass(frozen=True, slots=True)
class Contract:
    """One version of one event's schema."""

    event_type: str
    """`catalog.PropertiesSet.1`"""
    name: str
    """Avro full name, `metajournal.catalog.v1.PropertiesSet`."""
    revision: int | None
    """None: what producers write now; else the number of a former text."""
    schema: Any
    """Expanded schema."""
    fingerprint: int
    """CRC-64-AVRO, unsigned."""

    @property
    def canonical(self) -> str:
        """Parsing canonical form."""
        return canonical(self.schema)

    @property
    def text(self) -> str:
        """The schema as JSON, self-contained, with docs and defaults; what producers publish."""
        return json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))


def read_contract(text: str, event_type: str, revision: int | None, definitions: dict[str, Any]) -> Contract:
    """A contract from the text of its file.

    Raises:
        ValueError: the text does not begin with the header, or its name is not that of its event type.
    """
    schema = expand(json.loads(text), definitions)
    domain, name, version = event_type.split(".")
    if schema["name"] != f"metajournal.{domain}.v{version}.{name}":
        raise ValueError(f"the contract of {event_type} is named {schema['name']}")
    first = schema["fields"][0]
    if first["name"] != "header" or first["type"]["name"] != HEADER_NAME:
        raise ValueError(f"the contract of {event_type} does not begin with the header")
    return Contract(event_type, schema["name"], revision, schema, fingerprint(schema))


@cache
def header_schema() -> Any:
    """Expanded schema of the header."""
    return expand(json.loads((_folder() / "header.avsc").read_text("utf-8")))


@cache
def all_contracts() -> tuple[Contract, ...]:
    """Every known version, current and former, in the order of their file names; of the domains from outside those
    that a journal of this process serves."""
    ours = served()
    names = {domain.name for domain in ours}
    brought = [domain for domain in taken_in() if domain.package and domain.name not in names]
    return tuple(contract for domain in (*ours, *brought) for contract in contracts_of(domain))


def contracts_of(domain: Domain) -> list[Contract]:
    """Every version of the events of one domain, in the order of their file names."""
    raw_header = json.loads((_folder() / "header.avsc").read_text("utf-8"))
    folder = files(domain.package) / "contracts"
    if not folder.is_dir():
        return []
    return [_read(domain.name, file, {HEADER_NAME: raw_header}) for file in _sorted_files(folder)]


def _folder() -> Traversable:
    return files(__package__.rpartition(".")[0]) / "contracts"


def _sorted_files(folder: Traversable) -> list[Traversable]:
    return sorted((file for file in folder.iterdir() if file.name.endswith(".avsc")), key=lambda file: file.name)


def _read(domain: str, file: Traversable, definitions: dict[str, Any]) -> Contract:
    match = _FILE.fullmatch(file.name)
    if match is None:
        raise ValueError(f"{file.name} is not named <Name>.v<version>[.r<revision>].avsc")
    former = match["revision"]
    event_type = f"{domain}.{match['name']}.{match['version']}"
    if former is None:
        return read_contract(file.read_text("utf-8"), event_type, None, definitions)
    return read_contract(file.read_text("utf-8"), event_type, int(former), {})


@cache
def current_contracts() -> dict[str, Contract]:
    """What producers write now, by event type."""
    return {contract.event_type: contract for contract in all_contracts() if contract.revision is None}


@cache
def contracts_by_fingerprint() -> dict[int, Contract]:
    """Every known version by its fingerprint; of two with the same canonical form the current one."""
    former_first = sorted(all_contracts(), key=lambda one: one.revision is None)
    return {one.fingerprint: one for one in former_first}


def _forget(_: Domain) -> None:
    """What is known by now was asked before a domain from outside came."""
    for kept in (all_contracts, current_contracts, contracts_by_fingerprint):
        kept.cache_clear()


for_each_domain(_forget)
