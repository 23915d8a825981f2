"""What a commit's content is told apart by: the root over all its objects, and the id over root and history.

Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256, shake_128
from typing import Final

from ....schemas.hashing import canonical_json
from ....schemas.lthash import STATE_BYTES

OBJECT: Final = b"metajournal.object.1\0"
_ROOT: Final = b"metajournal.root.1\0"
LENGTH_BYTES: Final = 4


def object_element(path: str, content: bytes) -> bytes:
    """What an object adds to the lanes of a commit.

    Args:
        content: as of `rows.content_of`, 16 bytes.
    Returns:
        2,048 bytes: SHAKE-128 of the name of this form, NUL, the path's length (4 bytes, little endian), path, content.
    """
    named = path.encode()
    return shake_128(b"".join((OBJECT, len(named).to_bytes(LENGTH_BYTES, "little"), named, content))).digest(
        STATE_BYTES
    )


def root_of(state: bytes) -> str:
    """The root of a commit.

    Args:
        state: the lanes over its objects, 2,048 bytes.
    Returns:
        64 hexadecimal digits: sha256 of the name of this form, NUL, lanes.
    """
    return sha256(_ROOT + state).hexdigest()


def content_id(root: str, parents: Sequence[str], message: str, metadata: Mapping[str, str]) -> str:
    """The id of what a commit and all before it contain, which a listing can be checked against without the journal.

    Args:
        parents: their content ids, in the commit's order.
    Returns:
        64 hexadecimal digits: sha256 of the canonical JSON of these four.
    """
    return sha256(canonical_json([root, [*parents], message, {**metadata}])).hexdigest()
