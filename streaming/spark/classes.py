"""An archive of the classes that Spark's start loads (JEP 350): read and verified once per machine, mapped ever after.

It halves the processor time of a start. Only ever a gain: a Java that finds it unfit ignores it, and where none can be
made Spark starts without. Left to others: the start that is recorded (`rehearsal`), the real ones (`session`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)
_RECORDING_S: Final = 180
_SCRATCH: Final = "recording-"
_UNUSED_S: Final = 7 * 86_400
"""How long an archive of another Spark or Java stays after its last use: each takes 150 MB."""


def archive_of(folder: Path) -> Path | None:
    """Where in a folder the archive for this Java and this Spark is, or would be.

    Returns:
        None where there is no Java or no Spark. A file without content says that none could be made.
    """
    try:
        lines = [_java(), *map(_line_of, _spark_jars())]
    except (OSError, UnicodeDecodeError) as error:
        _log.debug("Spark's classes have no archive: %s", error)
        return None
    digest = hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()
    return folder / f"classes-{digest[:12]}.jsa"


def archived_beside(jars: Sequence[str]) -> list[str]:
    """Java's option that takes classes from the archive in the jars' folder; nothing where there is none."""
    path = archive_of(Path(jars[0]).parent) if jars else None
    if path is None or not path.is_file() or not path.stat().st_size:
        return []
    with suppress(OSError):  # of another user
        os.utime(path)
    return [f"-XX:SharedArchiveFile={path}"]


def record(path: Path) -> None:
    """Record the archive: about half a minute, in a process of its own. Nobody else may do so in this folder meanwhile.

    Raises:
        OSError: its folder cannot be written.
    """
    for left in path.parent.glob(f"{_SCRATCH}*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_SCRATCH) as scratch:
        recorded = Path(scratch, path.name)
        if _interrupted(recorded):
            return
        recorded.touch()
        for other in path.parent.glob("classes-*.jsa"):
            if other.stat().st_mtime < time.time() - _UNUSED_S:
                other.unlink()
        recorded.replace(path)


def _interrupted(path: Path) -> bool:
    """Rehearse; whether a signal from elsewhere ended it, which says nothing about the next attempt."""
    command = [sys.executable, "-m", f"{__package__}.rehearsal", str(path)]
    quiet = subprocess.DEVNULL
    # The pipe tells the other process, however this one ends, that nobody waits any more.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as rehearsal:
        try:
            rehearsal.wait(_RECORDING_S)
        except subprocess.TimeoutExpired:
            rehearsal.kill()
            return False
    return rehearsal.returncode < 0


def _java() -> str:
    """Which Java Spark will run on, as the file `release` in its folder says it."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    return java.resolve(strict=True).parents[1].joinpath("release").read_text("utf-8")


def _spark_jars() -> list[Path]:
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (Path(spec.origin).parent if spec and spec.origin else "")
    return sorted(Path(home, "jars").resolve(strict=True).glob("*.jar"))


def _line_of(jar: Path) -> str:
    known = jar.stat()
    return f"{jar} {known.st_size} {known.st_mtime_ns}"
