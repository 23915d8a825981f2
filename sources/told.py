"""Which of a system's own finished runs were emitted, noted at the source's program, however many there are. Pure.

The newest ids are listed. Of a read with more than fit, ids that follow each other are noted as one digest: a group.
Where a group ends follows from the ids in it, so that an id that is added or missing changes the group around it and
no other; what is in that group is then emitted again, which changes nothing, as the facts of a run are the same.

Invariant: what a read contained and was noted is not new to the next read that contains the same in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from .present import recorded_texts

TOLD: Final = "told"
"""SYSTEM property of a source's program: ids of the system's own runs that it has emitted, the newest last."""
TOLD_GROUPS: Final = "told_groups"
"""SYSTEM property of a source's program: digests of groups of such ids, of a read with more than are listed."""
TEXT_CHARS: Final = 100_000
"""Maximum size of each property, characters: some 3,500 ids, and 5,000 groups."""
_ENDS_AT: Final = 64
"""A group ends at one of so many ids."""
_GROUP_IDS: Final = 256
"""Maximum number of ids of a group: those behind the last one are listed, so several such must fit there."""


class Told(NamedTuple):
    """What was emitted.

    Attributes:
        ids: of the newest.
        groups: digests of groups.
    """

    ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> Told:
        """What a source's program notes; nothing where somebody has written something else there."""
        return cls(*(tuple(recorded_texts(properties.get(key))) for key in (TOLD, TOLD_GROUPS)))

    def new(self, ids: Iterable[str]) -> set[str]:
        """Those of a read's ids, in its order, that were not emitted yet."""
        every, known, noted = list(dict.fromkeys(ids)), {*self.ids}, {*self.groups}
        for group in _groups(every) if noted else ():
            if _digest(group) in noted:
                known.update(group)
        return {*every} - known

    def noted(self, ids: Iterable[str]) -> dict[str, str]:
        """The properties to set when all of a read is emitted."""
        every = list(dict.fromkeys(ids))
        listed = _last(self.ids, every)
        newest = _fitting(listed)
        properties = {TOLD: json.dumps(newest)}
        if self.groups or len(newest) < len(listed):
            groups = _last(self.groups, map(_digest, _groups(every)))
            properties[TOLD_GROUPS] = json.dumps(_fitting(groups))
        return properties


def _last(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """All, each once, those of now last."""
    newest = dict.fromkeys(now)
    return [*(text for text in before if text not in newest), *newest]


def _fitting(texts: Sequence[str]) -> list[str]:
    """The last ones, as many as fit into a property."""
    count, size = 0, 2
    for text in reversed(texts):
        size += len(json.dumps(text)) + 2
        if size > TEXT_CHARS:
            break
        count += 1
    return list(texts[len(texts) - count :])


def _groups(ids: Iterable[str]) -> Iterator[list[str]]:
    """The groups of ids, without those behind the last one's end."""
    group: list[str] = []
    for one in ids:
        group.append(one)
        if len(group) == _GROUP_IDS or _hashed(one)[0] % _ENDS_AT == 0:
            yield group
            group = []


def _digest(group: Iterable[str]) -> str:
    return _hashed("\n".join(group)).hex()


def _hashed(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
