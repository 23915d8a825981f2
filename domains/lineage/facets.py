"""What an OpenLineage event says of datasets, of its job and of its run: their facets, and how single ones are read.

Pure; shared by whoever makes entities of events. What becomes of a facet is theirs to say.
Source: OpenLineage specification 2-0-2, facets of datasets, jobs and runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ...schemas.urn import Urn
from .openlineage import FACET, OTHER_KINDS, NoRunEventError, data_of, is_own, job_of, run_of

SCHEMA: Final = "schema"
DOCUMENTATION: Final = "documentation"
_ADDRESSES: Final[Mapping[str, str]] = {"dataSource": "uri", "sourceCodeLocation": "url"}
"""Facets with an address, which may contain secrets, and the field that it stands in."""
_OF_SIDE: Final = ("inputFacets", "outputFacets")
"""Facets of a dataset as this run read or wrote it."""


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
        facets: by name, those of the entity itself.
        of_side: by name, those of a dataset as this run read or wrote it.
    """

    entity: Urn
    side: Side
    facets: Mapping[str, Any]
    of_side: Mapping[str, Any] = {}


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
            of_side = {name: facet for key in _OF_SIDE for name, facet in _facets(dataset, key).items()}
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


def harmless(name: str, facet: Mapping[str, Any]) -> Mapping[str, Any]:
    """A facet without the secrets that its address may contain: the journal would keep them for good."""
    field = _ADDRESSES.get(name)
    return facet if field is None or field not in facet else {**facet, field: without_secrets(text_of(facet, field))}


def without_secrets(address: str) -> str:
    """An address without user, password and query, which may contain secrets."""
    try:
        parts = urlsplit(address.removeprefix("jdbc:"))
    except ValueError:
        return ""
    if not parts.netloc:
        return "" if "@" in address or "password" in address.lower() else address
    host = parts.netloc.rpartition("@")[2].partition(";")[0]
    return f"{parts.scheme}://{host}{parts.path.partition(';')[0]}"


def listed(value: Any, name: str) -> Sequence[Any]:
    """A list of an object; an empty one where it is missing, or no list."""
    found = value.get(name) if type(value) is dict or isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def text_of(value: Any, name: str) -> str:
    """A text of an object; an empty one where it is missing, or no text."""
    text = value.get(name) if type(value) is dict or isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _facets(value: Any, name: str) -> Mapping[str, Any]:
    """Facets that are objects, by name."""
    facets = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(facets, Mapping):
        return {}
    return {key: facet for key, facet in facets.items() if type(facet) is dict or isinstance(facet, Mapping)}


def _name(value: Mapping[str, Any], name: str) -> str:
    """Raises: NoRunEventError: it is missing."""
    text = value.get(name)
    if not isinstance(text, str) or not text:
        raise NoRunEventError(f"{name} is missing or not text.")
    return text
