"""Places of a lakehouse: a folder of this machine or of an object store, how it is opened, and errors in plain words.

Invariant: credentials are in the storage options and the environment only: no error, property, name or `repr` shows
them. A place that cannot be reached, or is empty, is an error, so that its tables never look as if they were gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
from pyarrow import fs

from ...domains.catalog.naming import data, namespace_of
from ...schemas.errors import InputError
from ...schemas.masking import scrubbed
from ...schemas.urn import Urn
from ..source import SourceError, SourceUnavailableError

FILE: Final = "file"
STORES: Final = ("s3", "gs", "abfss")
"""Schemes of the object stores, as they stand in names."""
_SPELLINGS: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", re.DOTALL)
_S3: Final = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
    "aws_region": "region",
    "aws_endpoint_url": "endpoint_override",
}
"""Storage options of delta-rs, and what pyarrow calls them."""
_REFUSED: Final = (
    "access denied",
    "access_denied",
    "accessdenied",
    "forbidden",
    "invalidaccesskeyid",
    "invalid_access_key_id",
    "signaturedoesnotmatch",
    "signature_does_not_match",
    "unauthorized",
    "permission denied",
    "http status 401",
    "http status 403",
)
"""Words in stores' messages that mean access was denied: each store has its own codes."""
_MISSING: Final = ("nosuchbucket", "no_such_bucket", "bucket does not exist")
_NAMES: Final = re.compile(r"'[^']*'|https?://\S+")
_BROKEN: Final = (
    "network_connection",
    "curlcode",
    "error sending request",
    "connection refused",
    "connection reset",
    "timed out",
    "timeout",
    "service_unavailable",
    "internal_failure",
    "slow_down",
    "server returned non-2xx status code: 5",
    "http status 5",
)
"""Words in stores' messages that mean that the store does not answer, or stopped answering."""
_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables are.

    Attributes:
        namespace: the store's or this machine's name in lineage, `s3://bucket`, `file`.
        path: below it, without a slash at the end; of this machine absolute.
    """

    namespace: str
    path: str
    _bucket: str | None
    """URL of the bucket; None for a folder of this machine."""
    _options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, text: str, storage: Sequence[str] = (), namespace: str | None = None) -> Place:
        """Read a path or a URL.

        Args:
            storage: options of the object store as delta-rs names them, `KEY=VALUE`.
            namespace: another name for it.
        Raises:
            InputError: it is not valid.
        """
        options = dict(map(_option, storage))
        url = _URL.fullmatch(text)
        if url is None or url[1].lower() == FILE:
            path = text if url is None else f"/{url[3]}"
            if not path or (url is not None and url[2]):
                raise _no_place()
            path = Path(os.path.abspath(Path(path).expanduser())).as_posix()  # noqa: PTH100, for `..` is not followed
            return cls(namespace_of(namespace) if namespace else FILE, path, None, options)
        scheme = url[1].lower()
        scheme = _SPELLINGS.get(scheme, scheme)
        if scheme not in STORES or not url[2] or (scheme == "s3" and "@" in url[2]) or ":" in url[2].split("@")[0]:
            raise _no_place()
        own = f"{scheme}://{url[2]}"
        return cls(namespace_of(namespace) if namespace else own, url[3].rstrip("/"), own, options)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return self._bucket is None

    def urn_of(self, path: str) -> Urn:
        """The URN of a path; of a whole bucket that of `/`. Raises: InvalidUrnError: it does not fit into a URN."""
        return data(self.namespace, path or "/")

    @property
    def shown(self) -> str:
        """It for people."""
        return self.path if self.is_local else f"{self._bucket}/{self.path}"

    def uri(self, path: str) -> str:
        """Where delta-rs finds a table."""
        return path if self.is_local else f"{self._bucket}/{path}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the store for delta-rs."""
        options = dict(self._options)
        endpoint = options.get("aws_endpoint_url") or _endpoint()
        if endpoint and (self._bucket or "").startswith("s3:"):
            options.setdefault("aws_endpoint_url", endpoint)
            options.setdefault("aws_allow_http", str(endpoint.startswith("http://")).lower())
        return options

    def opened(self) -> fs.FileSystem:
        """Its file system; paths in it are those that follow the namespace.

        Raises:
            SourceError: the store refuses its options.
        """
        if self.is_local:
            return fs.LocalFileSystem()
        try:
            return fs.SubTreeFileSystem(*self._store())
        except (OSError, ValueError, pa.ArrowException, TypeError) as error:
            self.fail(error)

    def _store(self) -> tuple[str, fs.FileSystem]:
        scheme, _, bucket = (self._bucket or "").partition("://")
        if scheme != "s3":
            store, path = fs.FileSystem.from_uri(f"{self._bucket}/")
            return path, store
        named = {_S3[key]: value for key, value in self._options.items() if key in _S3}
        if "endpoint_override" not in named and (endpoint := _endpoint()):
            named["endpoint_override"] = endpoint  # which pyarrow does not look for
        if "region" not in named and (region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            named["region"] = region
        elif "region" not in named and "endpoint_override" in named:
            named["region"] = "us-east-1"  # or it would be asked of Amazon
        store = fs.S3FileSystem(
            **named, connect_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3),
        )  # fmt: skip
        return bucket, store

    def is_broken(self, error: BaseException) -> bool:
        """Whether an error means that the store does not answer, so that to go on makes no sense."""
        return not self.is_local and _says(error, _BROKEN)

    def fail(self, error: BaseException) -> NoReturn:
        """Raises: SourceError, SourceUnavailableError: the store's message, without secrets."""
        text = self.reason(error)
        if _says(error, _REFUSED):
            raise SourceError(
                f"{self.shown} refuses access: {text}",
                code="not-authenticated",
                hint="Check the storage options or the permissions; nothing was changed.",
            ) from None
        if isinstance(error, FileNotFoundError | NotADirectoryError) or _says(error, _MISSING):
            raise SourceError(
                f"There is no folder {self.shown}.", code="source-not-found", hint="Check the path."
            ) from None
        raise SourceUnavailableError(f"{self.shown} cannot be read completely: {text}") from None

    def reason(self, error: BaseException) -> str:
        """A store's message on one line, without what the options hold."""
        words = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
        secrets = {value for key, value in self._options.items() if "region" not in key and len(value) > 3}
        return scrubbed(words, secrets)[:300] or type(error).__name__


def _says(error: BaseException, words: Sequence[str]) -> bool:
    """Whether an error has one of these words, other than in the names in it."""
    text = _NAMES.sub("", str(error)).lower()
    return any(word in text for word in words)


def _endpoint() -> str | None:
    """The S3 server that the environment names, if it names one."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError(
            "A storage option is not KEY=VALUE.",
            code="bad-storage-option",
            hint="Write it like --storage aws_region=eu-central-1, by the names that delta-rs uses.",
        )
    return key.strip().lower(), value


def _no_place() -> InputError:
    """The error does not show the address, which may contain a key."""
    return InputError(
        "This is not a valid path or URL of a folder.",
        code="bad-source-address",
        hint="Write it like /data/lake, s3://bucket/lake, gs://bucket/lake or "
        "abfss://container@account.dfs.core.windows.net/lake; keys belong into the environment or --storage.",
    )
