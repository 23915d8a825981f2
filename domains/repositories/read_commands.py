"""The commands of `metajournal repo` that read what refs contain: `ls`, `get`, `diff`.

A table and its `--json` come from the same value. Paths are text from outside: they are shown with their control
characters, tabs and line ends visible.
"""

from __future__ import annotations

import click

from ...schemas.times import time_shown
from ...terminal.exits import FINE
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, fields, named, print_json, print_more, shortened, table
from .command_parts import (
    as_at_option,
    asks_then,
    limit_option,
    note_if_not_final,
    repository_named,
    show_table,
    timeout_option,
)

_after = click.option("--after", metavar="PATH", help="Continue where an earlier answer ended.")
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


@click.command()
@click.argument("repository")
@click.argument("ref")
@click.argument("prefix", default="")
@click.option("-r", "--recursive", is_flag=True, help="List every object, however deep.")
@click.option("--delimiter", metavar="TEXT", default="/", show_default=True, help="What ends a common prefix.")
@_after
@limit_option
@as_at_option
@timeout_option
@json_option
@options
def ls(
    given: Options,
    /,
    repository: str,
    ref: str,
    prefix: str,
    recursive: bool,
    delimiter: str,
    after: str | None,
    limit: int,
    as_at: str | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    """List the objects of REF whose paths begin with PREFIX, one level deep.

    A branch is listed with what is staged on it; `main@` is what it has committed.
    """
    from ...values import point
    from .values import list_json, with_final

    at = point(as_at) if as_at is not None else None
    asked = asks_then(at, ref)
    with given.journal() as journal:
        page = repository_named(journal, repository).list(
            ref,
            prefix=prefix,
            delimiter=None if recursive else delimiter,
            after=after,
            limit=limit,
            as_at=at,
            timeout_s=timeout_s,
        )
    shown = with_final(list_json(page), page.final, asked=asked)
    if as_json:
        print_json(shown)
        return FINE
    note_if_not_final(page.final, asked=asked)
    rows = [
        (named(one["path"]), f"{one['size']:,}", shortened(one["checksum"], 16), _time(one["mtime"]))
        if one["type"] == "object"
        else (named(one["path"]), "", "", "")
        for one in shown["items"]
    ]
    columns = ["path", "bytes", "checksum", "modified"]
    show_table(table(columns, rows, right=["bytes"]) if rows else None, "no objects")
    return _more(page.after)


@click.command()
@click.argument("repository")
@click.argument("ref")
@click.argument("path")
@as_at_option
@timeout_option
@json_option
@options
def get(
    given: Options, /, repository: str, ref: str, path: str, as_at: str | None, timeout_s: float, as_json: bool
) -> int:
    """Show one object of REF: size, checksum, where it lies, metadata."""
    from ...values import point
    from .values import object_json, with_final

    at = point(as_at) if as_at is not None else None
    asked = asks_then(at, ref)
    with given.journal() as journal:
        found = repository_named(journal, repository).get(ref, path, as_at=at, timeout_s=timeout_s)
    shown = object_json(found)
    if as_json:
        print_json(with_final(shown, found.final, asked=asked))
        return FINE
    note_if_not_final(found.final, asked=asked)
    console().print(fields([(key, _text(key, value)) for key, value in shown.items() if value not in (None, [], {})]))
    return FINE


@click.command()
@click.argument("repository")
@click.argument("left")
@click.argument("right")
@click.option("--prefix", metavar="TEXT", default="", help="Only paths that begin with this text.")
@_after
@limit_option
@as_at_option
@timeout_option
@json_option
@options
def diff(
    given: Options,
    /,
    repository: str,
    left: str,
    right: str,
    prefix: str,
    after: str | None,
    limit: int,
    as_at: str | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    """List the paths that two refs do not have alike: what became of LEFT's objects in RIGHT.

    `diff REPOSITORY main@ main` is what the next commit would change.
    """
    from ...values import point
    from .values import diff_json, with_final

    at = point(as_at) if as_at is not None else None
    asked = asks_then(at, left, right)
    with given.journal() as journal:
        page = repository_named(journal, repository).diff(
            left, right, prefix=prefix, after=after, limit=limit, as_at=at, timeout_s=timeout_s
        )
    shown = with_final(diff_json(page), page.final, asked=asked)
    if as_json:
        print_json(shown)
        return FINE
    note_if_not_final(page.final, asked=asked)
    rows = [(_SIGNS[one["change"]], named(one["path"]), _sizes(one["left"], one["right"])) for one in shown["items"]]
    show_table(table(["", "path", "bytes"], rows) if rows else None, "no differences")
    return _more(page.after)


def _more(after: str | None) -> int:
    if after is not None:
        print_more("--after", after)
    return FINE


def _time(mtime: int | None) -> str:
    return "" if mtime is None else time_shown(mtime)


def _text(key: str, value: object) -> str:
    if key == "mtime" and isinstance(value, int):
        return time_shown(value)
    if key == "metadata" and isinstance(value, dict):
        return "\n".join(f"{named(name)} = {named(text)}" for name, text in sorted(value.items()))
    if key == "blocks" and isinstance(value, list):
        return "\n".join(f"{named(one['address'])}  {one['size']:,} bytes  {named(one['checksum'])}" for one in value)
    return f"{value:,}" if isinstance(value, int) else named(value)


def _sizes(left: dict[str, object] | None, right: dict[str, object] | None) -> str:
    sizes = [f"{one['size']:,}" for one in (left, right) if one is not None]
    return " → ".join(sizes)


READING: tuple[click.Command, ...] = (ls, get, diff)
