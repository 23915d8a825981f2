"""The database that a dbt project writes to, by its name in lineage: as given, or from dbt's own profile.

A profile's password is never used, only host, port, path and account. Templates other than `env_var` cannot be
evaluated here; the user is asked for the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ...domains.catalog.naming import SCHEMES, file_database, namespace_of, server
from ...schemas.errors import InputError
from ..source import SourceError
from .artifacts import Artifacts, mapping, text_of

FIXED: Final[Mapping[str, str]] = {"bigquery": "bigquery"}
"""Adapters whose namespace is the same everywhere."""
FILES: Final = frozenset({"duckdb", "sqlite"})
_ENV_VAR: Final = re.compile(r"\{\{\s*env_var\(\s*(['\"])(.*?)\1\s*(?:,\s*(['\"])(.*?)\3\s*)?\)\s*(?:\|\s*\w+\s*)?\}\}")


def namespace(
    artifacts: Artifacts, target_folder: Path, environ: Mapping[str, str], *, profiles: str | None = None,
    target: str | None = None,
) -> str:  # fmt: skip
    """The namespace of the database that a project writes to.

    Args:
        profiles: path of profiles.yml; None: it is searched for as dbt does: in DBT_PROFILES_DIR, in the project's
            folder, in ~/.dbt.
        target: the profile's output; the one of the last run, else the profile's own choice, where None.
    Raises:
        SourceError: it cannot be determined; the hint says what to pass.
    """
    adapter = artifacts.adapter
    if adapter in FIXED:
        return FIXED[adapter]
    project = target_folder.parent
    path = Path(profiles).expanduser() if profiles else _found(project, environ)
    if path is None:
        raise _unknown(adapter, "there is no profiles.yml")
    name = _profile_name(artifacts, project)
    every = _yaml(path)
    every = {key: value for key, value in every.items() if key != "config" and isinstance(value, Mapping)}
    if not name and len(every) == 1:
        (name,) = every
    if name not in every:
        raise _unknown(adapter, f"{path} has no profile {name!r}" if name else f"{path} has several profiles")
    wanted = target or text_of(mapping(artifacts.results, "args").get("target"))
    wanted = wanted or _rendered(every[name].get("target"), environ) or "default"
    output = mapping(every[name], "outputs", wanted)
    if not output:
        raise _unknown(adapter, f"the profile {name!r} has no output {wanted!r}; see --target")
    return _of_output(adapter, path, project, output, environ)


def _of_output(adapter: str, path: Path, project: Path, output: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The namespace of an output; nothing of it is looked at but what the namespace is made of."""

    def known(name: str) -> str:
        text = _rendered(output.get(name), environ)
        if not text:
            raise _unknown(adapter, f"the profile in {path} does not contain its {name}")
        return text

    kind = known("type") if "type" in output else adapter

    if kind in FILES:
        where = known("path") if kind == "duckdb" else known("schemas_and_paths")
        if where == ":memory:" or where.startswith("md:"):
            raise _unknown(adapter, "a database in memory has no name")
        return file_database(kind, (project / Path(where).expanduser()).absolute().as_posix())
    if kind == "snowflake":
        return f"snowflake://{known('account')}"
    if kind == "databricks":
        return namespace_of(f"databricks://{known('host')}")
    port = known("port") if output.get("port") is not None else None
    if port is not None and not port.isdecimal():
        raise _unknown(adapter, f"the port in {path} is not a number")
    return server(kind, known("host" if "host" in output else "server"), None if port is None else int(port))


def _found(project: Path, environ: Mapping[str, str]) -> Path | None:
    own = environ.get("DBT_PROFILES_DIR")
    folders = [*([Path(own)] if own else []), project, Path("~/.dbt").expanduser()]
    return next((folder / "profiles.yml" for folder in folders if (folder / "profiles.yml").is_file()), None)


def _profile_name(artifacts: Artifacts, project: Path) -> str:
    given = text_of(mapping(artifacts.results, "args").get("profile"))
    file = project / "dbt_project.yml"
    return given or (text_of(_yaml(file).get("profile")) if file.is_file() else "")


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.", code="source-unreadable") from error
    except (yaml.YAMLError, UnicodeDecodeError):  # its message would show the text, and that may be a password
        raise SourceError(f"{path} is not valid YAML.", code="source-unreadable") from None
    return value if isinstance(value, Mapping) else {}


def _rendered(value: Any, environ: Mapping[str, str]) -> str | None:
    """A value of a profile as text; None where only a template says it, or the environment has no such variable."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):  # of SQLite: a path for each schema
        paths = [text for text in value.values() if isinstance(text, str)]
        return _rendered(paths[0], environ) if len(paths) == 1 else None
    text = text_of(value)
    for match in _ENV_VAR.finditer(text):
        known: str | None = environ.get(match[2]) or match[4]
        if known is None:
            return None
        text = text.replace(match[0], known)
    return None if "{{" in text or "{%" in text else text


def _unknown(adapter: str, why: str) -> SourceError:
    example = {
        "snowflake": "snowflake://<organization>-<account>",
        "databricks": "databricks://<host>",
        "duckdb": "duckdb://<absolute path>",
        "sqlite": "sqlite://<absolute path>",
    }.get(adapter, f"{SCHEMES.get(adapter, adapter) or '<system>'}://<host>:<port>")
    return SourceError(
        f"The database that the project writes to is not known: {why}.",
        code="unknown-namespace",
        hint=f"Give --namespace {example}, its name in lineage (docs/naming.md), or --profiles PATH of profiles.yml.",
    )


def checked_namespace(text: str) -> str:
    """A namespace that was given. Raises: InputError: it is empty."""
    if not text.strip():
        raise InputError("The namespace is empty.", code="bad-recipe", hint="Give one, like postgres://db.acme:5432.")
    return namespace_of(text.strip())
