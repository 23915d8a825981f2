"""Numbers of Kafka keys: whatever keys came before, each is judged as if it were the only one."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.columns.keys import NOT_ALONE, Keys
from metajournal.fold.records import Place
from metajournal.schemas.errors import InvalidUrnError
from metajournal.schemas.hashing import partition_of
from metajournal.schemas.limits import MAX_URN_BYTES
from metajournal.schemas.urn import Urn

PLACE = Place("metajournal.journal.catalog", 0, 2, "catalog", frozenset())
LONGEST = "n" * (MAX_URN_BYTES - len("dataset:a/"))

tenants = st.sampled_from(["default", "acme", "Acme", "", "a" * 65])
kinds = st.sampled_from(["dataset", "stream", "app", "program", "run", "file", "view", "branch", "9", "Dataset"])
last = st.sampled_from(
    ["x", "y.z", "Z_1", "_", "%5F", "%41", "%C3%A9", "é", "a b", "", "spark", LONGEST, LONGEST + "n"]
)
paths = st.tuples(st.lists(st.sampled_from(["a", "b", "spark", "%2D", "-"]), max_size=4), last)
spelled = st.builds("{}/{}:{}".format, tenants, kinds, st.builds(lambda path: "/".join([*path[0], path[1]]), paths))
keys = st.one_of(
    spelled.map(str.encode),
    st.sampled_from([b"", b"/", b"a/b/c", b"\xff/dataset:a/b", b"default/dataset:a/\xff"]),
    st.binary(max_size=8),
)


def named(key: bytes) -> tuple[str, Urn] | None:
    """What a key names that stands alone in its aggregate and in its partition, judged for itself."""
    if partition_of(key, PLACE.partitions) != PLACE.partition:
        return None
    try:
        tenant, _, text = key.decode().partition("/")
        urn = Urn(text)
    except (UnicodeDecodeError, InvalidUrnError):
        return None
    alone = urn.aggregate == urn and urn.kind != "app" and urn.domain == "catalog"
    return (tenant, urn) if alone and re.fullmatch("[a-z0-9][a-z0-9_-]{0,63}", tenant) else None


@settings(deadline=None)
@given(st.lists(st.lists(keys, max_size=12), max_size=4))
@example([[b"default/dataset:a/" + LONGEST.encode() + b"nn", b"default/dataset:a/x"]])
@example([[b"default/dataset:a/%5F", b"default/dataset:a/x", b"default/dataset:a/%41"]])
def test_keys_have_the_numbers_and_columns_of_what_they_name(rounds: list[list[bytes]]) -> None:
    found, alone = Keys(PLACE), set()
    for some in rounds:
        numbers = found.numbers(some)
        for key, number in zip(some, numbers.tolist(), strict=True):
            one = named(key)
            assert (number == NOT_ALONE) == (one is None)
            if one is None:
                continue
            alone.add(key)
            tenant, urn = one
            assert found.key(number) == (tenant, str(urn))
            assert found.number_of((tenant, str(urn))) == number
            columns = found.columns(np.array([number]))
            assert {name: column.to_pylist() for name, column in columns.items()} == {
                "tenant": [tenant], "urn": [urn], "kind": [urn.kind], "namespace": [urn.namespace],
                "name": [urn.name], "aggregate": [urn],
            }  # fmt: skip
        assert len(found) == len(alone)
