"""The `git` executable: which repository it reads, what it answers, and conversations with it.

Left to whom: what is asked, and what the answers mean, is `reading`'s. Invariants: no setting of the user's, no pager
and no language of theirs changes an answer; nothing in the repository is written, locked or fetched; history is what
the objects say, without replacements. Whether git may read a repository that another user owns is git's to say.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from ....schemas.errors import InputError, UnavailableError

_SETTINGS: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_MOST_SAID: Final = 400
_CHUNK_BYTES: Final = 1 << 16
_QUOTED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
"""What stands for a sign within the quotes of a file of git's settings."""


class Git:
    """A git repository as the executable reads it.

    Args:
        path: the repository, or a folder in its work tree.
    Raises:
        UnavailableError: there is no executable `git`.
        InputError: there is no git repository, or its history is not all there (shallow, partial or grafted).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise _none(f"{path} is not a folder.")
        self._config = _config(_trusted())
        self._settings = {**_SETTINGS, "GIT_CONFIG_GLOBAL": self._config.name}
        try:
            self._check_complete()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the file with git's settings; further calls do nothing."""
        self._config.close()

    def _check_complete(self) -> None:
        asked = ("--is-shallow-repository", "--git-common-dir")
        try:
            told = self.answer("rev-parse", *asked)
        except InputError as error:
            raise _none(error.message) from error
        shallow, common = told.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n", 1)
        if shallow == "true":
            raise _incomplete(f"{self.path} is a shallow clone: older commits are missing.", "git fetch --unshallow")
        if self.answer("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$", fine=(0, 1)):
            raise _incomplete(f"{self.path} is a partial clone: objects are missing.", "Clone it without --filter.")
        if (self.path / common / "info" / "grafts").exists():
            raise _incomplete(f"{self.path} has grafts, which change its history.", "Remove .git/info/grafts.")

    def answer(self, *words: str, fine: Sequence[int] = (0,)) -> bytes:
        """What a command prints.

        Args:
            words: the command and its arguments.
            fine: exit codes that are no failure.
        Raises:
            InputError: the command failed; its own words say why. UnavailableError: there is no `git`.
        """
        with self.talk(*words) as talk:
            printed = talk.printed.read()
            talk.end(fine)
        return printed

    def lines(self, *words: str, given: Sequence[str] = ()) -> Iterator[str]:
        """The lines that a command prints, while it prints them.

        Args:
            given: lines on its standard input, few enough for it to read before it prints anything.
        Raises:
            InputError, UnavailableError: as `answer`.
        """
        with self.talk(*words) as talk:
            talk.say("".join(f"{line}\n" for line in given))
            talk.asked.close()
            for line in talk.printed:
                yield line.decode("utf-8", "surrogateescape").removesuffix("\n")
            talk.end()

    def talk(self, *words: str) -> Talk:
        """A command that is asked and answers, until the block ends."""
        return Talk(self.path, words, self._settings)


def _trusted() -> list[str]:
    """The one setting of the user's that counts: of which folders git may read repositories that others own."""
    asked = ("git", "config", "--null", "--get-all", "safe.directory")
    try:
        found = subprocess.run(asked, capture_output=True, check=False, stdin=subprocess.DEVNULL, cwd=os.sep).stdout
    except FileNotFoundError:
        return []
    return found.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _config(folders: Sequence[str]) -> IO[bytes]:
    """A file with git's settings for as long as it is open: before 2.38 git takes trusted folders from files alone."""
    lines = ["[safe]\n", *(f'\tdirectory = "{folder.translate(_QUOTED)}"\n' for folder in folders)]
    file = tempfile.NamedTemporaryFile(prefix="metajournal-", suffix=".gitconfig")  # noqa: SIM115  (closed with `Git`)
    file.write("".join(lines).encode("utf-8", "surrogateescape"))
    file.flush()
    return file


class Talk:
    """A running command of git; a context manager that ends it.

    Attributes:
        asked: its standard input.
        printed: its standard output.
    """

    def __init__(self, path: Path, words: Sequence[str], settings: Mapping[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "-C", str(path), *words]
        self._words, self._path = words, path
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env={**kept, **settings}
            )
        except FileNotFoundError as error:
            self._said.close()
            raise UnavailableError(
                "There is no executable `git`.", code="no-git", hint="Install git, or put it on the PATH."
            ) from error
        self.asked: IO[bytes] = _piped(self._process.stdin)
        self.printed: IO[bytes] = _piped(self._process.stdout)

    def say(self, text: str) -> None:
        """Write to its standard input. Raises: InputError: it has ended."""
        try:
            self.asked.write(text.encode())
            self.asked.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def line(self) -> bytes:
        """The next line that it prints, without its end. Raises: InputError: it has ended."""
        line = self.printed.readline()
        if not line.endswith(b"\n"):
            raise self._failed()
        return line[:-1]

    def read(self, count: int) -> bytes:
        """The next bytes that it prints. Raises: InputError: it has ended."""
        found = self.printed.read(count)
        if len(found) < count:
            raise self._failed()
        return found

    def some(self) -> bytes:
        """What it has printed by now, at least one byte. Raises: InputError: it has ended."""
        found: bytes = self.printed.read1(_CHUNK_BYTES)  # type: ignore[attr-defined]  # a pipe is buffered
        if not found:
            raise self._failed()
        return found

    def end(self, fine: Sequence[int] = (0,)) -> None:
        """Wait for its end. Raises: InputError: it failed."""
        if self._process.wait() not in fine:
            raise self._failed()

    def close(self) -> None:
        """End it, whatever it is doing; further calls do nothing."""
        self._process.kill()
        for pipe in (self.asked, self.printed):
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()
        self._said.close()

    def _failed(self) -> InputError:
        self._process.kill()
        self._process.wait()
        self._said.seek(0)
        said = self._said.read(_MOST_SAID).decode(errors="replace").strip() or "it ended early"
        message = f"git {self._words[0]} failed in {self._path}: {said}"
        return InputError(message, code="git-failed", hint="Try the same with git itself: git fsck, git log.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _piped(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # both were asked for
    return pipe


def _none(message: str) -> InputError:
    return InputError(message, code="no-git-repository", hint="Name a folder that git has made: git clone, git init.")


def _incomplete(message: str, hint: str) -> InputError:
    return InputError(message, code="incomplete-history", hint=hint)
