"""A record's headers, as Kafka's client gives them; one whose name is not UTF-8 is an error here, not a crash.

The client makes a text of each name. Where it cannot, it goes on without that name and gives a list that ends the
process of whoever looks into it; its error is only seen by a call that looks for one, which a method's own call, once
the interpreter has made it a fast one, does not. So headers are asked for here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final

Headers = tuple[tuple[str, bytes | None], ...]

_ask: Final[Callable[[Any], list[tuple[str, bytes | None]] | None]] = methodcaller("headers")
"""Calls `headers` and looks whether that left an error."""


class HeaderNameError(ValueError):
    """A header's name is not UTF-8, so the client can give none of the record's headers."""


def headers_of(message: Any) -> Headers:
    """Names and values in the record's order.

    Args:
        message: as Kafka's client gives it.
    Raises:
        HeaderNameError: a name is not UTF-8.
    """
    try:
        return tuple(_ask(message) or ())
    except (SystemError, UnicodeDecodeError) as error:
        message.set_headers([])  # asked again, the client would give the list without that name
        raise HeaderNameError("the name of a header is not UTF-8") from error
