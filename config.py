"""Reading of settings: the one place that looks at files and the environment.

Where a key is said more than once, the first of these wins: arguments, environment (`METAJOURNAL__SECTION__KEY`), the
file named by `METAJOURNAL_CONFIG` or else `./metajournal.toml`, the file that the running stack of `metajournal up`
left in its home, defaults. Unknown keys are refused and types checked, and every value remembers where it came from.
Invariant: a `./metajournal.toml` that nobody named may have come with the folder, from anybody; what could run a
program is not taken from it.
Left to others: what the keys mean (schemas/settings), which may be shown and which are harmless (schemas/setting_keys),
which of Kafka's keys exist (librdkafka) and may be set (producers/kafka).
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from .producers.actor import system_user
from .schemas.errors import ConfigError
from .schemas.header import TENANT_PATTERN
from .schemas.kinds import KIND_PATTERN
from .schemas.setting_keys import MASK as MASK
from .schemas.setting_keys import decides_who_gets_secrets, is_harmless, is_plain, pairs, value_shown
from .schemas.settings import Settings

ENVIRONMENT: Final = "METAJOURNAL__"
FILE_VARIABLE: Final = "METAJOURNAL_CONFIG"
HOME_VARIABLE: Final = "METAJOURNAL_HOME"
FILE_NAME: Final = "metajournal.toml"
DEFAULT: Final = "default"
_OTHER_HOME: Final = f"Set {HOME_VARIABLE} to a folder of your own."

_SECRET: Final = re.compile(
    r"password|passphrase|secret|token|api[._]?key|(access|account|sas)[._]key|key\.pem|oauthbearer\.config", re.I
)
"""Keys that can be set by the name of a file that holds the value."""
_NAMES_A_FILE: Final = re.compile(r"lake\.storage_options\..*_token_file", re.I)
"""Options of the object store that want the name of a file themselves."""
_ASSIGNED: Final = re.compile(r"[A-Za-z0-9_.-]*")
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ACTOR: Final = "journal.actor"
_AT_LEAST_ONE: Final = frozenset(
    {"journal.partitions", "client.queue_events", "stream.max_events_per_batch", "stream.cache_rows",
     "indexer.bulk_documents", "indexer.bulk_bytes", "client.kept_bytes", "gateway.kept_bytes"}
)  # fmt: skip
_MOST_PORT: Final = 65_535
_PORTS: Final = frozenset(
    {"gateway.port", "stream.metrics_port", "indexer.metrics_port", "client.metrics_port"}
)  # fmt: skip
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "gateway.audit": ("changes", "reads"),
    "log.format": ("auto", "text", "json"),
    "log.level": ("debug", "info", "warning", "error"),
}
_FOLDERS: Final = frozenset({"lake.path", "stack.home"})
_UNDERSCORED_KAFKA: Final = frozenset({"log_level"})


class SourcedValue(NamedTuple):
    """A value as it was said, and where."""

    value: Any
    origin: str


class Shown(NamedTuple):
    """One line of `metajournal config show`; what is not known to be no secret is masked."""

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
        return [self._shown(key, value) for key, value in pairs(self.settings)]

    def _shown(self, key: str, value: Any) -> Shown:
        if key == _ACTOR and value is None:
            return Shown(key, system_user(), "operating system")
        return Shown(key, value_shown(key, value), self.origins.get(key, DEFAULT))


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
        ConfigError: a key is unknown, a value has the wrong type, a file is missing or no TOML, or the file of the
            working folder, which nobody named, says what could run a program.
    """
    environment = os.environ if environ is None else environ
    by_path: dict[str, SourcedValue] = {}
    unnamed: Path | None = None
    # From the weakest source to the strongest.
    for file, is_named in _files(environment, folder or Path()):
        values = _read_toml(file)
        if not is_named:
            _refuse_harmful(file, values)
            unnamed = file
        by_path |= _beside(file, _from_mapping(values, f"file {file}"))
    by_path |= _from_environment(environment)
    by_path |= _from_mapping(arguments or {}, "argument")
    if unnamed is not None:
        _refuse_foreign_places(unnamed, by_path)
    return Loaded(_build(by_path), {key: sourced.origin for key, sourced in by_path.items()})


def load(file: str | None = None, assignments: Sequence[str] = ()) -> Loaded:
    """Read the settings as a command line asks for them.

    Args:
        file: settings file to read instead of `./metajournal.toml`.
        assignments: `section.key=value`, stronger than everything else.
    Raises:
        ConfigError: as `load_settings`, or an assignment has no `=`.
    """
    arguments: dict[str, str] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            [key] = _ASSIGNED.findall(assignment)[:1]  # what follows may be the value, after a colon or a blank
            raise ConfigError(f"--set {key} sets nothing.", hint="Write section.key=value.", key=key)
        arguments[key.strip()] = value
    if file and not Path(file).is_file():
        raise ConfigError(f"--config names {file}, which is not a file.", hint="Correct the path, or omit --config.")
    environment = {**os.environ, FILE_VARIABLE: file} if file else os.environ
    return load_settings(arguments, environ=environment)


