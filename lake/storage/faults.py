"""Why a write to the lake failed, as an error that says what to do.

delta-rs, Arrow and Python each have their own exception for a full disk, and what fails in a Spark task comes back as
a text; so a full disk is known by its words. Whoever writes does so in a `writing` block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from ...schemas.errors import LakeWriteError, MetajournalError

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


def as_write_error(error: BaseException, uri: str) -> LakeWriteError | None:
    """What a failure means, if it is one of the store that is written to."""
    text = f"{type(error).__name__}: {error}"
    if is_full(text):
        return disk_full(uri, text)
    if isinstance(error, OSError) or (isinstance(error, DeltaError) and "Generic " in text):
        return LakeWriteError(f"Writing to {uri} failed: {text[:_SHOWN]}", uri=uri, cause=text)
    return None


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
