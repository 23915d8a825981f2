"""The class that a domain from outside gives for its users: `CLIENT` in its file `client`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from .producers.recorded.served import missing_package
from .producers.topics import Epochs
from .schemas.errors import InputError
from .schemas.registry import domain_named, domains, role


class ClientFile(Protocol):
    """The file `client` of a domain."""

    @property
    def CLIENT(self) -> Callable[[Any], Any]:  # noqa: N802  (a constant of the module)
        """What makes of a journal the object that `journal.domain(name)` gives."""


def client_of(epochs: Epochs, name: str) -> Callable[[Any], Any]:
    """What makes a domain's object of a journal.

    Raises:
        InputError: the journal does not serve the domain, or it offers nothing.
        DomainError: its package is not installed here.
    """
    if any(own.name == name for own in domains()):
        raise InputError(
            f"{name} is one of metajournal's own domains.", hint="Ask the journal itself: see its methods."
        )
    served = next((outside for outside in epochs.outside if outside.name == name), None)
    if served is None:
        raise epochs.not_served(name, f"journal.domain({name!r})")
    if name in epochs.refusals:
        raise epochs.refusals[name]
    declared = domain_named(name)
    if declared is None or not declared.package:
        raise missing_package(name, served.package)
    module = role(name, "client")
    if module is None:
        raise InputError(f"The domain {name} of {served.package} offers no questions: it has no file `client`.")
    return cast(ClientFile, module).CLIENT
