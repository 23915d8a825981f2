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
            "What each command prints with `--json`: one value on one line, or, where stated, one such value per line.",
            "A name with `?` may be missing; `NAME` stands for any name. Times are milliseconds since 1970, UTC. Later",
            "versions may add names. An error is one value, also on standard output:",
        ),
        "```",
        *lines_of(ERROR),
        "```",
        "",
        *prose("Its `error` has `code`, `message` and `hint`, and the attributes of [the error](errors.md)."),
    ]
    for command, printed in SHAPES.items():
        each = ", one per line" if printed.lines else ""
        lines += [f"## metajournal {command}", "", f"{printed.said[0].upper()}{printed.said[1:]}{each}.", ""]
        lines += ["```", *lines_of(printed.shape), "```", ""]
    return lines
