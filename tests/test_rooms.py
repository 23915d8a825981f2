"""Imports between layers run one way, the pure ones stay pure, and each file of a domain imports what its role may."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from metajournal.lake.columns import ENTITIES_TABLE, JOURNAL_TABLE
from metajournal.lake.declared import SPECS
from metajournal.rules.digest import PURE_FILES
from metajournal.schemas.domain import Domain
from metajournal.schemas.registry import domains

ROOT = Path(__file__).parents[1]
ROOMS = [
    "schemas",
    "rules",
    "reporting",
    "metrics",
    "cycles",
    "lake",
    "fold",
    "producers",
    "consumers",
    "streaming",
    "indexer",
    "stack",
]
ABOVE = [
    "config",
    "tracing",
    "values",
    "lake_client",
    "outside_client",
    "terminal",
    "domains",
    "sources",
    "client",
    "gateway",
    "commands",
    "cli",
]
ORDER = [*ROOMS, *ABOVE]
"""What a part imports stands before it: so only `cli.py` imports `commands/`, and nothing imports `cli.py`."""
IMPURE = {"os", "io", "time", "random", "secrets", "socket", "subprocess", "threading", "pathlib", "asyncio", "shutil"}
PURE = {"schemas", "rules"}
ROLES = {
    "domain": {"schemas"},
    "events": PURE,
    "rules": PURE,
    "rows": PURE,
    "words": PURE,
    "tables": PURE | {"lake"},
    "derived": PURE | {"lake", "fold"},
    "documents": PURE | {"lake", "fold"},
    "questions": PURE,
    "cursors": PURE | {"lake"},
    "sessions": PURE,
    "queries": PURE | {"lake"},
    "named": PURE,
}
"""The layers that a file of a domain may import, by its role; files with another name import what stands below."""
FOREIGN = {
    "events": {"numpy", "pyarrow", "polars", "click", "confluent_kafka", "deltalake"},
    "domain": {"numpy", "pyarrow", "polars", "click", "confluent_kafka", "deltalake", "dataclasses"},
    "rules": {"numpy", "pyarrow", "polars", "click", "confluent_kafka", "deltalake"},
    "rows": {"numpy", "pyarrow", "polars", "click", "confluent_kafka", "deltalake"},
}
"""Packages that a role may not import."""


@cache
def files(part: str) -> Sequence[Path]:
    """The Python files of a room, or the one module of that name."""
    found = (*(ROOT / part).rglob("*.py"),) or (ROOT / f"{part}.py",)
    assert all(path.exists() for path in found)
    return found


class Module:
    """What the tests ask of a module: it is read once for all of them.

    Attributes:
        imports: (room, module) for relative imports, ("", module) for absolute ones.
        texts: the texts of its code, but its prose.
        deciding: the texts that something is compared with, looked up by or matched against.
        slices: what is taken apart by a slice with numbers for bounds, and in which line.
    """

    def __init__(self, path: Path) -> None:
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        self.imports = [*_imports(path, nodes)]
        self.texts = [*_texts(nodes)]
        self.deciding = [*_deciding(nodes)]
        self.slices = [*_slices(nodes)]


@cache
def parsed(path: Path) -> Module:
    return Module(path)


def imports(path: Path) -> Sequence[tuple[str, str]]:
    """(room, module) for relative imports, ("", module) for absolute ones."""
    return parsed(path).imports


def _imports(path: Path, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "", node.module or ""
        elif isinstance(node, ast.ImportFrom):
            folder = path.relative_to(ROOT).parent.parts
            base = [*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else [])]
            targets = [base] if base else [[alias.name] for alias in node.names]
            for target in targets:
                yield target[0], ".".join(target)


@pytest.mark.parametrize("part", ORDER)
def test_a_room_imports_only_from_rooms_before_it(part: str) -> None:
    allowed = {"", *ORDER[: ORDER.index(part) + 1]}
    for path in files(part):
        for source, module in imports(path):
            assert source in allowed, f"{path.relative_to(ROOT)} imports {module}"
            assert not (source == "" and module.split(".")[0] == "metajournal"), f"{path}: import {module} relatively"


def test_the_order_names_every_module_of_the_root_and_every_room() -> None:
    """Nothing grows beside the rooms unseen."""
    modules = {path.stem for path in ROOT.glob("*.py")} - {"__init__"}
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    assert modules | rooms == set(ORDER)


@pytest.mark.parametrize("room", ["schemas", "rules"])
def test_language_and_rules_touch_neither_clock_nor_disk_nor_network(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        used = {module.split(".")[0] for source, module in imports(path) if source == ""}
        assert not used & IMPURE, f"{path.relative_to(ROOT)} imports {sorted(used & IMPURE)}"


@pytest.mark.parametrize("role", ROLES)
def test_a_file_of_a_domain_imports_what_its_role_may(role: str) -> None:
    paths = list((ROOT / "domains").glob(f"*/{role}.py"))
    assert paths
    for path in paths:
        own = {domain.name: domain for domain in domains()}[path.parent.name]
        for source, module in imports(path):
            if source == "domains":
                other = module.split(".")[1]
                assert other == own.name or other in own.imports, f"{path.relative_to(ROOT)} imports {module}"
            elif source:
                assert source in ROLES[role], f"{path.relative_to(ROOT)} imports {module}"
            else:
                assert module.split(".")[0] not in FOREIGN.get(role, set()) | IMPURE, f"{path}: {module}"


def test_what_a_commit_contains_is_held_to_what_rules_may_import() -> None:
    """Merges are pure: the same commits give the same content on any machine."""
    paths = list((ROOT / "domains" / "repositories" / "merging").glob("*.py"))
    assert paths
    for path in paths:
        for source, module in imports(path):
            allowed = PURE | {"domains"}
            assert source in allowed if source else module.split(".")[0] not in FOREIGN["rules"] | IMPURE, (
                f"{path}: {module}"
            )


def test_records_are_judged_in_one_place() -> None:
    """Nobody but the steps calls the partition function, and the columns of a domain know nothing of the stream."""
    judging = [
        path for room in ROOMS + ABOVE for path in files(room) if "fold.judging" in {m for _, m in imports(path)}
    ]
    assert [str(path.relative_to(ROOT)) for path in judging] == ["fold/steps.py"]
    for path in (ROOT / "domains").glob("*/columns/*.py"):
        assert {room for room, _ in imports(path)} <= {"", "schemas", "rules", "lake", "fold", "domains"}, path


@pytest.mark.parametrize("domain", domains(), ids=lambda domain: domain.name)
def test_a_domain_imports_those_that_it_declares(domain: object) -> None:
    own = next(one for one in domains() if one is domain)
    paths = (ROOT / "domains" / own.name).rglob("*.py")
    others = {module.split(".")[1] for path in paths for source, module in imports(path) if source == "domains"}
    assert others - {own.name} == set(own.imports)


@pytest.mark.parametrize("domain", domains(), ids=lambda domain: domain.name)
def test_what_a_pure_file_of_a_domain_imports_is_covered_by_the_digest(domain: Domain) -> None:
    """A file of a domain that it imports is pure too, and the domain is declared as imported."""
    folder = ROOT / "domains" / domain.name
    for path in [folder / name for name in PURE_FILES if (folder / name).exists()]:
        for _, module in [one for one in imports(path) if one[0] == "domains"]:
            _, other, *rest = module.split(".")
            assert other in (domain.name, *domain.imports), f"{path.relative_to(ROOT)} imports {module}"
            assert f"{'/'.join(rest)}.py" in PURE_FILES, f"{path.relative_to(ROOT)} imports {module}"


def test_the_package_list_is_the_folders() -> None:
    """A folder that is not in the list would be missing in the wheel alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for part in ORDER for path in (ROOT / part).rglob("__init__.py")}
    assert set(project["packages"]) == {"metajournal", *(".".join(["metajournal", *path.parts]) for path in folders)}
    with_contracts = {f"metajournal.{'.'.join(path.parent.parent.relative_to(ROOT).parts)}"
                      for path in (ROOT / "domains").rglob("*.avsc")}  # fmt: skip
    assert with_contracts <= {name for name, data in project["package-data"].items() if "contracts/*.avsc" in data}


