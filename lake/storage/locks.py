"""Locks of a lake: what only one process at a time may do there.

A lock is a file of the lake that the kernel holds for a process, so it ends with the process however that ends. An
object store has no such thing: there it is a lease (see `leases`), which ends a little after the process.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from ...schemas.errors import StreamError
from .store import is_store


@contextmanager
def only_one(
    path: str,
    name: str,
    *,
    hint: str,
    storage_options: Mapping[str, str] | None = None,
    on_lost: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """One process of this name for each lake, for as long as the block runs.

    Args:
        path: the lake's folder or URI.
        name: what it does: "stream", "rebuild".
        hint: what to do where another one runs.
        storage_options: of the lake's store.
        on_lost: called when another process took it over, as a store allows after a while without an answer.
    Raises:
        StreamError: another process does it.
        LakeWriteError: the store does not answer.
    """
    if is_store(path):
        from .leases import Lease  # by delta-rs, which local lakes take no locks with

        lease = Lease(path, name, storage_options or {}, on_lost=on_lost)
        if not lease.take():
            raise _runs(path, name, hint)
        try:
            yield
        finally:
            lease.release()
        return
    with ExitStack() as stack:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((Path(path) / f".{name}.lock").open("ab"))
        except OSError:  # a full disk, no right to write: the writes themselves say so, and wait where that helps
            file = None
        if file is not None and not taken(file):
            raise _runs(path, name, hint)
        yield


def _runs(path: str, name: str, hint: str) -> StreamError:
    return StreamError(f"Another {name} of the lake {path} is running.", code=f"{name}-runs", hint=hint)


@contextmanager
def in_turn(folder: Path, name: str) -> Iterator[None]:
    """The block runs when no other process is in a block of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def taken(file: IO[bytes]) -> bool:
    """Take the lock of an open file, if nobody has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
