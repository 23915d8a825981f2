"""What tests of reads share: keys with some grants, and pages followed by their links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metajournal.domains.access.rights import Rights
from metajournal.gateway.principals import Principal
from tests.gateway.serving import Served


def key_of(server: Served, name: str, *grants: tuple[str, str]) -> str:
    """The key of somebody with some roles on what some patterns name."""
    server.principals.by_key[name] = Principal("default", name, name, Rights(grants, {}))
    return name


def pages(server: Served, path: str, **more: Any) -> Iterator[Any]:
    """The JSON of a page, and of those that its links lead to."""
    following: str | None = path
    while following is not None:
        got = server.get(following, **more)
        assert got.status == 200, got.body
        yield got.json
        link = got.headers.get("link")
        following = None if link is None else link.partition(">")[0].removeprefix("<")
        assert link is None or link.endswith('rel="next"')


def refused(server: Served, path: str, key: str | None, **more: Any) -> tuple[int, str]:
    """Status and code of a refusal."""
    got = server.get(path, key=key, **more)
    return got.status, got.json["code"]
