"""URNs of the catalog's kinds, from names of any characters."""

from __future__ import annotations

from ...schemas.urn import Urn, urn


def dataset(namespace: str, name: str) -> Urn:
    """URN of a dataset. Raises: InvalidUrnError."""
    return urn("dataset", namespace, name)


def stream(namespace: str, name: str) -> Urn:
    """URN of a stream. Raises: InvalidUrnError."""
    return urn("stream", namespace, name)


def app(namespace: str, name: str) -> Urn:
    """URN of an application. Raises: InvalidUrnError."""
    return urn("app", namespace, name)


def program(namespace: str, app: str, type: str, name: str) -> Urn:  # noqa: A002  (the domain's word)
    """URN of a program; `type` is flow, mapreduce, spark, service, worker or workflow. Raises: InvalidUrnError."""
    return urn("program", namespace, app, type, name)


def run(namespace: str, app: str, type: str, name: str, run_id: str) -> Urn:  # noqa: A002
    """URN of one run of a program. Raises: InvalidUrnError."""
    return urn("run", namespace, app, type, name, run_id)
