"""The kinds of sources, and how to create one from a recipe or a command.

A recipe is a TOML file with a table for each source, named by its id:

    [shop]
    source = "databases"
    url = "postgresql://reader:${SHOP_PASSWORD}@db.acme/shop"
    exclude = ["*.tmp_*"]

`${NAME}` in any text stands for that environment variable. Each kind of source is loaded when it is first needed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..schemas.errors import InputError, MissingExtraError
from .source import Source, checked_id

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Kind(NamedTuple):
    """A kind of source.

    Attributes:
        make: makes one of its options and its id (None: one that follows from them).
        texts: options that are one text each; those of `required` must be there.
        lists: options that are several texts.
        flags: options that are true or false.
    """

    make: Callable[[Mapping[str, Any], str | None], Source]
    required: tuple[str, ...]
    texts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def _databases(options: Mapping[str, Any], source_id: str | None) -> Source:
    try:
        from .databases.source import Databases
    except ModuleNotFoundError as error:
        raise MissingExtraError("sources", "Reading databases") from error
    return Databases(
        options["url"], schemas=options.get("schemas", ()), exclude=options.get("exclude", ()), id=source_id,
        namespace=options.get("namespace"),
    )  # fmt: skip


def _dbt(options: Mapping[str, Any], source_id: str | None) -> Source:
    try:
        from .dbt.source import Dbt
    except ModuleNotFoundError as error:
        raise MissingExtraError("sources", "Reading dbt's artifacts") from error
    return Dbt(
        options["target_dir"], namespace=options.get("namespace"), profiles=options.get("profiles"),
        target=options.get("target"), id=source_id,
    )  # fmt: skip


def _kafka(options: Mapping[str, Any], source_id: str | None) -> Source:
    from .kafka.source import Kafka

    return Kafka(
        options["bootstrap"], registry=options.get("registry"), topics=options.get("topics", ()),
        exclude=options.get("exclude", ()), settings=options.get("settings", ()),
        own_topics=options.get("own_topics", False), namespace=options.get("namespace"), id=source_id,
    )  # fmt: skip


def _lakehouse(options: Mapping[str, Any], source_id: str | None) -> Source:
    try:
        from .lakehouse.source import Lakehouse
    except ModuleNotFoundError as error:
        raise MissingExtraError("sources", "Reading a lakehouse") from error
    return Lakehouse(
        options["path"], exclude=options.get("exclude", ()), storage=options.get("storage", ()),
        namespace=options.get("namespace"), id=source_id,
    )  # fmt: skip


def _openlineage(options: Mapping[str, Any], source_id: str | None) -> Source:
    try:
        from .openlineage.source import OpenLineageFiles
    except ModuleNotFoundError as error:
        raise MissingExtraError("sources", "Reading OpenLineage files") from error
    return OpenLineageFiles(options["files"], register=options.get("register", True), id=source_id)


KINDS: Final[Mapping[str, Kind]] = {
    "databases": Kind(_databases, required=("url",), texts=("namespace",), lists=("schemas", "exclude")),
    "dbt": Kind(_dbt, required=("target_dir",), texts=("namespace", "profiles", "target")),
    "kafka": Kind(
        _kafka,
        required=("bootstrap",),
        texts=("registry", "namespace"),
        lists=("topics", "exclude", "settings"),
        flags=("own_topics",),
    ),
    "lakehouse": Kind(_lakehouse, required=("path",), texts=("namespace",), lists=("exclude", "storage")),
    "openlineage": Kind(_openlineage, required=("files",), lists=("files",), flags=("register",)),
}
"""Every kind by its name in recipes and on the command line."""


def source_of(
    kind: str, options: Mapping[str, Any], environ: Mapping[str, str], source_id: str | None = None
) -> Source:
    """Create a source from its options.

    Args:
        options: by name; None and empty ones count as not given.
        environ: the variables that texts may name.
        source_id: its id; None: one derived from the options.
    Raises:
        InputError: an option is unknown, missing, of the wrong type, or names a variable that is not set.
        MissingExtraError, SourceError: what the source needs is not installed.
    """
    known = KINDS.get(kind)
    if known is None:
        raise InputError(f"There is no kind of source {kind!r:.80}.", code="no-such-source", hint=_near(kind, KINDS))
    given = {name: value for name, value in options.items() if value not in (None, (), [])}
    names = (*known.required, *known.texts, *known.lists, *known.flags)
    for name in given:
        if name not in names:
            raise _bad_recipe(f"A {kind} source has no option {name!r:.80}.", _near(name, names))
    for name in known.required:
        if name not in given:
            raise _bad_recipe(f"A {kind} source needs the option {name!r}.", f'Add {name} = "…".')
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in known.flags:
            if not isinstance(value, bool):
                raise _bad_recipe(f"The option {name!r} must be true or false.", "")
            made[name] = value
            continue
        values = list(value) if name in known.lists and isinstance(value, list | tuple) else [value]
        if not all(isinstance(text, str) for text in values) or (name not in known.lists and len(values) != 1):
            raise _bad_recipe(
                f"The option {name!r} must be {'a list of strings' if name in known.lists else 'a string'}.", ""
            )
        texts = [expanded(text, environ) for text in values]
        made[name] = texts if name in known.lists else texts[0]
    return known.make(made, source_id)


def sources_of(file: Path, environ: Mapping[str, str]) -> list[Source]:
    """The sources of a recipe, in its order.

    Raises:
        InputError: the file cannot be read, is no recipe, or names no source. Others as `source_of`.
    """
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise _bad_recipe(f"The recipe {file} cannot be read: {error.strerror}.", "Check its path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad_recipe(f"The recipe {file} is not valid TOML: {_place(error)}", "Correct it there.") from None
    if not tables:
        raise _bad_recipe(f"The recipe {file} names no source.", 'Add one: [shop], then source = "databases".')
    made = []
    for name, options in tables.items():
        if not isinstance(options, dict) or not isinstance(options.get("source"), str):
            raise _bad_recipe(
                f"{name!r:.80} in {file} does not say which kind of source it is.",
                f'Write [{name}], and below it source = "databases" (one of {", ".join(KINDS)}).',
            )
        rest = {key: value for key, value in options.items() if key != "source"}
        made.append(source_of(options["source"], rest, environ, checked_id(name)))
    return made


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """A text with the values of the variables that it names. Raises: InputError: one is not set."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise InputError(
                f"The environment variable {match[1]} is not set.",
                code="no-such-variable",
                hint=f"export {match[1]}=…, then run the same command again.",
            )
        return environ[match[1]]

    return _VARIABLE.sub(value, text)


def _place(error: Exception) -> str:
    """The position of an error in a file, without its text, which may contain a password."""
    found = re.search(r"at line \d+, column \d+|at end of document", str(error))
    return f"{found[0]}." if found else "it is not UTF-8 text."


def _near(name: str, known: Any) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"Did you mean {near[0]}?" if near else f"Possible values: {', '.join(known)}."


def _bad_recipe(message: str, hint: str) -> InputError:
    return InputError(message, code="bad-recipe", hint=hint or "See docs/how-to/bring-in-a-database.md.")