def home(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the stack that `metajournal up` starts."""
    environment = os.environ if environ is None else environ
    named = environment.get(HOME_VARIABLE)
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".metajournal"


def is_secret(key: str) -> bool:
    """Whether a key's value is a secret, which can be said by the name of a file too."""
    return _SECRET.search(key) is not None


def _files(environment: Mapping[str, str], folder: Path) -> Iterator[tuple[Path, bool]]:
    """The settings files that there are, the weakest first; and whether somebody named them, or `up` wrote them."""
    stack = home(environment) / FILE_NAME
    try:
        there = _is_there(stack)
    except OSError as error:
        raise ConfigError(
            f"The home folder {stack.parent} cannot be read: {error.strerror}.", hint=_OTHER_HOME
        ) from error
    if there:
        yield stack, True
    named = environment.get(FILE_VARIABLE)
    file = Path(named) if named else folder / FILE_NAME
    if named and not file.is_file():
        raise ConfigError(f"{FILE_VARIABLE} names {named}, which is not a file.", hint="Correct or unset the variable.")
    if _is_there(file) and file.resolve() != stack.resolve():
        yield file, bool(named)


def _is_there(file: Path) -> bool:
    """Whether there is a settings file. Raises: ConfigError: there is something else of that name."""
    if file.is_file():
        return True
    if os.path.lexists(file):
        raise ConfigError(f"{file} is not a file that can be read.", hint="Remove it, or put a settings file there.")
    return False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", hint="Correct the file; it is TOML.") from error


def _refuse_harmful(file: Path, values: Mapping[str, Any]) -> None:
    """Refuse a file that nobody named where it says more than a stranger may say.

    Raises:
        ConfigError: a key may run a program, load code, or send a file's content or a login of this machine.
    """
    for path, value in _leaves("", values):
        key = _without_file(path)
        _known(key or path, f"file {file}")
        if key is not None or not is_harmless(path, value):
            raise ConfigError(
                f"{path} is not accepted from {file}, which was found in the working folder but not named "
                "explicitly: it is not known to be harmless (such a key may run a program, load code or read a file).",
                hint=f"If the file is yours, name it: --config {file.name}, or {FILE_VARIABLE}={file.name};"
                " or set the key in the environment.",
                key=path,
            )


def _refuse_foreign_places(file: Path, by_path: Mapping[str, SourcedValue]) -> None:
    """Refuse a file that nobody named where it says to whom a secret goes that was set elsewhere.

    Raises:
        ConfigError: names the place and the secret.
    """
    own = f"file {file}"
    for path, sourced in by_path.items():
        if sourced.origin != own or not decides_who_gets_secrets(path):
            continue
        section = path.partition(".")[0]
        for secret, value in by_path.items():
            if secret.startswith(f"{section}.") and not is_plain(secret) and not value.origin.startswith(own):
                raise ConfigError(
                    f"{path} is not accepted from {file}, which was found in the working folder but not named "
                    f"explicitly: it would decide where {secret} goes, which is set elsewhere ({value.origin}).",
                    hint=f"If the file is yours, name it: --config {file.name}, or {FILE_VARIABLE}={file.name};"
                    f" or set {path} where {secret} is set.",
                    key=path,
                )


def _from_environment(environment: Mapping[str, str]) -> dict[str, SourcedValue]:
    by_path: dict[str, SourcedValue] = {}
    for name, value in sorted(environment.items()):
        if name.startswith(ENVIRONMENT):
            section, _, key = name.removeprefix(ENVIRONMENT).partition("__")
            path = f"{section.lower()}.{_environment_key(section.lower(), key)}"
            by_path |= _sourced(path, value, f"environment {name}")
    return by_path


def _environment_key(section: str, key: str) -> str:
    if section == "kafka":
        lower = key.lower()
        return lower if lower in _UNDERSCORED_KAFKA else lower.replace("_", ".")
    first, separator, rest = key.partition("__")
    return f"{first.lower()}.{rest}" if separator else first.lower()


def _beside(file: Path, by_path: dict[str, SourcedValue]) -> dict[str, SourcedValue]:
    """What a file said; folders of `_FOLDERS` that do not begin at the root begin at the file's own."""
    for key in _FOLDERS & by_path.keys():
        value, origin = by_path[key]
        if isinstance(value, str) and value and "://" not in value and not value.startswith("~"):
            by_path[key] = SourcedValue(str(file.absolute().parent.joinpath(value)), origin)
    return by_path


def _from_mapping(mapping: Mapping[str, Any], origin: str) -> dict[str, SourcedValue]:
    by_path: dict[str, SourcedValue] = {}
    for path, value in _leaves("", mapping):
        by_path |= _sourced(path, value, origin)
    return by_path


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), inner)
    else:
        yield path, value


