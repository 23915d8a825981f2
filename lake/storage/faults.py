"""Why a write to the lake failed, as an error that says what to do.

delta-rs, Arrow and Python each have their own exception for a full disk, and what fails in a Spark task comes back as
a text; so a full disk is known by its words. Whoever writes does so in a `writing` block.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ...schemas.errors import LakeWriteError, MetajournalError, UnavailableError

_FULL = (
    "No space left on device",
    "os error 28)",
    "Disk quota exceeded",
    "os error 122)",
    "File too large",  # a file system's or a process's limit of a file
    "os error 27)",
    "The disk is full: ",  # `disk_full`, as the text that a Spark task's error comes back as
)
_SHOWN = 300
_OF_STORE = re.compile(r"Generic \w+ error")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def writing(uri: str) -> Iterator[None]:
    """Do some writing to the lake.

    Args:
        uri: what is written to, for the message.
    Raises:
        LakeWriteError: the store under it failed; what else goes wrong is raised as it is.
    """
    try:
        yield
    except MetajournalError:
        raise
    except Exception as error:
        raise as_write_error(error, uri) or error from error


@contextmanager
def asking(uri: str) -> Iterator[None]:
    """Ask a store for something.

    Raises:
        UnavailableError: it does not answer; what else goes wrong is raised as it is.
    """
    try:
        yield
    except OSError as error:
        raise as_read_error(error, uri) or error from error


def as_write_error(error: BaseException, uri: str) -> LakeWriteError | None:
    """What a failure means, if it is one of the store that is written to."""
    text = f"{type(error).__name__}: {error}"
    if is_full(text):
        return disk_full(uri, text)
    if isinstance(error, OSError) or store_fault(error):
        return LakeWriteError(f"Writing to {uri} failed: {plain(text)[:_SHOWN]}", uri=uri, cause=text)
    return None


def store_fault(error: BaseException) -> bool:
    """Whether an error is an object store's, which may answer the next time, and says nothing of what is stored."""
    return (isinstance(error, OSError) or is_delta_error(error)) and speaks_of_store(str(error))


def is_delta_error(error: BaseException) -> bool:
    """Whether an error is one of delta-rs, which a process that only reads does not even load."""
    errors = sys.modules.get("deltalake.exceptions")
    return errors is not None and isinstance(error, errors.DeltaError)


def speaks_of_store(text: str) -> bool:
    """Whether the text of an error, be it a Spark task's, is that of a store that did not answer."""
    return _OF_STORE.search(text) is not None


def as_read_error(error: BaseException, uri: str) -> UnavailableError | None:
    """What a failed read means, if it is the store that did not answer."""
    return store_away(str(error), uri) if store_fault(error) else None


def store_away(text: str, uri: str) -> UnavailableError:
    """The error of a store that does not answer."""
    return UnavailableError(
        f"The store of {uri} does not answer: {plain(text)[:_SHOWN]}",
        code="lake-unavailable",
        hint="Check lake.storage_options (endpoint, region, keys) and the store itself, and try again.",
        uri=uri,
    )


def plain(text: str) -> str:
    """The text of delta-rs without the colours and line breaks of its tree of causes."""
    return " ".join(_COLOUR.sub("", text).replace("\u21b3", " ").split())


def is_full(text: str) -> bool:
    """Whether the text of an error speaks of a full disk."""
    return any(word in text for word in _FULL)


def disk_full(uri: str, cause: str) -> LakeWriteError:
    """The error of a full disk."""
    return LakeWriteError(
        f"The disk is full: {uri} could not be written.",
        code="disk-full",
        hint="Free space on that disk; the stream retries by itself and resumes at its marks.",
        uri=uri,
        cause=cause,
    )
