"""The folder of services that outlive their command: who runs (`run.json`) and how to reach them (`metajournal.toml`).

`run.json` names every process by pid and start time. Invariant: both files are replaced whole, and are the user's alone
to read, for settings may hold secrets.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import urlencode

from ..reporting import replace_file
from ..schemas.settings import GatewaySettings, LakeSettings, Settings, StackSettings
from .errors import AlreadyRunningError, HomeError
from .process import ProcessId, read_state

RUN_FILE: Final = "run.json"
SETTINGS_FILE: Final = "metajournal.toml"
COMPONENTS: Final = ("kafka", "elasticsearch", "stream", "indexer", "gateway")
"""In the order in which they start."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One component as it was started."""

    keeper: ProcessId
    since_ms: int
    log: str
    state: str
    """Path of what its keeper says."""
    endpoint: str | None = None
    ports: tuple[int, ...] = ()

    @property
    def works(self) -> bool:
        return self.keeper.alive and read_state(Path(self.state)).get("exit_code") is None


@dataclass(frozen=True, slots=True)
class Run:
    """What `up` has started; the ports are kept for the next time."""

    lake: str = ""
    home: str = ""
    """The folder that it was written in; a copy or a folder that was moved speaks of processes that are not its own."""
    components: Mapping[str, Entry] = field(default_factory=dict)
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def with_entry(self, name: str, entry: Entry) -> Run:
        ports = {**self.ports, name: entry.ports} if entry.ports else self.ports
        return replace(self, components={**self.components, name: entry}, ports=ports)

    def with_ports(self, ports: Mapping[str, tuple[int, ...]]) -> Run:
        return replace(self, ports=ports)

    def without(self, *names: str) -> Run:
        return self.only([name for name in self.components if name not in names])

    def only(self, names: Collection[str]) -> Run:
        return replace(self, components={key: value for key, value in self.components.items() if key in names})

    @property
    def alive(self) -> list[str]:
        return [name for name, entry in self.components.items() if entry.keeper.alive]

    @property
    def working(self) -> list[str]:
        """Those that run now, in the order of their start; one that waits to be started again does not."""
        return [name for name in COMPONENTS if name in self.components and self.components[name].works]


def read_run(home: Path) -> Run:
    """What stands in run.json; nothing when it is not there or damaged."""
    try:
        run = json.loads((home / RUN_FILE).read_text(encoding="utf-8"))
        components = {name: _entry(**entry) for name, entry in run["components"].items()}
        ports = {name: tuple(numbers) for name, numbers in run["ports"].items()}
        own = run["home"] == str(home)
        return Run(run["lake"], str(home), components, ports) if own else Run(ports=ports)
    except (OSError, ValueError, KeyError, TypeError):
        return Run()


def gateway_address(home: Path) -> str | None:
    """Where the gateway answers that `up` has started in a folder; None where it does not run."""
    entry = read_run(home).components.get("gateway")
    return entry.endpoint if entry is not None and entry.works else None


def login_link(address: str, code: str) -> str:
    """The page that logs in with a one-time code, once its button is pressed; opening it uses nothing."""
    return f"{address}/login?{urlencode({'code': code})}"


def _entry(keeper: Mapping[str, Any], ports: list[int], **rest: Any) -> Entry:
    return Entry(keeper=ProcessId(**keeper), ports=tuple(ports), **rest)


def write_run(home: Path, run: Run) -> None:
    """Replace run.json.

    Raises:
        HomeError: it cannot be written.
    """
    write_private(home / RUN_FILE, json.dumps(asdict(replace(run, home=str(home))), indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file whole, readable by its owner only.

    Raises:
        HomeError: it cannot be written; the former one stands.
    """
    try:
        replace_file(path, text, mode=0o600)
    except OSError as error:
        raise HomeError(f"{path} cannot be written: {error.strerror}.", home=path.parent) from error


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Only one command at a time starts or ends the services of a folder."""
    with _lock_file(home, ".lock") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _lock_file(home: Path, name: str) -> TextIO:
    """A file of a home to lock, in a folder that is made where it is missing.

    Raises:
        HomeError: it cannot be written.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        return (home / name).open("w", encoding="utf-8")
    except OSError as error:
        raise HomeError(f"The home folder {home} cannot be written: {error.strerror}.", home=home) from error


@contextmanager
def only_one(home: Path, name: str) -> Iterator[None]:
    """One process of this name for each home, for as long as the block runs; however it ends, the next may begin.

    Raises:
        AlreadyRunningError: another one runs.
    """
    with _lock_file(home, f".{name}.lock") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunningError(f"A {name} of {home} is already running.", home=home) from error
        yield


def settled(
    settings: Settings, home: Path, *, bootstrap_servers: str, elasticsearch_url: str,
    gateway_ports: tuple[int, int] | None = None,
) -> Settings:  # fmt: skip
    """The settings with which everything in this home reaches everything else.

    Args:
        gateway_ports: of the gateway and of its operator; None: as they are set.
    """
    lake = settings.lake
    default = LakeSettings().path
    path = str(home / "lake") if lake.path == default else lake.path
    if "://" not in path:
        path = str(Path(path).expanduser().absolute())
    return replace(
        settings,
        kafka={**settings.kafka, "bootstrap.servers": bootstrap_servers},
        elasticsearch=replace(settings.elasticsearch, url=elasticsearch_url),
        lake=replace(lake, path=path),
        stack=StackSettings(home=str(home)),
        gateway=_with_ports(settings.gateway, *gateway_ports) if gateway_ports else settings.gateway,
    )


def _with_ports(gateway: GatewaySettings, port: int, operator: int) -> GatewaySettings:
    host = gateway.operator.rpartition(":")[0]
    return replace(gateway, port=port, operator=f"{host}:{operator}" if host else gateway.operator)


def settings_text(settings: Settings, home: Path | None = None) -> str:
    """The settings that differ from the defaults, as TOML (JSON strings and keys are TOML's as well).

    Args:
        home: the folder that the text is for: folders in it are named as seen from there, so it can be moved.
    """
    if home is not None:
        lake, stack = settings.lake, settings.stack
        settings = replace(
            settings, lake=replace(lake, path=_seen_from(home, lake.path)), stack=replace(stack, home=".")
        )
    lines = ["# Written by `metajournal up`: how to reach the services of this folder.\n"]
    for part in fields(settings):
        section, default = getattr(settings, part.name), getattr(Settings(), part.name)
        values = dict(section) if isinstance(section, Mapping) else _different(section, default)
        if values:
            lines += [f"\n[{part.name}]\n", *(f"{_key(key)} = {_toml(value)}\n" for key, value in values.items())]
    return "".join(lines)


def _seen_from(home: Path, path: str) -> str:
    inside = "://" not in path and Path(path).is_relative_to(home)
    return str(Path(path).relative_to(home)) if inside else path


def _different(section: Any, default: Any) -> dict[str, Any]:
    assert is_dataclass(section)
    values = {option.name: getattr(section, option.name) for option in fields(section)}
    return {key: value for key, value in values.items() if value != getattr(default, key) and value is not None}


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
