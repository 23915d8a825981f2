"""What can go wrong with the services on one machine, each with the command that mends it.

All of them are `OperatorError` or `UnavailableError`, so that the command line's exit codes follow from the class.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ..schemas.errors import InputError, OperatorError, UnavailableError


class JavaMissingError(OperatorError):
    """No Java was found, or it does not run."""

    CODE: ClassVar[str] = "java-missing"
    HINT: ClassVar[str] = "Install Java 17 or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME."


class JavaVersionError(OperatorError):
    """The Java that was found is too old."""

    CODE: ClassVar[str] = "java-version"
    HINT: ClassVar[str] = "Install Java 17 or newer and set JAVA_HOME to it."
    found: int
    needed: int


class HomeError(InputError):
    """The folder of the services cannot be created or written."""

    CODE: ClassVar[str] = "home-not-writable"
    HINT: ClassVar[str] = (
        "Free space on its disk or correct its permissions, or set METAJOURNAL_HOME to another folder of your own."
    )
    home: Path


class PartsUnavailableError(UnavailableError):
    """The jars or the Elasticsearch zip could not be downloaded."""

    CODE: ClassVar[str] = "parts-unavailable"
    HINT: ClassVar[str] = (
        "Check the network and run the command again: files already downloaded are kept. If you use a mirror, set "
        "METAJOURNAL_IVY_SETTINGS to an Ivy settings file that names it."
    )
    log: Path


class PartsCorruptError(OperatorError):
    """A downloaded file does not match stack/checksums.txt; it was deleted."""

    CODE: ClassVar[str] = "parts-corrupt"
    HINT: ClassVar[str] = (
        "Run the command again to download the file again; if it still differs, do not trust the source."
    )
    files: tuple[str, ...]


class ServerStartError(UnavailableError):
    """A server did not come up; `tail` holds the last lines of its log."""

    CODE: ClassVar[str] = "server-start"
    HINT: ClassVar[str] = "Read the end of the log above; `metajournal doctor` checks what the servers need."
    log: Path
    tail: str

    def __init__(self, name: str, why: str, log: Path, tail: str) -> None:
        shown = "\n".join(f"    {line}" for line in tail.splitlines()) or "    (the log is empty)"
        super().__init__(f"{name} did not start: {why}. The end of {log}:\n{shown}", log=log, tail=tail, why=why)


class PrivilegeError(OperatorError):
    """Elasticsearch refuses to run as root, and it cannot be run as another user here."""

    CODE: ClassVar[str] = "privilege"
    HINT: ClassVar[str] = "Run the command as an ordinary user, or set elasticsearch.url to an existing Elasticsearch."


class AlreadyRunningError(OperatorError):
    """The services of this folder are already running."""

    CODE: ClassVar[str] = "already-running"
    HINT: ClassVar[str] = (
        "`metajournal status` shows them, `metajournal down` stops them; to log in to the pages: "
        "`metajournal access issue-code PRINCIPAL`."
    )
