"""Reading of settings: the one place that looks at files and the environment.

Where a key is said more than once, the first of these wins: arguments, environment (`METAJOURNAL__SECTION__KEY`), the
file named by `METAJOURNAL_CONFIG` or else `./metajournal.toml`, the file that the running stack of `metajournal up`
left in its home, defaults. Unknown keys are refused and types checked, and every value remembers where it came from.
Left to others: what the keys mean (schemas/settings), which of Kafka's keys exist (librdkafka) and may be set
(producers/kafka).
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from .schemas.errors import ConfigError
from .schemas.header import TENANT_PATTERN
from .schemas.settings import Settings

ENVIRONMENT: Final = "METAJOURNAL__"
FILE_VARIABLE: Final = "METAJOURNAL_CONFIG"
HOME_VARIABLE: Final = "METAJOURNAL_HOME"
FILE_NAME: Final = "metajournal.toml"
MASK: Final = "********"
DEFAULT: Final = "default"
_OTHER_HOME: Final = f"Set {HOME_VARIABLE} to a folder of your own."

_SECRET: Final = re.compile(
    r"password|secret|token|api[._]?key|access[._]key|account[._]key|key\.pem|oauthbearer\.config", re.I
)
_USER_IN_URL: Final = re.compile(r"(?<=://)[^/@]+@")
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_AT_LEAST_ONE: Final = frozenset(
    {"journal.partitions", "client.queue_events", "stream.max_events_per_batch", "stream.cache_rows",
     "indexer.bulk_documents", "indexer.bulk_bytes"}
)  # fmt: skip
_ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "log.format": ("auto", "text", "json"),
    "log.level": ("debug", "info", "warning", "error"),
}
_FOLDERS: Final = frozenset({"lake.path", "stack.home"})
_UNDERSCORED_KAFKA: Final = frozenset({"log_level"})


class Said(NamedTuple):
    """A value as it was said, and where."""

    value: Any
    origin: str


class Shown(NamedTuple):
    """One line of `metajournal config show`; secrets are masked."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each key (`section.key`) where its value comes from."""

    settings: Settings
    origins: Mapping[str, str]

    def shown(self) -> list[Shown]:
        """Every key with its value for people to read."""
        return [Shown(key, masked(key, value), self.origins.get(key, DEFAULT)) for key, value in _flat(self.settings)]


def load_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """Read the settings from everywhere.

    Args:
        arguments: `{"client.queue_events": 10}` or `{"client": {"queue_events": 10}}`.
        environ: the environment; the process's own where None.
        folder: where `metajournal.toml` is looked for; the working folder where None.
    Raises:
        ConfigError: a key is unknown, a value has the wrong type, a file is missing or no TOML.
    """
    environment = os.environ if environ is None else environ
    said: dict[str, Said] = {}
    # From the weakest source to the strongest.
    for file in _files(environment, folder or Path()):
        said |= _beside(file, _from_mapping(_read_toml(file), f"file {file}"))
    said |= _from_environment(environment)
    said |= _from_mapping(arguments or {}, "argument")
    return Loaded(_build(said), {key: one.origin for key, one in said.items()})


def load(file: str | None = None, assignments: Sequence[str] = ()) -> Loaded:
    """Read the settings as a command line asks for them.

    Args:
        file: settings file to read instead of `./metajournal.toml`.
        assignments: `section.key=value`, stronger than everything else.
    Raises:
        ConfigError: as `load_settings`, or an assignment has no `=`.
    """
    arguments: dict[str, str] = {}
    for one in assignments:
        key, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"{one!r} sets nothing.", hint="Write section.key=value.", key=one)
        arguments[key.strip()] = value
    if file and not Path(file).is_file():
        raise ConfigError(f"--config names {file}, which is no file.", hint="Correct the path, or leave --config away.")
    environment = {**os.environ, FILE_VARIABLE: file} if file else os.environ
    return load_settings(arguments, environ=environment)


