"""The reference page of what commands print with `--json`."""

from __future__ import annotations

from .json_shapes import ERROR, SHAPES, lines_of
from .markdown import prose


def json_page() -> list[str]:
    """The lines of the page."""
    lines = [
        "# JSON",
        "",
        *prose(
            "What each command prints with `--json`: one value on one line, or one such value on each line where that",
            "is said. A name with `?` may be missing; `NAME` stands for names that are not metajournal's. Times are",
            "milliseconds since 1970, UTC. Names may be added by later versions. An error is one value, on standard",
            "output too:",
        ),
        "```",
        *lines_of(ERROR),
        "```",
        "",
        *prose("Its `error` has `code`, `message` and `hint`, and what [the error](errors.md) carries."),
    ]
    for command, printed in SHAPES.items():
        each = ", on each line" if printed.lines else ""
        lines += [f"## metajournal {command}", "", f"{printed.said[0].upper()}{printed.said[1:]}{each}.", ""]
        lines += ["```", *lines_of(printed.shape), "```", ""]
    return lines
