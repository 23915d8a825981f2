"""One object store for all tests of this folder, and lakes of their own in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

import pytest

from metajournal.stack.jars import ensure_parts
from metajournal.stack.s3proxy import ObjectStore, start_s3proxy

BUCKET = "tests"


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A running S3Proxy with a bucket."""
    running = start_s3proxy(ensure_parts(("s3proxy",)), tmp_path_factory.mktemp("a store, größer"))
    try:
        running.make_bucket(BUCKET)
        yield running
    finally:
        running.server.stop()


@pytest.fixture
def options(store: ObjectStore) -> Mapping[str, str]:
    """What reaches the store."""
    return store.options


@pytest.fixture
def place() -> str:
    """The URL of a lake that no other test has."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:10]}/lake"