LAYERS = [*ROOMS, "config", "tracing", "values", "terminal", "lake_client", "outside_client", "client", "gateway"]
SAYS_SOMETHING_ELSE = {
    "chain": "itertools",
    "file": "the scheme of an address; the files domain's own key in a change record is checked where it is there",
    "object": "a type of Elasticsearch",
    "stream": "the component of that name, and the extra that it needs",
    "tables": "the file of a domain by that role, and a key of the lake's pointer",
}
"""Words that are a kind's or a domain's too; not where they are compared, or are a key."""
EXCEPTIONS = {
    ("indexer/fill/bulk.py", "dataset"): "a document that every index takes, to tell whose fault a refusal is",
    ("terminal/views.py", "program"): "a key of the latest write, as lineage tells it",
    ("stack/s3proxy.py", "objects"): "the folder of what the object store holds",
}


def _texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


@pytest.mark.parametrize("part", LAYERS)
def test_no_layer_names_what_a_domain_declares(part: str) -> None:
    """'No room names a domain': neither one, nor its kinds, event types or tables."""
    own = {name for name, spec in SPECS.items() if name in (JOURNAL_TABLE, ENTITIES_TABLE)}
    declared = {domain.name for domain in domains()} | (set(SPECS) - own)
    declared |= {name for domain in domains() for name in (*domain.kind_names, *domain.event_types)}
    for path in files(part):
        name = str(path.relative_to(ROOT))
        found = {text for text in parsed(path).texts if text in declared and text not in SAYS_SOMETHING_ELSE}
        assert {text for text in found if (name, text) not in EXCEPTIONS} == set(), name


