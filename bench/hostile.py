"""Texts that nobody types by intention: the longest, widest and oddest queries; tests and figures ask the same ones."""

from __future__ import annotations

from typing import Final

HOSTILE: Final = (
    "x" * 8000,
    "w " * 60,
    "é-" * 4000,
    "*" * 8000,
    '"' + "a b " * 2000 + '"',
    "k*:" + "v" * 1024,
    "k*:a-b*",
    "\ud800" * 8000,
    "\ud800\udfff orders\udfff",
    "orders \ud83d" + "\u200f" * 4000,
    "\u202eمبيعات-بيانات " * 60,
    "טבלת־הזמנות " * 60,
    "a" + "\u0301" * 8000,
    "\u0301" * 8000,
    "ﷺ" * 8000,
    "(" * 8000,
    "((a " * 60 + ")" * 7000,
    "-( " * 2000 + "orders",
    "NOT " * 2000 + "orders",
    "orders " + "AND " * 2000,
    "+" * 8000,
    "- " * 4000 + "orders",
    " AND ".join(f"w{number}" for number in range(64)),
    " OR NOT ".join(f"w{number}" for number in range(64)),
    " ".join(f"unknown{first}{second}" for first in "abcdefgh" for second in "qrstuvwx"),
    " ".join(f"k{number}a-b*" for number in range(64)),
    " ".join(f"k{number}*:a-b*" for number in range(64)),
)
"""Each is answered, or refused as too long."""
