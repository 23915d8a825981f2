"""What a question about repositories must look like: values, checked as they are made, before anything is read.

Source: docs/concepts.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ...schemas.errors import InputError
from ...schemas.times import time_ms
from .urns import branch_fault, path_fault, repository_fault

PAGE: Final = 100
MOST_PAGE: Final = 10_000
_SHORTEST_PREFIX: Final = 4
_STEPS: Final = re.compile(r"(?:~[0-9]{0,18}|\^[0-9]{0,2})*")
_ID: Final = re.compile(rf"[0-9a-f]{{{_SHORTEST_PREFIX},64}}")
_ID_DIGITS: Final = 64
_FORMS: Final = (
    "A ref is a branch (main; main@ without what is staged; main@2026-01-31T12:00Z as it was then), a commit's id or "
    "the beginning of one, each also followed by ~2 or ^1."
)
NOT_FINAL: Final = (
    "This is not final: the lake has not seen a later event there yet, so an earlier one may still arrive."
)
"""Of an answer as at a time."""
_PATHS: Final = "Paths have 1 to 1,024 bytes of UTF-8 without NUL."


class Ref(NamedTuple):
    """What is meant in a repository; made by `of`.

    Attributes:
        text: as it was given.
        named: a branch, the id of a commit, or its first digits.
        steps: from there: (True, n) to the n-th parent, (False, n) n times to the first one.
        committed: of a branch its head alone, without what is staged.
        until_ms: of a branch the head that it had at this time, milliseconds UTC.
    """

    text: str
    named: str
    steps: tuple[tuple[bool, int], ...] = ()
    committed: bool = False
    until_ms: int | None = None

    @classmethod
    def of(cls, text: Any) -> Ref:
        """A ref from what somebody types. Raises: InputError: it has no form of one."""
        if not isinstance(text, str):
            raise InputError(f"A ref must be text, not {text!r:.80}.", code="bad-ref", hint=_FORMS)
        cut = min((place for sign in "~^" if (place := text.find(sign)) >= 0), default=len(text))
        (named, at, time), behind = text[:cut].partition("@"), text[cut:]
        if not _STEPS.fullmatch(behind) or branch_fault(named) is not None:
            raise InputError(f"{text!r:.80} is not a ref.", code="bad-ref", hint=_FORMS)
        until_ms = _time(text, time) if time else None
        found = re.findall(r"([~^])([0-9]*)", behind)
        steps = tuple((sign == "^", int(number or 1)) for sign, number in found)
        return cls(text, named, steps, bool(at), until_ms)

    @property
    def may_be_id(self) -> bool:
        """Whether it may be the id of a commit, or the beginning of one."""
        return _ID.fullmatch(self.named.lower()) is not None

    @property
    def is_id(self) -> bool:
        """Whether it has the form of a whole id."""
        return len(self.named) == _ID_DIGITS and _ID.fullmatch(self.named) is not None


def _time(text: str, time: str) -> int:
    """The time of `branch@time`. Raises: InputError: it is none, or has no zone."""
    try:
        return time_ms(time, zone_required=True)
    except ValueError:
        raise InputError(
            f"{text!r:.80} is not a ref: {time!r:.60} is not a time with a zone.", code="bad-ref", hint=_FORMS
        ) from None


def check_repository(name: Any) -> str:
    """A repository's name. Raises: InputError: no repository can have it."""
    if (why := repository_fault(name)) is not None:
        raise InputError(f"The repository's name {why}.", code="bad-name", hint="Names look like this: sales-lake.")
    return str(name)


def check_branch(name: Any) -> str:
    """A branch's name. Raises: InputError: no branch can have it."""
    if (why := branch_fault(name)) is not None:
        raise InputError(f"The branch's name {why}.", code="bad-name", hint="Names look like this: feature/new-prices.")
    return str(name)


def check_limit(limit: Any) -> int:
    """A page's size. Raises: InputError: it cannot be."""
    if type(limit) is not int or not 1 <= limit <= MOST_PAGE:
        raise InputError(
            f"limit must be 1 to {MOST_PAGE:,}, not {limit!r:.80}.", code="bad-limit", hint="Ask for less."
        )
    return limit


def check_prefix(name: str, prefix: Any) -> str:
    """A prefix of paths, or a path behind which a page begins; may be empty. Raises: InputError: it cannot be."""
    if prefix in ("", None):
        return ""
    if (why := path_fault(prefix)) is not None:
        raise InputError(f"{name} {why}.", code="bad-path", hint=_PATHS)
    return str(prefix)


def check_path(path: Any) -> str:
    """A path. Raises: InputError: it cannot be."""
    if (why := path_fault(path)) is not None:
        raise InputError(f"A path {why}.", code="bad-path", hint=_PATHS)
    return str(path)


def check_paths(paths: Any) -> Iterable[Any]:
    """Paths, or one as such; each is still to be checked. Raises: InputError: they are no paths."""
    if isinstance(paths, str):
        return [paths]
    if not isinstance(paths, Iterable) or isinstance(paths, bytes):
        raise InputError(f"{paths!r:.60} is no paths.", code="no-paths", hint='Give texts such as ["a.csv"].')
    return paths


def check_delimiter(delimiter: Any) -> str | None:
    """A delimiter, or None. Raises: InputError: it cannot be."""
    if delimiter is None:
        return None
    if not isinstance(delimiter, str) or not delimiter or path_fault(delimiter) is not None:
        raise InputError(f"delimiter must be text, not {delimiter!r:.80}.", code="bad-delimiter", hint="Most often: /")
    return delimiter
