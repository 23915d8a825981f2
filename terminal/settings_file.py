"""A settings file to start from: every key with its meaning and its default, none of them set."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from textwrap import wrap
from typing import Any, Final

from ..schemas import settings as settings_module
from ..schemas.settings import Settings

_WIDTH: Final = 100
_HEAD: Final = """\
# Settings of metajournal. To change one, remove its `# `. What overrides this file, and what it may set if it was only
# found in the working folder: docs/reference/configuration.md. Current values: metajournal config show --origin
"""
_KAFKA: Final = """\
# librdkafka's own dotted keys, passed to every client.
"""


def settings_file() -> str:
    """The text of the file, TOML."""
    return _HEAD + "".join(_section(section.name) for section in dataclasses.fields(Settings))


def _section(name: str) -> str:
    values = getattr(Settings(), name)
    if not dataclasses.is_dataclass(values):
        keys = "".join(f"# {json.dumps(key)} = {json.dumps(value)}\n" for key, value in values.items())
        return f"\n{_KAFKA}[{name}]\n{keys}"
    return f"\n{_comment(str(type(values).__doc__))}[{name}]\n" + "".join(_keys(values))


def _keys(values: Any) -> Iterator[str]:
    meanings = field_docs(type(values))
    for key in dataclasses.fields(values):
        default = getattr(values, key.name)
        shown = "{}" if isinstance(default, Mapping) else '"…"' if default is None else json.dumps(default)
        yield f"{_comment(meanings.get(key.name, ''))}# {key.name} = {shown}\n"


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in wrap(" ".join(text.split()), _WIDTH))


def field_docs(kind: type[Any]) -> dict[str, str]:
    """The text below each field of a class of settings."""
    tree = ast.parse(inspect.getsource(settings_module))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    meanings = {}
    for before, node in pairwise(body):
        text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(text, str):
            meanings[before.target.id] = " ".join(text.split())
    return meanings
