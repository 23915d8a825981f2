"""How to start a program that refuses root when we are root (in a container, mostly).

A user namespace is preferred, because files keep their owner; where the kernel forbids it, `setpriv` changes to another
user, who must own the program's folders and be able to reach them.

Invariants: what we write or give away as root is what we made, or the other user did: nothing that a third one has put
in its place, and nothing that a link leads to. A program that is started so ends with the process that started it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import PrivilegeError

_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_OTHER_USER = 65534
_SETPRIV = ("setpriv", f"--reuid={_OTHER_USER}", f"--regid={_OTHER_USER}", "--clear-groups")
_ENDING = (*_SETPRIV, "--pdeathsig=KILL")
"""Whoever changes the user loses the signal of the parent's death that was asked for before; an old setpriv cannot ask
for it again."""
_OUTSIDE = Path("/var/tmp")
_PASSED = 0o011
"""Others may pass a folder on their way to one in it; what is in it they are not told."""


@dataclass(frozen=True, slots=True)
class Unprivileged:
    """A command prefix, and the user who must own the folders (None: they may stay as they are)."""

    way: str
    prefix: tuple[str, ...]
    owner: int | None

    def folder(self, wanted: Path, *, given: bool = False) -> Path:
        """`wanted`, or a folder that the other user can reach when `wanted` lies below a closed one (root's home).

        Such a folder is made here, and is ours: the other user can neither replace it nor anything in it.

        Args:
            given: earlier versions gave it to the other user, so it may be that one's; it is taken back.
        Raises:
            PrivilegeError: somebody else has put something in its place.
        """
        if self.owner is None or _reachable(wanted):
            return wanted
        outside = _OUTSIDE / f"metajournal-{hashlib.sha256(str(wanted).encode()).hexdigest()[:12]}"
        with suppress(FileExistsError):
            outside.mkdir(0o700, parents=True)
        _hold(outside, {os.geteuid(), self.owner} if given else {os.geteuid()})
        return outside

    def give(self, folder: Path, names: Sequence[str]) -> None:
        """Make the user own these folders of a folder, and everything below them; not the folder itself, nor what a
        link leads to.
        """
        if self.owner is None:
            return
        found = folder.stat()
        if found.st_uid == self.owner:  # an earlier version gave it, too
            os.chown(folder, os.geteuid(), -1)
        folder.chmod(stat.S_IMODE(found.st_mode) | _PASSED)
        for name in names:
            _give(folder / name, self.owner)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files, by name, into a folder that may be the other user's: a link in a file's place is replaced.

    Raises:
        PrivilegeError: the folder itself is a link.
    """
    with _opened(folder) as within:
        for name, text in texts.items():
            draft = f"{name}.new"
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=within)
            made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=within)
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(draft, name, src_dir_fd=within, dst_dir_fd=within)


def _hold(folder: Path, makers: set[int]) -> None:
    """Make sure that a folder was made by one of these users and written by nobody else, and make it ours."""
    with _opened(folder) as opened:
        found = os.fstat(opened)
        if found.st_uid not in makers:
            raise _foreign(folder, f"belongs to the user with the id {found.st_uid}")
        if found.st_mode & stat.S_IWOTH:
            raise _foreign(folder, "can be written by every user")
        os.fchown(opened, os.geteuid(), -1)
        os.fchmod(opened, stat.S_IMODE(found.st_mode) | _PASSED)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder that is no link, opened."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise _foreign(folder, "is a link or a file") from error
    try:
        yield opened
    finally:
        os.close(opened)


def _foreign(folder: Path, why: str) -> PrivilegeError:
    return PrivilegeError(
        f"The folder {folder}, which Elasticsearch is to use, {why}: another user may have put it there.",
        code="folder-not-ours",
        hint="Check who created it, then delete it. The next start creates it again; if it held the index, run "
        "`metajournal rebuild index` then.",
    )


def _give(top: Path, owner: int) -> None:
    """Change the owner of a folder and of all below it, link by link and file by file, where they stand."""
    os.chown(top, owner, owner, follow_symlinks=False)
    for _, folders, files, within in os.fwalk(top, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=within, follow_symlinks=False)


@lru_cache(maxsize=1)
def unprivileged() -> Unprivileged:
    """The way that works here.

    Raises:
        PrivilegeError: we are root and none does.
    """
    if os.geteuid() != 0:
        return Unprivileged("ordinary user", (), None)
    if _works(_NAMESPACE):
        return Unprivileged("user namespace", _NAMESPACE, None)
    for prefix in (_ENDING, _SETPRIV):
        if _works(prefix):
            return Unprivileged("setpriv", prefix, _OTHER_USER)
    raise PrivilegeError("Elasticsearch refuses to run as root, and neither unshare nor setpriv works here.")


def _works(prefix: tuple[str, ...]) -> bool:
    """Whether a program started so is not root."""
    if shutil.which(prefix[0]) is None:
        return False
    result = subprocess.run([*prefix, "id", "-u"], capture_output=True, text=True, timeout=10, check=False)
    return result.returncode == 0 and result.stdout.strip() not in {"", "0"}


def _reachable(path: Path) -> bool:
    """Whether everybody may pass every folder above `path`."""
    return all(not above.exists() or above.stat().st_mode & 0o001 for above in path.absolute().parents)
