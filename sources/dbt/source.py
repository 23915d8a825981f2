"""A dbt project as a source: the contents of its target folder become entities, under the same names as in lineage.

Models, seeds, snapshots and sources are their tables and views in the database; exposures are data of the project.
Tests are properties of what they test, with their last result. What a model reads is lineage by its definition, and
each run that built it is a run of the same program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ...domains.catalog.naming import data, namespace_of
from ...domains.catalog.urns import run
from ...domains.lineage.events import READ, WRITE, Access, AccessesRecorded, RunStarted, RunStopped
from ...schemas.errors import InvalidUrnError
from ...schemas.limits import MAX_ENTRIES
from ...schemas.times import time_ms
from ...schemas.urn import Urn
from ..found import Found, Past, Problem, Progress
from ..source import Identity, SourceError, Tell, checked_id, id_of
from .artifacts import Artifacts, mapping, read_artifacts, text_of
from .profiles import checked_namespace, namespace
from .relations import Node, Relations, description_of, owner_of, properties_of, schema_of, tags_of

KIND: Final = "dbt"
PREFIX: Final = "dbt."
_PROJECT: Final = "dbt://"
"""Beginning of the namespace of what is no data of the database; the project's name follows."""
MODEL: Final = "model"
"""The last part of the program that makes a model's data."""
_MAKING: Final = frozenset({"run", "build", "seed", "snapshot", "retry", "clone"})
"""Commands of dbt whose results are data that was made."""
_STATUS: Final = {"success": "COMPLETED", "partial success": "FAILED", "error": "FAILED", "fail": "FAILED"}
_TESTED: Final = frozenset({"test", "build", "retry"})
_TELL_EVERY: Final = 500


class Dbt:
    """The target folder of a dbt project.

    Args:
        target_dir: where dbt writes manifest.json, catalog.json and run_results.json.
        namespace: the database's name in lineage; None: from the profile.
        profiles: path of profiles.yml, if dbt would not find it.
        target: the profile's output.
        id: the source's; None: one derived from the project's folder.
        environ: variables that the profile may use; None: the process's.
    Raises:
        InputError: the id or the namespace is not valid.
    """

    def __init__(
        self, target_dir: str, *, namespace: str | None = None, profiles: str | None = None, target: str | None = None,
        id: str | None = None, environ: Mapping[str, str] | None = None,  # noqa: A002
    ) -> None:  # fmt: skip
        self._folder = Path(target_dir).expanduser().absolute()
        self._namespace = None if namespace is None else checked_namespace(namespace)
        self._profiles = profiles
        self._target = target
        self._environ = os.environ if environ is None else environ
        own = id_of(f"dbt-{self._folder.parent.name}") if id is None else id
        self.identity = Identity(KIND, checked_id(own), PREFIX)
        self._system = ""
        """The database's name in lineage, of the latest read."""
        self._schemas: frozenset[str] = frozenset()
        """The schemas that the manifest names, of the latest read."""
        self._projects: frozenset[str] = frozenset()
        """The project and the packages in it, of the latest read."""

    @property
    def systems(self) -> tuple[Urn, ...]:
        """The manifest."""
        return (data("file", (self._folder / "manifest.json").as_posix()),)

    lists_all: Final = True

    def selects(self, entity: Urn, properties: Mapping[str, str]) -> bool:
        """As `Source.selects`: in the project's database and a schema that the manifest names, or of the project.

        What is in another schema may belong to another target, `dbt_alice`, whose manifest was read before.
        """
        namespace, name = entity.parts[0], entity.name
        if namespace.startswith(_PROJECT):
            return namespace.removeprefix(_PROJECT) in self._projects
        if namespace != self._system:
            return False
        known = properties.get(f"{PREFIX}schema")
        if known is not None:
            return known in self._schemas
        return any(name.startswith(f"{schema}.") or not schema for schema in self._schemas)

    def read(self, tell: Tell) -> Iterator[Found | Past | Problem]:
        """As `Source.read`."""
        tell(Progress("read the manifest"))
        artifacts = read_artifacts(self._folder)
        system = self._namespace or namespace(
            artifacts, self._folder, self._environ, profiles=self._profiles, target=self._target
        )
        self._system = namespace_of(system)
        relations = Relations(artifacts.manifest, system, artifacts.adapter)
        if not relations.urns and not relations.problems:
            raise SourceError(
                f"{self._folder / 'manifest.json'} contains no model, seed, snapshot or source; nothing was changed.",
                code="source-unreadable",
                hint="Run `dbt parse` in the right project. To drop the last model, delete its entity.",
            )
        project = _Project(artifacts, relations)
        self._schemas, self._projects = relations.schemas, project.packages
        yield from project.relations.problems
        for done, found in enumerate(project.found()):
            if done % _TELL_EVERY == 0:
                tell(Progress("read models", done, len(project.relations.urns)))
            yield found
        past = project.past()
        if past is not None:
            yield past


