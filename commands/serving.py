"""`metajournal serve`: the journal over HTTP, until stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import getpid
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import TYPE_CHECKING, Final

import click

from ..reporting import ReportFile
from ..schemas.errors import MissingExtraError, OutcomeUnknownError
from ..terminal.options import Options, options
from ..terminal.rendering import print_line
from .journals import journal_of

if TYPE_CHECKING:
    from ..client import Journal
    from ..gateway.principals import Principals

STATUS_FILE: Final = "gateway.json"
_log = logging.getLogger("metajournal.gateway")
_TOLD_S: Final = 0.5
_FIRST_S: Final = 60.0
FIRST: Final = "admin"
"""The principal that `up` makes where there is none."""
PACKAGES: Final = frozenset(
    {"starlette", "uvicorn", "msgspec", "httptools", "uvloop", "prometheus_client", "jinja2", "markupsafe"}
)


@click.command(short_help="Serve the journal over HTTP, until stopped.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: gateway.host).")
@click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Port to listen on (default: gateway.port).")
@options
def serve(given: Options, /, host: str | None, port: int | None) -> None:
    """Serve the journal over HTTP, until stopped by SIGTERM or Ctrl-C.

    Any number of processes may serve one journal. Beyond this machine it needs gateway.certificate and
    gateway.private_key, or gateway.behind_proxy.
    """
    from dataclasses import replace

    try:
        from ..gateway.server import check_reach, serving_settings
        from ..gateway.server import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise MissingExtraError("gateway", "Serving over HTTP") from error
    given.start_logging()
    own = given.settings.gateway
    own = replace(own, host=own.host if host is None else host, port=own.port if port is None else port)
    check_reach(own)
    give_memory_back()
    with _answered_already(), journal_of(given, serving_settings(given.settings)) as journal:
        principals = principals_of(journal, own.access_stale_s)
        try:
            with telling(given.home) as ready:
                run(journal, principals, own, ready)
        finally:
            principals.close()


@contextmanager
def _answered_already() -> Iterator[None]:
    """Events that Kafka did not acknowledge: whoever sent them was answered so (504), and the server's end is none."""
    try:
        yield
    except OutcomeUnknownError as error:
        _log.warning("%s Their senders were answered with 504.", error.message)


@contextmanager
def telling(home: Path) -> Iterator[Callable[[str], None]]:
    """Say in the home's file once a second how this process is, as `metajournal status` reads it.

    Gives:
        What is called once it answers requests.
    """
    report, ended, served = ReportFile(home / STATUS_FILE), Event(), Event()

    def tell(state: str) -> None:
        report.replace(lambda: {"written_ms": round(time() * 1000), "pid": getpid(), "state": state})

    def repeat() -> None:
        while not ended.wait(_TOLD_S):
            tell("running" if served.is_set() else "starting")

    thread = Thread(target=repeat, name="metajournal-status", daemon=True)
    thread.start()
    try:
        yield lambda address: served.set()
    finally:
        ended.set()
        thread.join()
        tell("ended")


def give_memory_back() -> None:
    """Have what was read for a question given back to the system once it is answered.

    Arrow's own allocator keeps it for each thread that reads: of eight that list objects some 100 MiB.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def principals_of(journal: Journal, stale_s: float) -> Principals:
    """Who may ask: as the journal of rights has it, in this process.

    Args:
        stale_s: seconds without news of that journal's end after which nobody is answered.
    Raises:
        UnservedDomainError: the journal does not serve access.
    """
    from ..gateway.principals import Followed

    return Followed(journal.access.keep(stale_s=stale_s))


def print_way_in(home: Path, address: str) -> None:
    """Make the first principal where there is none yet, and print how to get in.

    Args:
        home: of the installation that has just been started.
        address: of its gateway.
    """
    from ..client import Journal
    from ..config import load
    from ..stack.home import SETTINGS_FILE, login_link

    with Journal.connect(load(str(home / SETTINGS_FILE)).settings) as journal:
        access = journal.access
        known = access.principals()
        if known:
            name = FIRST if FIRST in {one.name for one in known if one.enabled} else "PRINCIPAL"
            print_line(f"The gateway is at {address}. To log in there: metajournal access issue-code {name}")
            return
        access.register(FIRST)
        access.grant(FIRST, ("admin", "*"))
        issued = access.issue_key(FIRST, label="first key, by `metajournal up`")
        code = access.issue_code(FIRST)
        access.keys(FIRST, timeout_s=_FIRST_S)  # they are there, whether or not the stream has got that far
    print_line(f"The gateway is at {address}. Log in once, within ten minutes, as its first principal, {FIRST}:")
    print_line(login_link(address, code.key.text))
    print_line(f"Another link: metajournal access issue-code {FIRST}", "dim")
    print_line("Its key for programs, shown only now:")
    print_line(issued.key.text)
    print_line(f'Try: curl -H "Authorization: Bearer $KEY" {address}/api/v1/access/me', "dim")


SERVING: tuple[click.Command, ...] = (serve,)
