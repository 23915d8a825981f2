"""Forms of access that could not be taken, as they were filled, with what is wrong with them.

Invariant: what comes back is what was sent, so nothing that its sender typed is lost; nothing is read for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ....schemas.endpoints import Request
from ....schemas.errors import InputError
from ....schemas.pages import Shown
from ..rights import known_actions

_SEEN: Final = "expected"
"""The hidden field that says which state a form is of."""


class Form(NamedTuple):
    """A form.

    Args:
        title: what it does.
        undone: what was not done.
        action: where it is sent.
        button: what its button says.
        back: the page that it stands on.
        fields: what is filled in, each with its label.
        hidden: fields that are sent back as they are.
        has_actions: whether actions are ticked in it.
    """

    title: str
    undone: str
    action: str
    button: str
    back: str
    fields: Mapping[str, str]
    hidden: Sequence[str] = (_SEEN,)
    has_actions: bool = False


def refilled(form: Form, request: Request, error: InputError) -> Shown:
    """A form as it was filled, with what is wrong with it."""
    values = {
        "form": form, "filled": request.body, "problem": error,
        "actions": sorted(known_actions()) if form.has_actions else [],
    }  # fmt: skip
    return Shown("access/refilled.html", values)
