"""The default actor of events: the operating system's user that runs the process."""

from __future__ import annotations

import os
from functools import cache
from getpass import getuser

from ..schemas.settings import Settings


def actor_of(settings: Settings) -> str | None:
    """The actor of events that do not name one, by these settings; None: nobody is named."""
    actor = settings.journal.actor
    return system_user() if actor is None else actor or None


@cache
def system_user() -> str:
    """The user of this process; its number if the system has no name for it, as in some containers."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except ImportError:
        return getuser()
    except KeyError:
        return str(os.geteuid())
