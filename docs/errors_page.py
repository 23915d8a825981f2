"""The reference page of errors: every class, and every code that the source makes one with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from metajournal.schemas.errors import MetajournalError
from metajournal.terminal.exits import exit_code

from .markdown import first, prose, table

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = (
    "schemas", "rules", "lake", "fold", "producers", "consumers", "streaming", "indexer", "stack", "terminal",
    "domains", "sources", "gateway", "commands",
)  # fmt: skip


def errors_page() -> list[str]:
    """The lines of the page."""
    lines = [
        "# Errors",
        "",
        *prose(
            "Every error is a `MetajournalError`:",
            "`code` for programs, `message` (one sentence), `hint` (the next step), and its data as",
            "attributes.",
            "The command line prints `error[code]: message` and the next step on standard error; with",
            "`--json` one object on standard output.",
        ),
        "## Exit codes",
        "",
        *table(
            ["exit code", "meaning"],
            [
                ("0", "done; also of `tail` that was stopped by Ctrl-C or SIGTERM"),
                ("1", "a problem was found, or a part was refused; the rest, such as a file's other events, is done"),
                ("2", "wrong usage, input or configuration"),
                ("3", "a service cannot be reached"),
                ("4", "not allowed"),
                ("130", "interrupted"),
                ("141", "the reader of a pipe went away"),
            ],
        ),
        "## By class",
        "",
    ]
    rows = [(f"`{kind.__name__}`", f"`{kind.CODE}`", _exit(kind), first(kind.__doc__), kind.HINT) for kind in _kinds()]
    lines += table(["class", "code", "exit code", "meaning", "next step"], rows)
    lines += ["## By code", "", "Codes other than the class's own; `…` stands for values of the case.", ""]
    return lines + table(["code", "class", "sentence", "next step"], sorted(set(_raised())))


def _kinds() -> list[type[MetajournalError]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            import_module(".".join(["metajournal", *(part for part in parts if part != "__init__")]))
    kinds: list[type[MetajournalError]] = []
    waiting: list[type[MetajournalError]] = [MetajournalError]
    while waiting:
        kind = waiting.pop(0)
        if kind.__module__.startswith("metajournal.") and kind not in kinds:
            kinds.append(kind)
        waiting += kind.__subclasses__()
    return sorted(kinds[1:], key=lambda kind: kind.__name__)


def _exit(kind: type[MetajournalError]) -> int:
    error = kind.__new__(kind)
    error.code = kind.CODE
    return exit_code(error)


def _raised() -> Iterator[tuple[str, str, str, str]]:
    """Every error that the code makes with a code of its own: (code, class, sentence, next step)."""
    for path in [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]:
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "code=" in text else ():
            if isinstance(node, ast.Call) and (code := _text(_keyword(node, "code"))):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                if name.endswith(("Error", "Expired")):
                    hint = _text(_keyword(node, "hint")) or "that of the class"
                    yield f"`{code}`", f"`{name}`", _text(_sentence(node)) or "that of the class", hint


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _sentence(call: ast.Call) -> ast.expr | None:
    texts = [argument for argument in call.args if isinstance(argument, ast.JoinedStr | ast.Constant | ast.BinOp)]
    return texts[0] if texts else None


def _text(node: ast.expr | None) -> str:
    """A text of the source, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return f"{_text(node.left) or '…'}{_text(node.right) or '…'}"
    return ""
