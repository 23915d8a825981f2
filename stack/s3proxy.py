"""Starts a real object store (S3Proxy) on 127.0.0.1, which speaks S3 and keeps its objects in a folder.

For trying out a lake in a store, and for tests; `metajournal up` starts none.

    python -m metajournal.stack.s3proxy FOLDER [BUCKET]

makes the bucket, prints the settings of a lake in it, and serves until it is stopped. The same folder started again
holds the same objects.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .jars import ensure_parts
from .java import find_java
from .parts import Parts
from .ports import HOST, answers, free_ports, is_free
from .process import keep
from .progress import shown
from .server import Server, start_with_ports, wait_ready

JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dsun.jnu.encoding=UTF-8")
REGION: Final = "us-east-1"
BUCKET: Final = "lake"
_USER: Final = "metajournal"
_PASSWORD_FILE: Final = "password"
_LOGGING: Final = """\
<configuration>
  <appender name="log" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %message%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""


@dataclass(frozen=True)
class ObjectStore:
    """A running store.

    Attributes:
        server: the process; its `endpoint` is the store's URL.
        options: what reaches it, as `lake.storage_options` takes it.
    """

    server: Server
    options: Mapping[str, str] = field(repr=False)

    def make_bucket(self, name: str = BUCKET) -> None:
        """Make a bucket where there is none of that name (3 to 63 letters and digits)."""
        import pyarrow.fs as pafs

        files = pafs.S3FileSystem(
            access_key=self.options["AWS_ACCESS_KEY_ID"],
            secret_key=self.options["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.server.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )
        files.create_dir(name)


def start_s3proxy(parts: Parts, folder: Path, *, port: int = 0, timeout_s: float = 60) -> ObjectStore:
    """Start a store with its objects in `folder`, and wait until it answers.

    Args:
        port: used when it is free; another one is picked otherwise.
    Raises:
        JavaMissingError, JavaVersionError: there is no Java for it.
        ServerStartError: it did not come up; the end of its log is in the error.
    """
    java = find_java()
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    password = _password(folder)
    (folder / "logback.xml").write_text(_LOGGING, "utf-8")
    wished = [(port,)] if port and is_free(port) else []

    def start(chosen: tuple[int, ...]) -> Server:
        (own,) = chosen
        endpoint = f"http://{HOST}:{own}"
        configuration = folder / "s3proxy.properties"
        configuration.touch(0o600)
        configuration.write_text(_properties(endpoint, password, folder / "objects"), "ascii")
        class_path = os.pathsep.join(map(str, parts.files("s3proxy")))
        logging = "-Dlogback.configurationFile=logback.xml"
        command = [str(java.executable), *JVM, logging, "-cp", class_path, "org.gaul.s3proxy.Main"]
        kept = keep("s3proxy", [*command, "--properties", configuration.name], folder=folder)
        ready_s = wait_ready(kept, lambda: answers(own), timeout_s=timeout_s)
        return Server("S3Proxy", endpoint, chosen, kept, ready_s)

    server = start_with_ports(start, lambda: wished.pop() if wished else tuple(free_ports(1)))
    return ObjectStore(server, options_of(server.endpoint, password))


def options_of(endpoint: str, password: str) -> dict[str, str]:
    """What reaches a store of ours, as `lake.storage_options` takes it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": _USER,
        "AWS_SECRET_ACCESS_KEY": password,
    }


def _password(folder: Path) -> str:
    """The store's password, drawn once."""
    file = folder / _PASSWORD_FILE
    if not file.exists():
        file.touch(0o600)
        file.write_text(secrets.token_urlsafe(24), "ascii")
    return file.read_text("ascii")


def _properties(endpoint: str, password: str, objects: Path) -> str:
    """The text of its settings. The folder is an absolute one: below a relative one it loses uploads in parts."""
    lines = {
        "s3proxy.endpoint": endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": _USER,
        "s3proxy.credential": password,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
        "jclouds.filesystem.basedir": _escaped(str(objects.absolute())),
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _escaped(text: str) -> str:
    """A value as java.util.Properties reads it."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[start : start + 2]) for start in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def main(arguments: Sequence[str]) -> int:
    """`python -m metajournal.stack.s3proxy FOLDER [BUCKET]`: serve until stopped."""
    if not 1 <= len(arguments) <= 2:
        sys.stderr.write("usage: python -m metajournal.stack.s3proxy FOLDER [BUCKET]\n")
        return 2
    folder, bucket = Path(arguments[0]).absolute(), arguments[1] if len(arguments) > 1 else BUCKET
    stopped = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopped.set())
    with shown() as report:
        store = start_s3proxy(ensure_parts(("s3proxy",), report=report), folder)
    try:
        store.make_bucket(bucket)
        sys.stdout.write(_as_settings(store, folder, bucket))
        sys.stdout.flush()
        stopped.wait()
    finally:
        store.server.stop()
    return 0


def _as_settings(store: ObjectStore, folder: Path, bucket: str) -> str:
    plain = {name: value for name, value in store.options.items() if name != "AWS_SECRET_ACCESS_KEY"}
    lines = ["[lake]", f'path = "s3://{bucket}/lake"', "", "[lake.storage_options]"]
    lines += [f'{name} = "{value}"' for name, value in plain.items()]
    lines += ["", f"# export METAJOURNAL__LAKE__STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY=$(cat '{folder}/password')"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
