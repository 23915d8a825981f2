"""Sessions of pages: a cookie that holds a session's key, and what proves that a form is of that session.

The key is good as a cookie alone, and other keys are not good as one; so processes share no secret. A form bears a
token of the session's key, masked anew in each page, and its sender's browser says where it comes from.
Source: OWASP, Cross-Site Request Forgery Prevention; RFC 6265bis (`__Host-`); Fetch Metadata (Sec-Fetch-Site).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from starlette.requests import Request as HttpRequest

from ..schemas.settings import GatewaySettings
from .principals import Principal
from .problems import HttpError

COOKIE_LENGTH: Final = 512
"""Longest cookie that is looked at."""
FIELD: Final = "token"
"""The field of a form that holds its token."""
_PURPOSE: Final = b"metajournal form"
_BYTES: Final = 32


class SessionsFile(Protocol):
    """The file `sessions` of a domain: the events by which sessions begin and end."""

    @property
    def LASTS_S(self) -> int:  # noqa: N802  (a constant of the module)
        """Seconds that a session lasts."""

    def issued(self, principal: str, now_ms: int) -> tuple[str, Any]:
        """A new session's key, and the event that makes it good."""

    def stale(self, journal: Any, tenant: str, principal: str, now_ms: int) -> Sequence[Any]:
        """The events that end some of a principal's sessions and codes which have expired."""

    def ended(self, principal: str, key_id: str) -> Any:
        """The event that ends a session's key, or a one-time code."""


class Visit(NamedTuple):
    """Somebody who is logged in.

    Args:
        principal: who.
        key: the session's, which is never shown.
    """

    principal: Principal
    key: str

    def __repr__(self) -> str:
        return f"<visit of {self.principal.actor}>"

    def token(self) -> str:
        """A token for a form; each is another text of the same proof, so that compression tells nothing of it."""
        mask = os.urandom(_BYTES)
        return mask.hex() + _mixed(mask, _proof(self.key)).hex()

    def owns(self, token: str) -> bool:
        """Whether a form's token is of this session."""
        try:
            given = bytes.fromhex(token)
        except ValueError:
            return False
        return len(given) == 2 * _BYTES and hmac.compare_digest(
            _mixed(given[:_BYTES], given[_BYTES:]), _proof(self.key)
        )


def _proof(key: str) -> bytes:
    return hmac.digest(key.encode(), _PURPOSE, sha256)


def _mixed(mask: bytes, value: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(mask, value, strict=True))


class Cookies:
    """The session's cookie.

    Args:
        settings: the section `[gateway]`.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.is_secure = settings.certificate is not None or settings.behind_proxy

    def name(self, request: HttpRequest) -> str:
        """What it is called; cookies do not tell ports apart, so without TLS the port is in the name."""
        server = request.scope.get("server")
        return "__Host-mj" if self.is_secure else f"mj-{server[1] if server else 0}"

    def given(self, request: HttpRequest) -> str | None:
        """Its value; None where there is none, or two are given, of which one would be somebody else's doing."""
        name, found = self.name(request), []
        for line in request.headers.getlist("cookie"):
            for pair in line.split(";"):
                key, _, value = pair.strip().partition("=")
                found += [value] if key == name else []
        return found[0] if len(found) == 1 and len(found[0]) <= COOKIE_LENGTH else None

    def set(self, request: HttpRequest, key: str, lasts_s: int) -> str:
        """The header that has a browser keep a session's key; no longer than it lasts."""
        secure = "; Secure" if self.is_secure else ""
        return f"{self.name(request)}={key}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}"

    def dropped(self, request: HttpRequest) -> str:
        """The header that has a browser forget it."""
        return self.set(request, "", 0)


def check_origin(request: HttpRequest, *, is_secure: bool) -> None:
    """Refuse a form that another site's page sent, as the sender's browser says. Raises: HttpError: 403."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = f"{'https' if is_secure else 'http'}://{request.headers.get('host', '')}"
    if site is None and origin is not None:  # browsers that do not say the first say the second
        site = "same-origin" if origin.lower() == own.lower() else "cross-site"
    if site not in (None, "same-origin"):
        raise foreign_form()


def foreign_form() -> HttpError:
    """A form that no page of this session sent."""
    return HttpError(
        403, "This form was not sent from a page of your session; nothing was done.", code="foreign-form",
        hint="Open the page again and send its form.",
    )  # fmt: skip


def safe_address(address: str) -> str:
    """An address of this server to come back to; its first page where the text is another's, or none."""
    path = address.partition("?")[0]
    plain = all("!" <= character <= "~" and character not in "\\#" for character in address)
    if not plain or not path.startswith("/") or path.startswith("//") or path in ("/login", "/logout"):
        return "/"
    return address
