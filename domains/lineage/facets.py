"""What an OpenLineage event says of datasets, of its job and of its run: their facets, and how single ones are read.

Pure; shared by whoever makes entities of events. What becomes of a facet is theirs to say.
Source: OpenLineage specification 2-0-2, facets of datasets, jobs and runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ...schemas.urn import Urn
from ..catalog.naming import without_credentials
from .openlineage import FACET, OTHER_KINDS, NoRunEventError, data_of, is_own, job_of, run_of

SCHEMA: Final = "schema"
DOCUMENTATION: Final = "documentation"
_OF_SIDE: Final = ("inputFacets", "outputFacets")
"""Facets of a dataset as this run read or wrote it."""
_COPY: Final = re.compile(r"[\w.+-]+@([\w.-]+:(?!//)[^@?;\s]*)")
"""An address as `scp` and `git` write it: user, host and path."""
_NEXT: Final = re.compile(r",(?=[a-z][a-z0-9+.-]*://)", re.IGNORECASE)
_SECRET: Final = re.compile(r"@|password|pwd\s*=", re.IGNORECASE)


class Side(StrEnum):
    """What somebody is to an event."""

    DATASET = "dataset"
    INPUT = "input"
    OUTPUT = "output"
    JOB = "job"
    RUN = "run"


class Described(NamedTuple):
    """An entity that an event describes.

    Attributes:
        entity: its URN.
        side: what it is to the event.
        facets: by name, those of the entity itself, without secrets in addresses.
        of_side: name and facet of those of a dataset as this run read or wrote it, the nearest last.
    """

    entity: Urn
    side: Side
    facets: Mapping[str, Any]
    of_side: Sequence[tuple[str, Any]] = ()


def described(event: Mapping[str, Any]) -> Iterator[Described]:
    """The data and the job that an event names; one of our own export describes no job, and data of another kind than
    datasets are passed over (`undescribed`).

    Raises:
        NoRunEventError: a name is missing.
        InvalidUrnError: a name makes no URN.
    """
    for dataset, side in _data(event):
        if not _is_of_other_kind(dataset):
            entity = data_of(_name(dataset, "namespace"), _name(dataset, "name"))
            keys = reversed(_OF_SIDE) if side is Side.INPUT else _OF_SIDE
            of_side = [said for key in keys for said in _facets(dataset, key).items()]
            yield Described(entity, side, _facets(dataset, "facets"), of_side)
    if isinstance(job := event.get("job"), Mapping) and not is_own(event):
        yield Described(job_of(_name(job, "namespace"), _name(job, "name")), Side.JOB, _facets(job, "facets"))


def undescribed(event: Mapping[str, Any]) -> Iterator[tuple[Urn, list[str]]]:
    """Data of another kind than datasets, whose facets become nothing: their URN, and the names of the facets.

    Raises:
        NoRunEventError, InvalidUrnError: as `described`.
    """
    for dataset, _ in _data(event):
        names = [name for key in ("facets", *_OF_SIDE) for name in _facets(dataset, key)]
        if names and _is_of_other_kind(dataset):
            kind = _name(dataset, "namespace").removeprefix(OTHER_KINDS)
            yield Urn.parse(f"{kind}:{_name(dataset, 'name')}"), names


def _data(event: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Side]]:
    """The data of an event, and what each is to it."""
    every = [(event.get("dataset"), Side.DATASET)]
    every += [(one, Side.INPUT) for one in listed(event, "inputs")]
    every += [(one, Side.OUTPUT) for one in listed(event, "outputs")]
    return ((one, side) for one, side in every if isinstance(one, Mapping))


def _is_of_other_kind(dataset: Mapping[str, Any]) -> bool:
    return str(dataset.get("namespace")).startswith(OTHER_KINDS)


def described_run(event: Mapping[str, Any]) -> Described:
    """The run of a run event, without the facet of our own export.

    Raises:
        NoRunEventError, InvalidUrnError: as `openlineage.run_of`.
    """
    facets = {name: facet for name, facet in _facets(event.get("run"), "facets").items() if name != FACET}
    return Described(run_of(event), Side.RUN, facets)


def columns_of(facet: Any) -> Iterator[tuple[str, str, str]]:
    """Name, type and description of each column of a schema facet; of nested ones with those above: `address.city`.

    One at a time: the names of nested columns may be far longer together than the facet.
    """
    yield from _fields(listed(facet, "fields"))


def _fields(fields: Sequence[Any], above: str = "") -> Iterator[tuple[str, str, str]]:
    for field in fields:
        if name := text_of(field, "name"):
            yield f"{above}{name}", text_of(field, "type") or "unknown", text_of(field, "description")
            if "fields" in field:
                yield from _fields(listed(field, "fields"), f"{above}{name}.")


def description_of(facet: Any) -> str | None:
    """The description of a documentation facet; None where it has none."""
    return text_of(facet, "description") or None


def is_removal(facet: Mapping[str, Any]) -> bool:
    """Whether a facet says that it is no more."""
    return facet.get("_deleted") is True


def without_secrets(address: str) -> str:
    """An address, or several, without user, password, query and parameters, which may contain secrets."""
    return ",".join(map(_without_secrets, _NEXT.split(address)))


def _without_secrets(address: str) -> str:
    if copied := _COPY.match(address):
        return copied[1]
    try:
        parts = urlsplit(without_credentials(address.removeprefix("jdbc:")))
    except ValueError:
        return ""
    if not parts.netloc:
        before_query = address.partition("?")[0]
        return "" if _SECRET.search(before_query) else before_query
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _without_secrets_if_address(name: str) -> str:
    return without_secrets(name) if "://" in name or name.startswith("jdbc:") else name


_ADDRESSES: Final[Mapping[str, Mapping[str, Callable[[str], str]]]] = {
    "dataSource": {"name": _without_secrets_if_address, "uri": without_secrets},
    "sourceCodeLocation": {"url": without_secrets, "repoUrl": without_secrets},
    "catalog": {"metadataUri": without_secrets, "warehouseUri": without_secrets},
    "symlinks": {"identifiers.*.namespace": without_credentials},
    "columnLineage": {
        "fields.*.inputFields.*.namespace": without_credentials, "dataset.*.namespace": without_credentials,
    },
}  # fmt: skip
"""Facets with addresses, which may contain secrets: where these stand (`*`: in each), and what removes the secrets."""


def harmless(name: str, facet: Mapping[str, Any]) -> Mapping[str, Any]:
    """A facet without the secrets that its addresses may contain: the journal would keep them for good."""
    for place, clean in _ADDRESSES.get(name, {}).items():
        facet = _cleaned(facet, place.split("."), clean)
    return facet


def _cleaned(value: Any, place: Sequence[str], clean: Callable[[str], str]) -> Any:
    """A value with what stands at a place in it made harmless; what is no text there is no address, and left out."""
    if not place:
        return clean(value) if isinstance(value, str) else None
    step, *rest = place
    if step == "*" and isinstance(value, list):
        return [_cleaned(one, rest, clean) for one in value]
    if not isinstance(value, Mapping):
        return value
    steps = value.keys() if step == "*" else value.keys() & {step}
    return {key: _cleaned(one, rest, clean) if key in steps else one for key, one in value.items()}


def listed(value: Any, name: str) -> Sequence[Any]:
    """A list of an object; an empty one where it is missing, or no list."""
    found = value.get(name) if type(value) is dict or isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def text_of(value: Any, name: str) -> str:
    """A text of an object; an empty one where it is missing, or no text."""
    text = value.get(name) if type(value) is dict or isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _facets(value: Any, name: str) -> Mapping[str, Any]:
    """Facets that are objects, by name, each made harmless."""
    facets = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(facets, Mapping):
        return {}
    said = ((key, facet) for key, facet in facets.items() if type(facet) is dict or isinstance(facet, Mapping))
    return {key: harmless(key, facet) for key, facet in said}


def _name(value: Mapping[str, Any], name: str) -> str:
    """Raises: NoRunEventError: it is missing."""
    text = value.get(name)
    if not isinstance(text, str) or not text:
        raise NoRunEventError(f"{name} is missing or not text.")
    return text
