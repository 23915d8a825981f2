"""`metajournal serve` in processes of its own, as an installation runs it, for the figures of the gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from metajournal.config import FILE_NAME, FILE_VARIABLE, HOME_VARIABLE
from metajournal.schemas.settings import Settings

_READY_S: Final = 60
_END_S: Final = 30
_ADDRESS: Final = re.compile(r"Serving at http://([0-9.:]+)")


class Server(NamedTuple):
    """A process that serves."""

    address: str
    pid: int

    def threads(self) -> int:
        """How many threads it has."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())

    def pss_mib(self) -> float:
        """Its proportional memory, MiB."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def servers(settings: Settings, count: int) -> Iterator[list[Server]]:
    """Processes that serve one journal, each at a port of its own, until the block ends."""
    own = replace(settings.gateway, host="127.0.0.1", port=0, operator="", drain_s=0, requests_per_s=0)
    with ExitStack() as stack:
        text = _toml(replace(settings, gateway=own))
        yield [stack.enter_context(_server(text)) for _ in range(count)]


@contextmanager
def _server(text: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-serve-") as folder:
        home = Path(folder)
        file, log = home / f"bench-{FILE_NAME}", home / "log"
        file.write_text(text)
        environment = {**os.environ, FILE_VARIABLE: str(file), HOME_VARIABLE: folder}
        with log.open("wb") as said:
            command = [sys.executable, "-m", "metajournal.cli", "serve"]
            process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        try:
            yield Server(_address(process, log), process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    ends = time.monotonic() + _READY_S
    while time.monotonic() < ends and process.poll() is None:
        if found := _ADDRESS.search(log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()}")


def _toml(settings: Settings) -> str:
    return "\n".join(_lines("", settings)) + "\n"


def _lines(path: str, values: Any) -> Iterator[str]:
    """What differs from the defaults, as `section.key = value`."""
    for name, value in _pairs(values):
        key = f"{path}{json.dumps(name)}"
        if is_dataclass(value) or isinstance(value, Mapping):
            yield from _lines(f"{key}.", value)
        elif value is not None:
            yield f"{key} = {json.dumps(value)}"


def _pairs(values: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping):
        yield from values.items()
        return
    default = type(values)()
    for field in fields(values):
        value = getattr(values, field.name)
        if value != getattr(default, field.name):
            yield field.name, value