def home(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the stack that `metajournal up` starts."""
    environment = os.environ if environ is None else environ
    named = environment.get(HOME_VARIABLE)
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".metajournal"


def is_secret(key: str) -> bool:
    """Whether a key's value must never be shown."""
    return _SECRET.search(key) is not None


def masked(key: str, value: Any) -> str:
    """A value for people to read: secrets masked, also a password inside a URL."""
    if value is None:
        return ""
    return MASK if is_secret(key) else _USER_IN_URL.sub(f"{MASK}@", str(value))


def _files(environment: Mapping[str, str], folder: Path) -> Iterator[Path]:
    stack = home(environment) / FILE_NAME
    try:
        there = stack.is_file()
    except OSError as error:
        raise ConfigError(
            f"The home folder {stack.parent} cannot be read: {error.strerror}.", hint=_OTHER_HOME
        ) from error
    if there:
        yield stack
    named = environment.get(FILE_VARIABLE)
    file = Path(named) if named else folder / FILE_NAME
    if named and not file.is_file():
        raise ConfigError(f"{FILE_VARIABLE} names {named}, which is no file.", hint="Correct or unset the variable.")
    if file.is_file() and file.resolve() != stack.resolve():
        yield file


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", hint="Correct the file; it is TOML.") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Said]:
    said: dict[str, Said] = {}
    for name, value in sorted(environment.items()):
        if name.startswith(ENVIRONMENT):
            section, _, key = name.removeprefix(ENVIRONMENT).partition("__")
            path = f"{section.lower()}.{_environment_key(section.lower(), key)}"
            said |= _said(path, value, f"environment {name}")
    return said


def _environment_key(section: str, key: str) -> str:
    if section == "kafka":
        lower = key.lower()
        return lower if lower in _UNDERSCORED_KAFKA else lower.replace("_", ".")
    first, separator, rest = key.partition("__")
    return f"{first.lower()}.{rest}" if separator else first.lower()


def _beside(file: Path, said: dict[str, Said]) -> dict[str, Said]:
    """What a file said; folders of `_FOLDERS` that do not begin at the root begin at the file's own."""
    for key in _FOLDERS & said.keys():
        value, origin = said[key]
        if isinstance(value, str) and value and "://" not in value and not value.startswith("~"):
            said[key] = Said(str(file.absolute().parent.joinpath(value)), origin)
    return said


def _from_mapping(mapping: Mapping[str, Any], origin: str) -> dict[str, Said]:
    said: dict[str, Said] = {}
    for path, value in _leaves("", mapping):
        said |= _said(path, value, origin)
    return said


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), inner)
    else:
        yield path, value


def _said(path: str, value: Any, origin: str) -> dict[str, Said]:
    """The value under its key; a secret's `..._file` is read, so that the secret itself stands nowhere else."""
    key = re.sub(r"[._]file$", "", path, flags=re.I)
    if key == path or not is_secret(key):
        _known(path, origin)
        return {path: Said(value, origin)}
    _known(key, origin)
    try:
        return {key: Said(Path(value).read_text("utf-8").rstrip("\r\n"), f"{origin} ({value})")}
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} ({origin}) names a file that cannot be read: {error}.", key=path) from error


