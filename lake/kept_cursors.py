"""Short names for cursors: 20 characters, under which the full cursor is kept on this machine.

A full cursor contains a point in time and a name or two, some 640 characters that nobody copies by hand. It is kept in
memory, and in a folder of the user, so that the next command knows it too; the oldest are deleted first. A full cursor
is accepted as well as its name.
Invariant: a name leads to exactly the text that it was created for, or to an error.
"""

from __future__ import annotations

import base64
import os
import re
from collections import OrderedDict
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from ..schemas.errors import InputError, MetajournalError

KEPT: Final = 1000
"""Maximum number of cursors in memory, and roughly in the folder."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{20}")
_NAME_BYTES: Final = 15
_SWEEP_EVERY: Final = 64


class Refusal(Protocol):
    """Makes the error of a name that is not known here."""

    def __call__(self, message: str, /, *, hint: str) -> MetajournalError: ...


class KeptCursors:
    """Cursors by their names; safe to use from several threads.

    Args:
        folder: where they are kept for other processes of this user; None: the user's cache.
        refusal: makes the error of a name that is not known here.
        named: whether cursors get names; else they stay whole, so that any machine takes them.
    """

    def __init__(
        self, folder: Path | None = None, *, refusal: Refusal = InputError, named: bool = True
    ) -> None:  # fmt: skip
        self._refusal = refusal
        self._named = named
        self._folder = _own_folder() if folder is None else folder
        self._lock = Lock()
        self._whole: OrderedDict[str, str] = OrderedDict()
        self._written = 0

    def name(self, whole: str) -> str:
        """The name of a cursor, from now on."""
        if not self._named:
            return whole
        name = _name_of(whole)
        with self._lock:
            self._whole[name] = whole
            self._whole.move_to_end(name)
            if len(self._whole) > KEPT:
                self._whole.popitem(last=False)
            self._written += 1
            is_turn = self._written % _SWEEP_EVERY == 1
        with suppress(OSError):  # the folder cannot be written to: only this process knows it
            self._write(name, whole)
            if is_turn:
                self._sweep()
        return name

    def whole(self, text: object) -> object:
        """The cursor of a name; anything else as it is.

        Raises:
            MetajournalError: the name is not known here, as `refusal` makes it.
        """
        if not isinstance(text, str) or _NAME.fullmatch(text) is None:
            return text
        with self._lock:
            whole = self._whole.get(text)
        if whole is None:
            with suppress(OSError, UnicodeDecodeError):
                whole = (self._folder / text).read_text("ascii")
        if whole is None or _name_of(whole) != text:
            raise self._refusal(
                f"The cursor {text} is not known on this machine: it was created on another one, by another user, or "
                f"before the latest {KEPT:,}.",
                hint="Ask for the first page here, without a cursor, and continue with the cursors that you get.",
            )
        return whole

    def _write(self, name: str, whole: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._folder / f".{name}.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(whole)
        draft.replace(self._folder / name)

    def _sweep(self) -> None:
        """Delete the oldest of the folder."""
        aged = sorted((path.stat().st_mtime_ns, path) for path in self._folder.iterdir())
        for _, path in aged[:-KEPT]:
            path.unlink(missing_ok=True)


def _name_of(whole: str) -> str:
    digest = blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=_NAME_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode()


def _own_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path(os.environ.get("HOME") or ".") / ".cache") / "metajournal" / "cursors"
