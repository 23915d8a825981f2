"""What the command line prints: tables and plain lines for people, JSON for programs, errors for both.

Left to whom: the commands decide what is asked, the rooms give the values; here they only become text.
Invariant: text that came from outside (URNs, tags, values, messages) reaches a terminal without control characters and
is never read as markup, so metadata can neither move the cursor nor colour, hide or forge a line; nor does it have
characters that nobody sees, so two different names look different.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO

from ..schemas.errors import MetajournalError
from ..schemas.wording import ODD
from ..schemas.wording import many as many
from ..values import error_json
from .here import as_typed_here

if TYPE_CHECKING:  # it loads for 20 ms, and help needs none of it
    from rich.console import Console
    from rich.text import Text

    from .listing import Listing, Pairs

_OBEYED = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # by a terminal, where JSON has them as they are
_BLANKS = re.compile(r"[ \t]+(?=\n)")
PLAIN_WIDTH = 160  # columns when the output is no terminal
NOT_FINAL = "This is not final: the lake has not seen a later event there yet, so an earlier one may still arrive."
"""Of an answer as at a time."""


class OutputError(MetajournalError):
    """The output of a command could not be written; its work is done."""

    CODE = "output-not-written"
    HINT = "Free space, or redirect the output. The command has done its work; only its output is lost."


@contextmanager
def writing() -> Iterator[None]:
    """A write of output, which fails as an OutputError; a reader that went away stays a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"The output could not be written: {error.strerror}.") from error


def console(*, stderr: bool = False) -> Console:
    """A console on the current standard output (or error); plain lines of a fixed width when that is no terminal."""
    from .consoles import PatientConsole

    stream: TextIO = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return PatientConsole(file=stream, highlight=False, markup=False, emoji=False)
    plain_file: Any = _Trimmed(stream)  # all that a console asks of a file that is no terminal
    return PatientConsole(file=plain_file, highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)


class _Trimmed:
    """A file whose lines end without the blanks that fill a table's last column."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with writing():
            self._stream.write(_BLANKS.sub("", text))
        return len(text)

    def flush(self) -> None:
        with writing():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def safe(value: object, *, one_line: bool = False) -> str:
    """Text for a terminal: characters that are not seen, or that change how others are, become visible escapes."""
    text = ODD.sub(lambda match: f"\\x{ord(match.group()):02x}", str(value).replace("\r\n", "\n"))
    return " ".join(text.split()) if one_line else text


def named(value: object) -> str:
    """A name as part of a line: `safe`, and its tabs and line ends are visible escapes too."""
    return safe(str(value).replace("\n", "\\n").replace("\t", "\\t"))


def is_plain(text: str) -> bool:
    """Whether a line of standard output can have a text exactly as it is, and whoever reads the line gets it back."""
    return text == text.strip() and named(text) == text and _is_encodable(text)


def print_plain(text: str) -> None:
    """One line of standard output that is exactly this text: one that `is_plain`."""
    with writing():
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def shell_word(text: str) -> str:
    """A word that a shell (bash, zsh, ksh) reads as exactly this text; what does not print is escaped in it."""
    if text.isprintable() and named(text) == text and _is_encodable(text):
        return shlex.quote(text)
    return f"$'{''.join(map(_in_word, text))}'"


def _in_word(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _is_encodable(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shortened(value: object, width: int) -> str:
    """One line of at most `width` characters."""
    text = safe(value, one_line=True)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def print_json(value: object) -> None:
    """One JSON value on one line of standard output; escaped where the output's encoding cannot hold it, or a terminal
    would obey it.
    """
    text = json.dumps(value, ensure_ascii=not _is_utf8(sys.stdout), separators=(",", ":"), default=str)
    text = _OBEYED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    with writing():
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
        sys.stdout.flush()


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").replace("-", "").lower() == "utf8"


def forgive_encodings() -> None:
    """Let text that the output's encoding cannot hold become escapes instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> Listing:
    """A borderless table; the columns named in `right` are set flush right."""
    from .listing import Listing

    return Listing([safe(column) for column in columns], [[_cell(value) for value in row] for row in rows], {*right})


def fields(pairs: Mapping[str, object] | Sequence[tuple[str, object]], *, indent: int = 0) -> Pairs:
    """Name and value, one pair a line."""
    from .listing import Pairs

    listed = pairs.items() if isinstance(pairs, Mapping) else pairs
    return Pairs([(_cell(" " * indent + named(name)), _cell(value)) for name, value in listed])


def _cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else Text(safe(value))


def print_line(text: str, style: str = "", *, out: Console | None = None) -> None:
    """One line, never broken at the width and never read as markup; on standard output where no console is given."""
    from rich.text import Text

    (out or console()).print(Text(as_typed_here(text), style), soft_wrap=True)


def print_more(option: str, value: str) -> None:
    """The option that continues a listing, as it is to be typed."""
    from rich.text import Text

    console().print(Text(f"more: {option} {shell_word(value)}", "dim"), soft_wrap=True)


def verdict(text: str) -> Text:
    """A word that carries a judgement, in the colour of it."""
    from rich.text import Text

    good = {"accepted", "acknowledged", "fine", "running", "unchanged"}
    fair = {"duplicate", "not started", "note", "restarting", "starting", "waiting"}
    return Text(safe(text), style="green" if text in good else "yellow" if text in fair else "red")


def time_text(milliseconds: int | None) -> str:
    """A time in UTC, readable and sortable, to the millisecond."""
    if milliseconds is None:
        return "-"
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)  # a float would lose milliseconds
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def print_error(code: str, message: str, hint: str, *, as_json: bool, data: Mapping[str, Any] | None = None) -> None:
    """A code, one sentence and the next step: on standard error, or as one object on standard output."""
    hint = as_typed_here(hint)
    if as_json:
        print_json(error_json(code, message, hint, data))
        return
    from rich.text import Text

    out = console(stderr=True)
    with suppress(OSError, OutputError):  # where standard error takes nothing either, the exit code alone tells
        out.print(Text.assemble(("error", "bold red"), f"[{code}]: ", safe(message)), soft_wrap=True)
        if hint:
            out.print(Text.assemble(("  next: ", "bold"), safe(hint)), soft_wrap=True)


def note(text: str) -> None:
    """Something to know that is no error, on standard error."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("note", "bold yellow"), ": ", safe(text)), soft_wrap=True)
