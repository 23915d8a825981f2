"""Builders and Hypothesis strategies for headers and the catalog's events."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from metajournal import (
    AccessesRecorded,
    EntityDeleted,
    EntityRegistered,
    ExternalWrite,
    FilesRecorded,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    RunStarted,
    RunStopped,
    TagsAdded,
    TagsRemoved,
    Urn,
    dataset,
    program,
    run,
    stream,
    urn,
)
from metajournal.domains.lineage.events import LATEST_AT_MS
from metajournal.schemas.header import Header, Unit
from tests.archive import a_file

PURCHASES = dataset("default", "purchases")


def a_header(event: Any, **changes: Any) -> Header:
    header = Header(b"\x01" * 16, "default", event.TYPE, event.aggregate, event.entities, "alice", 1_700_000_000_000)
    return header._replace(**changes)


def texts(**limits: int) -> st.SearchStrategy[str]:
    """Any text that UTF-8 carries."""
    return st.text(st.characters(exclude_categories=["Cs"]), **limits)


names = texts(min_size=1, max_size=12)
keys = texts(min_size=1, max_size=20)
scopes = st.sampled_from(["USER", "SYSTEM"])
ids = st.binary(min_size=16, max_size=16)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(0, 2**31 - 1)
custom_kinds = st.from_regex(r"x[a-z0-9-]{0,8}", fullmatch=True)

urns: st.SearchStrategy[Urn] = st.one_of(
    st.builds(dataset, names, names),
    st.builds(program, names, names, st.sampled_from(["flow", "spark"]), names),
    st.builds(lambda kind, parts: urn(kind, *parts), custom_kinds, st.lists(names, min_size=1, max_size=4)),
)
properties = st.dictionaries(keys, texts(max_size=40), min_size=1, max_size=6)
tags = st.lists(keys, min_size=1, max_size=6)
schemas = st.one_of(st.none(), texts(max_size=40), st.lists(st.tuples(keys, keys), max_size=4))
times = st.integers(0, LATEST_AT_MS)
runs = st.builds(run, names, names, st.sampled_from(["flow", "spark"]), names, names)
scopes_of = st.fixed_dictionaries({}, optional={"properties": properties, "tags": tags})
accesses = st.tuples(
    st.one_of(st.builds(dataset, names, names), st.builds(urn, custom_kinds, names)),
    st.sampled_from(["read", "write", "unknown", "in", "OUT"]),
    times,
    st.one_of(st.none(), keys),
    st.one_of(st.none(), st.fixed_dictionaries({}, optional={"user": scopes_of, "system": scopes_of})),
)
reserved = {"creation_time", "created_by", "last_update_time", "last_updated_by"}

sizes = st.one_of(st.none(), st.integers(0, 2**63 - 1))
optional_longs = st.one_of(st.none(), longs)
words = st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True)
documents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"start": st.integers(-(2**62), 2**62)},
    optional={
        "work_id": st.one_of(st.none(), words.filter(lambda word: not word.startswith("null"))),
        "path": st.one_of(st.none(), names.map(lambda name: f"/{name}")),
        "data_version": words,
        "hash": st.from_regex(r"[0-9a-fA-F]{32}", fullmatch=True),
    },
)


@st.composite
def files_recorded(draw: st.DrawFn) -> FilesRecorded:
    where, what, ids_of = draw(words), draw(words), draw(st.lists(names, min_size=1, max_size=4, unique=True))
    made = []
    for file_id in ids_of:
        document = draw(documents)
        length, size, created = draw(st.sampled_from([None, 0, 86_400_000])), draw(sizes), draw(optional_longs)
        end = None if length is None else document["start"] + length
        made.append(a_file(draw(names), size, created, id=file_id, end=end, where=where, what=what, **document))
    return FilesRecorded(made)


events: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        EntityRegistered,
        urns,
        st.one_of(st.none(), texts(max_size=40)),
        schemas,
        st.dictionaries(keys, texts(max_size=40), max_size=6),
        st.lists(keys, max_size=6),
    ),
    st.builds(EntityDeleted, urns),
    st.builds(PropertiesSet, urns, properties, scopes),
    st.builds(PropertiesReplaced, urns, properties, scopes),
    st.builds(PropertiesRemoved, urns, keys=tags, scope=scopes),
    st.builds(PropertiesRemoved, urns, all=st.just(True), scope=scopes),
    st.builds(TagsAdded, urns, tags, scopes),
    st.builds(TagsRemoved, urns, tags=tags, scope=scopes),
    st.builds(TagsRemoved, urns, all=st.just(True), scope=scopes),
    st.builds(MetadataCleared, urns, st.sampled_from(["USER", "SYSTEM", "BOTH"])),
    st.builds(AccessesRecorded, runs, st.lists(accesses, min_size=1, max_size=4)),
    files_recorded(),
    st.builds(RunStarted, runs, times),
    st.builds(RunStopped, runs, times, keys),
    st.builds(ExternalWrite, st.builds(stream, names, names), keys, times),
)

units = st.builds(Unit, ids, ints, ints)


@st.composite
def events_with_headers(draw: st.DrawFn) -> tuple[Any, Header]:
    event = draw(events)
    header = Header(
        draw(ids),
        draw(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)),
        event.TYPE,
        event.aggregate,
        tuple(draw(st.lists(urns, max_size=3))),
        draw(st.one_of(st.none(), texts(max_size=12))),
        draw(longs),
        draw(st.one_of(st.none(), longs)),
        draw(st.one_of(st.none(), units)),
        draw(st.one_of(st.none(), ids)),
        draw(st.booleans()),
    )
    return event, header