def _known(path: str, origin: str) -> None:
    """Refuse a key that there is not, with the nearest one that there is."""
    section, _, key = path.partition(".")
    types = _types()
    known = section in types and (section == "kafka" or key in types[section] or _option_of(section, key) is not None)
    if known and key:
        return
    names = [*(f"{one}.{name}" for one, keys in types.items() for name in keys), "kafka.bootstrap.servers"]
    near = difflib.get_close_matches(path, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"The sections are {', '.join(types)}."
    raise ConfigError(f"There is no setting {path} ({origin}).", hint=hint, key=path)


def _option_of(section: str, key: str) -> str | None:
    """The mapping-valued key that a longer key stands in (`lake.storage_options.AWS_REGION`)."""
    name, _, rest = key.partition(".")
    return name if rest and get_origin(_types()[section].get(name)) is not None and _is_mapping(section, name) else None


def _is_mapping(section: str, name: str) -> bool:
    origin = get_origin(_types()[section][name])
    return isinstance(origin, type) and issubclass(origin, Mapping)


@cache
def _types() -> dict[str, dict[str, Any]]:
    """Type of every key, by section; the `kafka` section has keys of its own."""
    sections = get_type_hints(Settings)
    return {name: {} if name == "kafka" else get_type_hints(kind) for name, kind in sections.items()}


def _build(said: Mapping[str, Said]) -> Settings:
    defaults = Settings()
    sections: dict[str, Any] = {"kafka": dict(defaults.kafka)}
    for section in _types():
        if section != "kafka":
            sections[section] = {}
    for path, one in said.items():
        section, _, key = path.partition(".")
        option = None if section == "kafka" else _option_of(section, key)
        if section == "kafka":
            sections[section][key] = _text(path, one)
        elif option is not None:
            sections[section].setdefault(option, {})[key[len(option) + 1 :]] = _text(path, one)
        else:
            sections[section][key] = _checked(path, one, _types()[section][key])
    kinds = get_type_hints(Settings)
    built = {name: values if name == "kafka" else kinds[name](**values) for name, values in sections.items()}
    return Settings(**built)


def _text(path: str, one: Said) -> str:
    if isinstance(one.value, bool):
        return str(one.value).lower()
    if isinstance(one.value, str | int | float):
        return str(one.value)
    raise _wrong(path, one, "text")


def _checked(path: str, one: Said, kind: Any) -> Any:
    optional = isinstance(kind, UnionType) and NoneType in get_args(kind)
    if optional:
        [kind] = [part for part in get_args(kind) if part is not NoneType]
        if one.value is None or one.value == "":
            return None
    value = _converted(path, one, kind)
    if isinstance(value, int | float) and not value >= (1 if path in _AT_LEAST_ONE else 0):
        raise _wrong(path, one, "a number of at least 1" if path in _AT_LEAST_ONE else "a number not below 0")
    if path in _ONE_OF and value not in _ONE_OF[path]:
        raise _wrong(path, one, f"one of {', '.join(_ONE_OF[path])}")
    if path == "journal.tenant" and not TENANT_PATTERN.fullmatch(value):
        raise _wrong(path, one, f"a name like {TENANT_PATTERN.pattern}")
    if path == "journal.prefix" and not _PREFIX.fullmatch(value):
        raise _wrong(path, one, "the beginning of a topic's name (letters, digits, '.', '_', '-')")
    return value


def _converted(path: str, one: Said, kind: Any) -> Any:
    value, from_text = one.value, isinstance(one.value, str) and not one.origin.startswith("file")
    if kind is str and isinstance(value, str):
        return value
    if kind is bool and (isinstance(value, bool) or (from_text and value.lower() in ("true", "false"))):
        return value if isinstance(value, bool) else value.lower() == "true"
    if kind in (int, float) and not isinstance(value, bool):
        try:
            return kind(value) if from_text or isinstance(value, int | kind) else _refuse()
        except ValueError:
            pass
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    raise _wrong(path, one, names.get(kind, f"names and texts, each said by itself as {path}.NAME=TEXT"))


def _refuse() -> Any:
    raise ValueError


def _wrong(path: str, one: Said, needed: str) -> ConfigError:
    said = MASK if is_secret(path) else repr(one.value)
    return ConfigError(f"{path} must be {needed}, not {said} ({one.origin}).", hint="Correct the value.", key=path)


def _flat(settings: Settings) -> Iterator[tuple[str, Any]]:
    for section in fields(settings):
        values = getattr(settings, section.name)
        pairs = (
            values.items()
            if isinstance(values, Mapping)
            else [(f.name, getattr(values, f.name)) for f in fields(values)]
        )
        for name, value in pairs:
            if isinstance(value, Mapping):
                yield from ((f"{section.name}.{name}.{key}", one) for key, one in value.items())
            else:
                yield f"{section.name}.{name}", value
