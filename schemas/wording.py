"""What every layer needs that writes texts for people: a number of things, and the characters that nobody sees.

How such a character is shown is the layer's: a page has room for its number, a terminal gets an escape.
"""

from __future__ import annotations

import re
from typing import Final

ODD: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that are not seen, or that change how others are: control, format and bidirectional ones, lone surrogates.
Tabulators and ends of lines stay, since a description may have them."""


def many(number: int, what: str) -> str:
    """A number of things; their name is given for one."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