DECIDING = {
    ("schemas/encoding/wire.py", "chain"): "the name of itertools.chain in generated code",
    ("lake/storage/generations.py", "tables"): "a key of the lake's pointer and of a generation's manifest",
    ("lake/storage/log_damage.py", "file"): "the scheme of an address",
    ("streaming/derived/tending.py", "tables"): "a key of the status file",
    ("streaming/between/whole.py", "tables"): "the file of that name",
    ("terminal/views.py", "tables"): "a key of the status file",
    ("stack/supervisor.py", "stream"): "the component",
    ("stack/status.py", "stream"): "the component",
    ("stack/versions.py", "stream"): "the extra",
    ("consumers/records.py", "file"): "how a change of the files domain says what it is about",
    ("config.py", "file"): "where a setting comes from",
    ("terminal/completion.py", "file"): "the option that names the settings file",
}
"""Words of `SAYS_SOMETHING_ELSE` that decide something in a layer: not about a kind."""


def _deciding(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKING_UP:
            parts = node.args[:1]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        for part in parts:
            for inner in [part, *getattr(part, "elts", [])]:
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.value


LOOKING_UP = {"get", "pop", "setdefault", "startswith", "removeprefix", "equal", "is_in"}


@pytest.mark.parametrize("part", LAYERS)
def test_no_layer_decides_by_a_word_that_is_a_kind_too(part: str) -> None:
    """Words with another meaning are passed over as texts; as a key or in a comparison they could be the kind."""
    for path in files(part):
        name = str(path.relative_to(ROOT))
        words = {text for text in parsed(path).deciding if text in SAYS_SOMETHING_ELSE}
        assert {word for word in words if (name, word) not in DECIDING} == set(), name


def test_a_comparison_with_a_kind_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('A = kind == "file"\nB = kind in ("chain", x)\nC = {"tables": 1}\nD = rows["object"]\n'
                    'E = row.get("stream")\nF = print("dataset")\n')  # fmt: skip
    assert Module(path).deciding == ["file", "chain", "tables", "object", "stream"]


def test_every_exception_is_needed() -> None:
    for (name, text), reason in EXCEPTIONS.items():
        assert reason
        assert text in parsed(ROOT / name).texts, name
    for (name, text), reason in DECIDING.items():
        assert reason
        assert text in parsed(ROOT / name).deciding, name


ROWS = {"fact", "held", "kept", "key", "place", "row", "self"}
"""What rows and their keys are called where they are taken apart."""


def _slices(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and is_counted(node.slice):
            yield node.value.id if isinstance(node.value, ast.Name) else "", node.lineno


def is_counted(part: ast.Slice) -> bool:
    """Whether a slice has numbers for bounds."""
    bounds = [one.operand if isinstance(one, ast.UnaryOp) else one for one in (part.lower, part.upper) if one]
    return any(isinstance(one, ast.Constant) for one in bounds)


@pytest.mark.parametrize("part", ["rules", "lake", "fold", "domains"])
def test_a_row_is_taken_apart_by_the_names_of_its_fields(part: str) -> None:
    """A slice means other fields as soon as one is added; a name does not."""
    for path in files(part):
        for of, line in parsed(path).slices:
            assert of not in ROWS, f"{path.relative_to(ROOT)}:{line} takes {of} apart by a slice"
