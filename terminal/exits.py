"""How the command line ends: exit codes, and errors as a code, one sentence and the next step.

    0 fine    1 found a problem    2 usage or configuration    3 cannot reach a service    4 not allowed
    130 interrupted    141 the reader of a pipe went away

Who interrupts a command gets one line on standard error; code that knows what is left adds a note to the exception.
Invariant: a person never sees a stack trace, unless asked for by METAJOURNAL_TRACE=1.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click

from ..schemas.errors import (
    ConfigError,
    InputError,
    MetajournalError,
    NotFinalError,
    NotYetVisibleError,
    PositionExpired,
    UnavailableError,
    UnknownEntityError,
    UnknownEventError,
)
from ..schemas.masking import scrubbed
from ..values import plain
from .inputs import check_arguments
from .logs import log_error
from .rendering import OutputError, forgive_encodings, print_error, safe, writing

FINE, PROBLEM, USAGE, UNREACHABLE, FORBIDDEN, INTERRUPTED, PIPE = 0, 1, 2, 3, 4, 130, 141

COMPLETION = "_METAJOURNAL_COMPLETE"  # set by the shell's completion, which click answers

_ONLY_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # a group without a command; since click 8.2

_POINTS = {"--as-at": "--as-of", "--as-of": "--as-at"}
"""Options with names alike: what the journal held at a point, and what was true at a time."""

_NOT_ALLOWED = ("not-allowed", "not-authorized", "not-authenticated")
_BY_CLASS: tuple[tuple[type[MetajournalError], int], ...] = (  # the first that fits counts
    (UnknownEntityError, PROBLEM),
    (UnknownEventError, PROBLEM),
    (PositionExpired, PROBLEM),
    (NotYetVisibleError, PROBLEM),
    (NotFinalError, PROBLEM),
    (UnavailableError, UNREACHABLE),
    (InputError, USAGE),
    (ConfigError, USAGE),
)


def exit_code(error: MetajournalError) -> int:
    """The exit code of an error."""
    if error.code in _NOT_ALLOWED:
        return FORBIDDEN
    return next((code for cls, code in _BY_CLASS if isinstance(error, cls)), PROBLEM)


class Commands(click.Group):
    """The root group; it alone turns what a command raises into messages and exit codes.

    A command returns its exit code, or None for 0.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if not standalone_mode or COMPLETION in os.environ:
            return super().main(words, prog_name, complete_var, standalone_mode, **extra)

        if not _outputs_are_open():
            return sys.exit(USAGE)
        forgive_encodings()
        given: list[Any] = []

        def run() -> Any:  # click's own main answers a broken pipe with 1, which here means "found a problem"
            check_arguments(words)
            try:
                with self.make_context(prog_name or "metajournal", words, **extra) as context:
                    given.append(context)
                    return self.invoke(context)
            except click.exceptions.Exit as left:
                return left.exit_code

        def logged() -> bool:
            return any(getattr(context.obj, "logs_json", False) for context in given)

        def hidden() -> Sequence[str]:
            return [text for context in given for text in getattr(context.obj, "hidden", ())]

        return leave(ended(run, as_json="--json" in words, logged=logged, hidden=hidden, advise=self.advise))

    def advise(self, error: MetajournalError) -> str:
        """The next thing to try after an error, as it is printed."""
        return error.hint