class _Project:
    """Turns each node into a `Found`."""

    def __init__(self, artifacts: Artifacts, relations: Relations) -> None:
        self.relations = relations
        self._artifacts = artifacts
        self._groups = {
            text_of(mapping(group).get("name")): group for group in mapping(artifacts.manifest, "groups").values()
        }
        catalog = artifacts.catalog or {}
        self._cataloged = {**mapping(catalog, "nodes"), **mapping(catalog, "sources")}
        self._results = {
            text_of(result.get("unique_id")): result
            for result in _listed(artifacts.results, "results")
            if isinstance(result, Mapping)
        }
        self._command = text_of(mapping(artifacts.results, "args").get("which"))
        self._tests: dict[str, list[Node]] = {}
        for node in relations.nodes.values():
            if node.get("resource_type") == "test":
                for tested in relations.tested(node):
                    self._tests.setdefault(tested, []).append(node)

    @property
    def packages(self) -> frozenset[str]:
        """The names of the project and of the packages that its nodes and exposures come from."""
        every = [*self.relations.nodes.values(), *mapping(self._artifacts.manifest, "exposures").values()]
        return frozenset({self._artifacts.project, *(text_of(mapping(node).get("package_name")) for node in every)})

    def found(self) -> Iterator[Found | Problem]:
        """The data, models before sources, which may be the same table; then the exposures."""
        for name, urn in self.relations.urns.items():
            yield self._relation(name, urn)
        for name, exposure in mapping(self._artifacts.manifest, "exposures").items():
            if isinstance(exposure, Mapping):
                yield self._exposure(name, exposure)

    def _relation(self, name: str, urn: Urn) -> Found:
        node = self.relations.nodes[name]
        verdicts, unknown = self._verdicts(name)
        properties = {**dict(properties_of(node, self._groups)), **verdicts}
        if schema := self.relations.schema_name(node):
            properties["schema"] = schema
        is_source = node.get("resource_type") == "source"
        return Found(
            urn,
            description_of(node),
            schema_of(node, self._cataloged.get(name)),
            properties,
            tags_of(node),
            upstreams=None if is_source else tuple(sorted(self.relations.upstreams(name))) or None,
            made_by=MODEL,
            keeps=frozenset(unknown if self._artifacts.catalog is not None else {*unknown, "schema"}),
        )

    def _verdicts(self, name: str) -> tuple[dict[str, str], set[str]]:
        """What the last run says of a node and of its tests, and what it does not speak of."""
        known: dict[str, str] = {}
        unknown = set[str]()
        result = self._results.get(name)
        status = "" if result is None or self._command not in _MAKING else text_of(result.get("status"))
        if status and status != "skipped":
            known["status"] = status
        else:
            unknown.add("status")
        for test in self._tests.get(name, ()):
            key = f"test.{text_of(test.get('name'))}"
            result = self._results.get(text_of(test.get("unique_id")))
            if result is None or self._command not in _TESTED:
                unknown.add(key)
            else:
                known[key] = _verdict(result)
        return known, unknown - known.keys()

    def _exposure(self, name: str, exposure: Node) -> Found | Problem:
        kind, own = text_of(exposure.get("type")), text_of(exposure.get("name"))
        plain = {"type": "exposure", "kind": kind, "id": name, "package": text_of(exposure.get("package_name"))}
        plain |= {key: text_of(exposure.get(key)) for key in ("label", "url", "maturity")}
        plain["owner"] = owner_of({"owner": exposure.get("owner")}, None)
        project = text_of(exposure.get("package_name")) or self._artifacts.project
        try:
            urn = data(f"{_PROJECT}{project}", f"exposure.{own}")
        except InvalidUrnError as error:
            return Problem(name[:200], error.message)
        return Found(
            urn, description_of(exposure),
            properties={key: value for key, value in plain.items() if value},
            tags=tags_of(exposure),
            upstreams=tuple(sorted(self._exposed(exposure))),
            made_by="exposure",
        )  # fmt: skip

    def _exposed(self, exposure: Node) -> set[Urn]:
        made: set[Urn] = set()
        for name in mapping(exposure, "depends_on").get("nodes") or ():
            made |= {self.relations.urns[name]} if name in self.relations.urns else self.relations.upstreams(name)
        return made

    def past(self) -> Past | None:
        """The runs that made data in the last invocation; None where it made none."""
        invocation = text_of(mapping(self._artifacts.results, "metadata").get("invocation_id"))
        if not invocation or self._command not in _MAKING:
            return None
        facts = [fact for name in self._results for fact in self._run(name, invocation)]
        return Past(invocation[:200], tuple(facts)) if facts else None

    def _run(self, name: str, invocation: str) -> Iterator[Any]:
        """The facts of one node's run: none where it was skipped, or made no data."""
        made, result = self.relations.urns.get(name), self._results[name]
        status = _STATUS.get(text_of(result.get("status")))
        began_ms, ended_ms = _times_ms(result)
        if made is None or status is None or began_ms is None or ended_ms is None:
            return
        try:
            of = run(made.parts[0], made.name, "workflow", MODEL, invocation)
        except InvalidUrnError:
            return
        yield RunStarted(of, began_ms)
        reads = [Access(upstream, READ, began_ms) for upstream in sorted(self.relations.upstreams(name))]
        yield AccessesRecorded(of, [*reads[: MAX_ENTRIES - 1], Access(made, WRITE, began_ms)])
        yield RunStopped(of, ended_ms, status)


def _verdict(result: Mapping[str, Any]) -> str:
    """A test's result in a line: `pass`, or what it says of what it found."""
    status, message = text_of(result.get("status")), text_of(result.get("message"))
    words = " ".join(message.split())
    return f"{status}: {words}" if words and status not in ("pass", "success") else status or "unknown"


def _times_ms(result: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """When a node's run began and ended, milliseconds UTC; None where it does not say."""
    began: list[int] = []
    ended: list[int] = []
    for timing in _listed(result, "timing"):
        for key, times in (("started_at", began), ("completed_at", ended)):
            try:
                times.append(time_ms(text_of(mapping(timing).get(key)), zone_required=True))
            except ValueError:
                continue
    return min(began, default=None), max(ended, default=None)


def _listed(value: Mapping[str, Any] | None, name: str) -> list[Any]:
    listed = (value or {}).get(name)
    return listed if isinstance(listed, list) else []
