"""The files that dbt writes into a project's target folder: read, checked for the versions that are supported.

The manifest must exist; the catalog (`dbt docs generate`) and the run results may be missing, and are then None:
their part of the metadata stays as it was. Source: https://schemas.getdbt.com, manifest 7 to 12, catalog 1,
run-results 4 to 6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ..source import SourceError

VERSIONS: Final[Mapping[str, range]] = {"manifest": range(7, 13), "catalog": range(1, 2), "run-results": range(4, 7)}
"""Versions that are supported of each file, by the word in its schema's address."""
_SCHEMA: Final = re.compile(r"/dbt/([a-z-]+)/v(\d+)(?:\.json)?$")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The contents of a target folder.

    Attributes:
        catalog, results: None: there is no such file.
    """

    manifest: Mapping[str, Any]
    catalog: Mapping[str, Any] | None
    results: Mapping[str, Any] | None

    @property
    def adapter(self) -> str:
        """dbt's name for the kind of database, `postgres`; empty if the manifest does not contain it."""
        return text_of(mapping(self.manifest, "metadata").get("adapter_type"))

    @property
    def project(self) -> str:
        """The project's name; empty if the manifest does not contain it."""
        return text_of(mapping(self.manifest, "metadata").get("project_name"))


def read_artifacts(folder: Path) -> Artifacts:
    """The artifacts of a target folder.

    Raises:
        SourceError: there is no manifest, or a file is not what dbt writes, or of another version.
    """
    manifest = _read(folder / "manifest.json", "manifest", "nodes", "sources")
    if manifest is None:
        raise SourceError(
            f"There is no manifest.json in {folder}.",
            code="source-not-found",
            hint="Give the target folder of a dbt project, after `dbt build`, `dbt compile` or `dbt docs generate`.",
        )
    catalog = _read(folder / "catalog.json", "catalog", "nodes", "sources")
    return Artifacts(manifest, catalog, _read(folder / "run_results.json", "run-results"))


def _read(path: Path, kind: str, *parts: str) -> Mapping[str, Any] | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.", code="source-unreadable") from error
    value = _value(path, content)
    version = _version(value, kind)
    if version is None or not all(isinstance(value.get(part), Mapping) for part in parts):
        raise _not_written_by_dbt(path, f"it is not a {kind} of dbt")
    if version not in VERSIONS[kind]:
        known = VERSIONS[kind]
        raise SourceError(
            f"{path} is version {version} of dbt's {kind}; versions {known.start} to {known.stop - 1} are supported.",
            code="unsupported-version",
            hint="Generate it again with dbt 1.3 or later, or upgrade metajournal.",
        )
    return value


def _value(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:  # a lone surrogate too, which dbt may write and which is only cut later
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            raise _not_written_by_dbt(path, "it is not JSON, or is being written") from None
    if not isinstance(value, dict):
        raise _not_written_by_dbt(path, "it is not a JSON object")
    return value


def _version(value: Mapping[str, Any], kind: str) -> int | None:
    match = _SCHEMA.search(text_of(mapping(value, "metadata").get("dbt_schema_version")))
    return int(match[2]) if match is not None and match[1] == kind else None


def _not_written_by_dbt(path: Path, why: str) -> SourceError:
    return SourceError(f"{path} cannot be read: {why}.", code="source-unreadable")


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path of names; an empty one if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text_of(value: Any) -> str:
    """A string; empty if it is not one."""
    return value if isinstance(value, str) else ""


def texts_of(value: Any) -> list[str]:
    """The texts of a list, or a single one."""
    if isinstance(value, str):
        return [value] if value else []
    return [text for text in value if isinstance(text, str) and text] if isinstance(value, list) else []
