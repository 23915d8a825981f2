"""Reads a schema registry that speaks Confluent's API: the newest schema of each subject, its versions and rules.

Invariant: user and password of the address are in no error, property or `repr`, and go to no other host.

Source: Confluent's Schema Registry API reference, version 1 (`/subjects`, `/config`).
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ...schemas.errors import InputError
from ..source import SourceError, SourceUnavailableError

AVRO: Final = "AVRO"
_TIMEOUT_S: Final = 20.0
_MAX_BYTES: Final = 64 * 1024 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Registered:
    """The newest schema of a subject.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        versions: all that there are, oldest first.
        compatibility: the rule for further versions, `BACKWARD`; None: the registry does not say.
        references: names of other schemas that it uses, each with its subject and version.
    """

    subject: str
    kind: str
    text: str
    version: int
    id: int
    versions: tuple[int, ...]
    compatibility: str | None
    references: tuple[str, ...] = ()


class UnreadableSubjectError(Exception):
    """The registry says nothing that makes sense of one subject; the text says why."""


class Registry:
    """A registry.

    Args:
        url: `http://user:password@host:8081`; with the path of its API, if it has one.
    Raises:
        InputError: it is not valid.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _no_registry() from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _no_registry()
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.shown = urlunsplit(
            (parts.scheme, host if port is None else f"{host}:{port}", parts.path.rstrip("/"), "", "")
        )
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._login = b64encode(user.encode()).decode() if parts.username else None

    def subjects(self) -> list[str]:
        """The subjects, sorted.

        Raises:
            SourceError: the registry refuses this user, or is none.
            SourceUnavailableError: it does not answer.
        """
        listed = self._get("/subjects")
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise SourceError(f"{self.shown} is not a schema registry: /subjects is not a list of names.")
        return sorted(listed)

    def default_compatibility(self) -> str | None:
        """The rule for subjects that have none of their own. Raises: as `subjects`."""
        answer = self._get("/config", missing={})
        return _text(answer, "compatibilityLevel")

    def registered(self, subject: str, default: str | None) -> Registered | None:
        """The newest schema of a subject; None: it is gone by now.

        Raises:
            UnreadableSubjectError: what the registry says of it makes no sense.
            SourceError, SourceUnavailableError: as `subjects`.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        newest, versions = self._get(f"{path}/latest", missing=None), self._get(path, missing=None)
        if newest is None or versions is None:
            return None
        if not isinstance(newest, Mapping) or not isinstance(versions, list):
            raise UnreadableSubjectError("The registry's answer is not a schema.")
        text, version, number = newest.get("schema"), newest.get("version"), newest.get("id")
        if not isinstance(text, str) or not isinstance(version, int) or not isinstance(number, int):
            raise UnreadableSubjectError("The registry's answer has no schema, version or id.")
        own = self._get(f"/config/{quote(subject, safe='')}", missing={})
        return Registered(
            subject, str(newest.get("schemaType") or AVRO).upper(), text, version, number,
            tuple(one for one in versions if isinstance(one, int)), _text(own, "compatibilityLevel") or default,
            tuple(_references(newest.get("references"))),
        )  # fmt: skip

    def _get(self, path: str, **otherwise: Any) -> Any:
        """The answer to a request; `missing` where there is no such thing."""
        request = Request(f"{self.shown}{path}", headers={"Accept": _ACCEPT})
        if self._login is not None:
            request.add_unredirected_header("Authorization", f"Basic {self._login}")
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read(_MAX_BYTES))
        except HTTPError as error:
            with error:
                return self._refused(path, error.code, otherwise)
        except (URLError, HTTPException, OSError) as error:
            raise SourceUnavailableError(f"The schema registry {self.shown} does not answer: {_why(error)}") from None
        except ValueError:
            raise SourceUnavailableError(f"The schema registry {self.shown} answers {path} with no JSON.") from None

    def _refused(self, path: str, status: int, otherwise: Mapping[str, Any]) -> Any:
        if status == _NOT_FOUND and "missing" in otherwise:
            return otherwise["missing"]
        if status in (401, 403):
            raise SourceError(
                f"The schema registry {self.shown} refuses this user ({status}).",
                code="not-authenticated",
                hint="Check user and password in its URL; nothing was changed.",
            )
        if status == _NOT_FOUND:
            raise SourceError(
                f"{self.shown} is not a schema registry: there is no {path}.",
                hint="Give the URL below which /subjects is, with its path.",
            )
        raise SourceUnavailableError(f"The schema registry {self.shown} answers {path} with status {status}.")


def _references(listed: Any) -> list[str]:
    references = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return [f"{one.get('name')} ({one.get('subject')} version {one.get('version')})" for one in references]


def _text(answer: Any, key: str) -> str | None:
    value = answer.get(key) if isinstance(answer, Mapping) else None
    return value if isinstance(value, str) and value else None


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError | socket.timeout):
        return f"no answer within {_TIMEOUT_S:g} s"
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def _no_registry() -> InputError:
    """The error does not show the address, which may contain a password."""
    return InputError(
        "This is not a valid URL of a schema registry.",
        code="bad-source-address",
        hint="Write it like http://registry.acme:8081 or https://user:${PASSWORD}@registry.acme/apis/ccompat/v7.",
    )
