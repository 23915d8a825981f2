"""`metajournal serve`: the journal over HTTP, until stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..schemas.errors import MissingExtraError
from ..terminal.options import Options, options
from .journals import journal_of

if TYPE_CHECKING:
    from ..client import Journal
    from ..gateway.principals import Principals

_PACKAGES = frozenset({"starlette", "uvicorn", "msgspec", "httptools", "uvloop", "prometheus_client"})


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
        from ..gateway.server import check_reach
        from ..gateway.server import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError("gateway", "Serving over HTTP") from error
    given.start_logging()
    own = given.settings.gateway
    own = replace(own, host=own.host if host is None else host, port=own.port if port is None else port)
    check_reach(own)
    with journal_of(given) as journal:
        principals = principals_of(journal, own.access_stale_s)
        try:
            run(journal, principals, own)
        finally:
            principals.close()


def principals_of(journal: Journal, stale_s: float) -> Principals:
    """Who may ask: as the journal of rights has it, in this process.

    Args:
        stale_s: seconds without news of that journal's end after which nobody is answered.
    Raises:
        UnservedDomainError: the journal does not serve access.
    """
    from ..gateway.principals import Followed

    return Followed(journal.access.keep(stale_s=stale_s))


SERVING: tuple[click.Command, ...] = (serve,)