def _sourced(path: str, value: Any, origin: str) -> dict[str, SourcedValue]:
    """The value under its key; a secret's `..._file` is read, so that the secret itself stands nowhere else."""
    key = _without_file(path)
    if key is None:
        _known(path, origin)
        return {path: SourcedValue(value, origin)}
    _known(key, origin)
    try:
        return {key: SourcedValue(Path(value).read_text("utf-8").rstrip("\r\n"), f"{origin} ({value})")}
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} ({origin}) names a file that cannot be read: {error}.", key=path) from error


def _without_file(path: str) -> str | None:
    """The secret whose file a key names; None where it names none."""
    key = re.sub(r"[._]file$", "", path, flags=re.I)
    return key if key != path and is_secret(key) and not _NAMES_A_FILE.fullmatch(path) else None


def _known(path: str, origin: str) -> None:
    """Refuse a key that there is not, with the nearest one that there is."""
    section, _, key = path.partition(".")
    types = _types()
    known = section in types and (section == "kafka" or key in types[section] or _option_of(section, key) is not None)
    if known and key:
        return
    names = [*(f"{group}.{name}" for group, keys in types.items() for name in keys), "kafka.bootstrap.servers"]
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


def _build(by_path: Mapping[str, SourcedValue]) -> Settings:
    defaults = Settings()
    sections: dict[str, Any] = {"kafka": dict(defaults.kafka)}
    for section in _types():
        if section != "kafka":
            sections[section] = {}
    for path, sourced in by_path.items():
        section, _, key = path.partition(".")
        option = None if section == "kafka" else _option_of(section, key)
        if section == "kafka":
            sections[section][key] = _text(path, sourced)
        elif option is not None:
            sections[section].setdefault(option, {})[key[len(option) + 1 :]] = _text(path, sourced)
        else:
            sections[section][key] = _checked(path, sourced, _types()[section][key])
    kinds = get_type_hints(Settings)
    built = {name: values if name == "kafka" else kinds[name](**values) for name, values in sections.items()}
    return Settings(**built)


def _text(path: str, sourced: SourcedValue) -> str:
    if isinstance(sourced.value, bool):
        return str(sourced.value).lower()
    if isinstance(sourced.value, str | int | float):
        return str(sourced.value)
    raise _wrong(path, sourced, "text")


def _checked(path: str, sourced: SourcedValue, kind: Any) -> Any:
    optional = isinstance(kind, UnionType) and NoneType in get_args(kind)
    if optional:
        [kind] = [part for part in get_args(kind) if part is not NoneType]
        if sourced.value is None or sourced.value == "":
            return "" if path == _ACTOR else None  # who says that nobody emits has said it
    value = _converted(path, sourced, kind)
    if isinstance(value, int | float) and not value >= (1 if path in _AT_LEAST_ONE else 0):
        raise _wrong(path, sourced, "a number of at least 1" if path in _AT_LEAST_ONE else "a number of at least 0")
    if path in _PORTS and value > _MOST_PORT:
        raise _wrong(path, sourced, f"a port, at most {_MOST_PORT}")
    if path.startswith("gateway.") and isinstance(value, float) and not isfinite(value):
        raise _wrong(path, sourced, "a finite number")
    if path in _ONE_OF and value not in _ONE_OF[path]:
        raise _wrong(path, sourced, f"one of {', '.join(_ONE_OF[path])}")
    if path == "gateway.hosts" and not all(map(_HOST.fullmatch, value)):
        raise _wrong(path, sourced, "names of hosts without a port, separated by commas")
    if path == "journal.custom_kinds" and not all(map(KIND_PATTERN.fullmatch, value)):
        raise _wrong(path, sourced, f"kinds that match {KIND_PATTERN.pattern}, separated by commas")
    if path == "journal.tenant" and not TENANT_PATTERN.fullmatch(value):
        raise _wrong(path, sourced, f"a name that matches {TENANT_PATTERN.pattern}")
    if path == "journal.prefix" and not _PREFIX.fullmatch(value):
        raise _wrong(path, sourced, "a prefix of topic names (letters, digits, '.', '_', '-')")
    return value


def _converted(path: str, sourced: SourcedValue, kind: Any) -> Any:
    value, from_text = sourced.value, isinstance(sourced.value, str) and not sourced.origin.startswith("file")
    if get_origin(kind) is tuple:
        return _texts(path, sourced, from_text)
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
    raise _wrong(path, sourced, names.get(kind, f"names and texts, each given separately as {path}.NAME=TEXT"))


def _texts(path: str, sourced: SourcedValue, from_text: bool) -> tuple[str, ...]:
    """A list of texts; where a setting is one text, they are separated by commas."""
    value = [text.strip() for text in sourced.value.split(",") if text.strip()] if from_text else sourced.value
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise _wrong(path, sourced, "a list of texts")
    return tuple(value)


def _refuse() -> Any:
    raise ValueError


def _wrong(path: str, sourced: SourcedValue, needed: str) -> ConfigError:
    shown = (
        repr(value_shown(path, sourced.value) if isinstance(sourced.value, str) else sourced.value)
        if is_plain(path)
        else MASK
    )
    return ConfigError(f"{path} must be {needed}, not {shown} ({sourced.origin}).", hint="Correct the value.", key=path)
