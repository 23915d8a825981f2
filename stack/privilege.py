"""How to start a program that refuses root when we are root (in a container, mostly).

A user namespace is preferred, because files keep their owner; where the kernel forbids it, `setpriv` changes to another
user, who must own the program's folders and be able to reach them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import PrivilegeError

_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_OTHER_USER = 65534
_SETPRIV = ("setpriv", f"--reuid={_OTHER_USER}", f"--regid={_OTHER_USER}", "--clear-groups")
_OUTSIDE = Path("/var/tmp")


@dataclass(frozen=True, slots=True)
class Unprivileged:
    """A command prefix, and the user who must own the folders (None: they may stay as they are)."""

    way: str
    prefix: tuple[str, ...]
    owner: int | None

    def folder(self, wanted: Path) -> Path:
        """`wanted`, or a folder that the other user can reach when `wanted` lies below a closed one (root's home)."""
        if self.owner is None or _reachable(wanted):
            return wanted
        return _OUTSIDE / f"metajournal-{hashlib.sha256(str(wanted).encode()).hexdigest()[:12]}"

    def give(self, folder: Path) -> None:
        """Make the user own everything below a folder."""
        if self.owner is None:
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.owner, self.owner)


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
    if _works(_SETPRIV):
        return Unprivileged("setpriv", _SETPRIV, _OTHER_USER)
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
