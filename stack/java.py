"""Finds the Java that Spark, Kafka, Elasticsearch and Ivy run on, and checks its version before one fails oddly.

What to install is said by the errors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import JavaMissingError, JavaVersionError
from .versions import JAVA_MINIMUM

_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be used."""

    executable: Path
    major: int
    version: str

    @property
    def home(self) -> Path:
        return self.executable.resolve().parent.parent


def find_java() -> Java:
    """The Java of JAVA_HOME, else of PATH.

    Raises:
        JavaMissingError: there is none, or it does not run.
        JavaVersionError: it is older than 17.
    """
    return _inspect(_executable(os.environ.get("JAVA_HOME"), os.environ.get("PATH")))


def _executable(java_home: str | None, path: str | None) -> Path:
    if java_home:
        inside = Path(java_home) / "bin" / "java"
        if not inside.is_file():
            raise JavaMissingError(f"JAVA_HOME is {java_home}, which contains no bin/java.")
        return inside
    executable = shutil.which("java", path=path)
    if executable is None:
        raise JavaMissingError("No Java was found: JAVA_HOME is not set and PATH contains no java.")
    return Path(executable)


@lru_cache(maxsize=8)
def _inspect(executable: Path) -> Java:
    try:
        result = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{executable} does not run: {error}.") from error
    match = _VERSION.search(result.stderr + result.stdout)
    if result.returncode != 0 or match is None:
        raise JavaMissingError(f"{executable} -version does not print a Java version.")
    major = int(match[1])
    if major < JAVA_MINIMUM:
        raise JavaVersionError(
            f"{executable} is Java {major}, version {JAVA_MINIMUM} or newer is needed.",
            found=major,
            needed=JAVA_MINIMUM,
        )
    return Java(executable, major, match[1] + match[2])