def _outputs_are_open() -> bool:
    """Whether there is a standard output; where it is closed, the next file or connection opened would be taken for it.

    A closed standard error becomes nothing.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (for the rest of the process)
    if sys.stdout is None:
        print_error("usage", "Standard output is closed.", "Send it to /dev/null instead.", as_json=False)
    return sys.stdout is not None


def ended(
    run: Callable[[], Any],
    *,
    as_json: bool,
    logged: Callable[[], bool] = lambda: False,
    hidden: Callable[[], Sequence[str]] = lambda: (),
    advise: Callable[[MetajournalError], str] = lambda error: error.hint,
) -> int:
    """Run a command and return its exit code, its errors printed; or logged, where its log is JSON lines.

    Args:
        hidden: gives the texts that no error shows, once the settings were read.
        advise: gives the next thing to try after an error.
    """
    try:
        return _exit_of(run, as_json, logged, hidden, advise)
    except BrokenPipeError:
        _forget(sys.stdout)
        return PIPE
    except OutputError as error:  # the error itself may have been the output, so it goes to standard error
        _forget(sys.stdout)
        print_error(error.code, error.message, error.hint, as_json=False)
        return exit_code(error)


def _exit_of(
    run: Callable[[], Any],
    as_json: bool,
    logged: Callable[[], bool],
    hidden: Callable[[], Sequence[str]],
    advise: Callable[[MetajournalError], str],
) -> int:
    """As `ended`, but for output that nobody takes. Raises: BrokenPipeError, OutputError."""
    try:
        result = run()
        with writing():
            sys.stdout.flush()
        return result if isinstance(result, int) else FINE
    except (KeyboardInterrupt, click.Abort) as interrupt:
        _tell_interrupted(interrupt, hidden(), is_logged=logged() and not as_json)
        return INTERRUPTED
    except (BrokenPipeError, OutputError):
        raise
    except click.ClickException as error:
        return _usage(error, as_json)
    except MetajournalError as error:
        message, hint = scrubbed(error.message, hidden()), scrubbed(advise(error), hidden())
        if logged() and not as_json:
            log_error(error.code, message, hint)
        else:
            print_error(error.code, message, hint, as_json=as_json, data=_scrubbed(plain(error.data), hidden()))
        return exit_code(error)
    except Exception as error:
        if _is_of_printing(error):
            raise OutputError(f"The output could not be written: {cast(OSError, error).strerror}.") from error
        if os.environ.get("METAJOURNAL_TRACE") == "1":
            with suppress(OSError):
                sys.stderr.write(scrubbed(traceback.format_exc(), hidden()))
            return PROBLEM
        text = scrubbed(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, hidden())
        _check_stdout()
        hint = "This is a bug in metajournal: please report it with the output of METAJOURNAL_TRACE=1."
        print_error("internal", text.split("\n")[0], hint, as_json=as_json)
        return PROBLEM


def _tell_interrupted(interrupt: BaseException, hidden: Sequence[str], *, is_logged: bool) -> None:
    """One line: that the command was interrupted, and what the code that knows more has added as notes."""
    notes = [note.strip() for note in getattr(interrupt, "__notes__", ())]
    text = scrubbed(" ".join(["Interrupted.", *notes]), hidden)
    if is_logged:
        log_error("interrupted", text, "")
        return
    with suppress(OSError, ValueError):  # where standard error does not take it, the exit code alone tells
        sys.stderr.write(safe(text, one_line=True) + "\n")
        sys.stderr.flush()


def _is_of_printing(error: Exception) -> bool:
    """Whether it is what click prints by itself, help and version, that could not be written."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, OSError) and bool(frames) and frames[-1].filename == click.utils.__file__


def _scrubbed(value: Any, hidden: Sequence[str]) -> Any:
    """A value of JSON whose texts show nothing hidden."""
    if isinstance(value, dict):
        return {key: _scrubbed(entry, hidden) for key, entry in value.items()}
    if isinstance(value, list):
        return [_scrubbed(entry, hidden) for entry in value]
    return scrubbed(value, hidden) if isinstance(value, str) else value


def _check_stdout() -> None:
    """Tell what click could not print (help, a script) as what it is: it stays in the buffer. Raises: OutputError."""
    with writing():
        sys.stdout.flush()


def _usage(error: click.ClickException, as_json: bool) -> int:
    if isinstance(error, _ONLY_HELP) and not as_json:
        sys.stderr.write(error.format_message() + "\n")
        return USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "metajournal"
    print_error("usage", _said(error), f"{command} --help", as_json=as_json)
    return USAGE


def _said(error: click.ClickException) -> str:
    """What click says; --as-of, which asks something else, is not suggested for --as-at, nor the other way round."""
    name = getattr(error, "option_name", None)
    if name in _POINTS and _POINTS[name] in (getattr(error, "possibilities", None) or ()):
        return f"{error.message} {_POINTS[name]} asks something else; `metajournal show` takes {name}."
    return error.format_message()


def leave(code: int) -> NoReturn:
    """End the process with this code, also where standard error has not taken everything (Python would say 120)."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _forget(sys.stderr)
    sys.exit(code)


def _forget(output: TextIO) -> None:
    """Point an output at nothing, so that the interpreter's last flush does not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    except (OSError, ValueError):
        return
