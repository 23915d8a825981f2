"""What is installed, read by hand: from *.dist-info folders (and a checkout's *.egg-info), without importlib.metadata.

The oracle of the Python environment sources and of the demo. It knows only what wheels write; it leaves cutting and
limits aside, so it compares what a healthy environment holds. Requirements are read by hand too: markers are made
expressions of Python, versions tuples of numbers.
"""

from __future__ import annotations

import csv
import hashlib
import os
import platform
import re
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

EXTENSION_ENDINGS = {"so", "abi3.so", sysconfig.get_config_var("EXT_SUFFIX")[1:]}


class Walked(NamedTuple):
    properties: dict[str, str]
    tags: set[str]
    modules: set[tuple[str, str]]
    description: str
    info: Path


def walk(path: list[str] | None = None) -> dict[str, Walked]:
    """Every distribution by normalized name; of two with one name the first on the path counts."""
    found: dict[str, Walked] = {}
    for folder in sys.path if path is None else path:
        for info in sorted([*Path(folder or ".").glob("*.dist-info"), *Path(folder or ".").glob("*.egg-info")]):
            name, walked = read_folder(info)
            found.setdefault(name, walked)
    return found


def read_folder(info: Path) -> tuple[str, Walked]:
    text = next(info.glob("METADATA"), info / "PKG-INFO").read_text("utf-8")
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    headers: dict[str, list[str]] = {}
    key = ""
    for line in head.split("\n"):
        if line[:1] in (" ", "\t"):
            rest = line.strip()
            rest = rest[1:].strip() if rest[:1] == "|" else rest
            headers[key][-1] = (headers[key][-1] + " " + rest).strip() if rest else headers[key][-1]
        else:
            key, _, value = line.partition(":")
            key = key.lower()
            headers.setdefault(key, []).append(value.strip())
    headers = {k: kept for k, v in headers.items() if (kept := [x for x in v if x not in ("", "UNKNOWN")])}
    properties = {k: "\n".join(v) for k, v in headers.items() if k != "description"}
    if (info / "INSTALLER").is_file():
        properties["installer"] = (info / "INSTALLER").read_text("utf-8").strip()
    modules = modules_of(info)
    properties["modules"] = str(len(modules))
    name = plain(headers["name"][0])
    description = body.strip() or "\n".join(headers.get("description", [])) or properties.get("summary", "")
    return name, Walked(properties, tags_of(headers), modules, description, info)


def plain(name: str) -> str:
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


class WalkedFile(NamedTuple):
    what: str
    path: str
    size: int
    written_ms: int
    hash: str


def files_of(walked: dict[str, Walked]) -> set[WalkedFile]:
    """Every file that a RECORD names and that is there, read with open and hashed whole."""
    found = set()
    for name, one in walked.items():
        if not (one.info / "RECORD").is_file():
            continue
        with (one.info / "RECORD").open(encoding="utf-8", newline="") as lines:
            paths = {os.path.normpath(Path.cwd() / one.info.parent / row[0]) for row in csv.reader(lines)}
        for path in filter(os.path.isfile, paths):
            about, content = os.lstat(os.path.realpath(path)), Path(path).read_bytes()
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            found.add(WalkedFile(name, path, len(content), about.st_mtime_ns // 10**6, digest))
    return found


def digest_of(files: set[WalkedFile]) -> str:
    """One digest of all that was walked, each file a line."""
    lines = sorted("\t".join(map(str, file)) + "\n" for file in files)
    return hashlib.blake2b("".join(lines).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def requirements_of(walked: dict[str, Walked]) -> set[tuple[str, str]]:
    """Who requires whom, of what is installed; an extra counts where somebody asks for it, until nothing is new."""
    wanted = {(name, "") for name in walked}
    while True:
        pairs, more = set(), set()
        for name, extra in wanted:
            for line in filter(None, walked[name].properties.get("requires-dist", "").split("\n")):
                what, _, marker = line.partition(";")
                other, extras = re.match(r"([\w.-]+)\s*(?:\[([^]]*)\])?", what.strip()).groups("")  # type: ignore[union-attr]
                if plain(other) in walked and (holds(marker, extra) if marker.strip() else extra == ""):
                    pairs.add((name, plain(other)))
                    more |= {(plain(other), plain(one.strip())) for one in extras.split(",") if one.strip()}
        if more <= wanted:
            return {(one, other) for one, other in pairs if one != other}
        wanted |= more


def holds(marker: str, extra: str) -> bool:
    """A marker as an expression of Python; versions are compared as tuples, `~=` does not occur in one."""
    values = {
        "python_version": "{}.{}".format(*sys.version_info[:2]),
        "python_full_version": platform.python_version(),
        "implementation_version": platform.python_version(),
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_system": platform.system(),
        "platform_machine": platform.machine(),
        "platform_release": platform.release(),
        "platform_version": platform.version(),
        "platform_python_implementation": platform.python_implementation(),
        "implementation_name": sys.implementation.name,
        "extra": extra,
    }
    term = r"[\w.]+|'[^']*'|\"[^\"]*\""
    comparison = rf"({term})\s*(not\s+in|in\b|[<>=!~]+)\s*({term})"
    return bool(eval(re.sub(comparison, lambda found: str(compared(values, *found.groups())), marker)))


def compared(values: dict[str, str], left: str, how: str, right: str) -> bool:
    """One comparison of a marker."""
    one, other = (values[side] if side in values else side[1:-1] for side in (left, right))
    if "extra" in (left, right):
        return (plain(one) == plain(other)) == (how == "==")
    if how.endswith("in"):
        return (one in other) == (how == "in")
    a: object = one
    b: object = other
    if all(re.fullmatch(r"\d+(\.\d+)*", text) for text in (one, other)):
        a, b = (tuple(map(int, text.split("."))) for text in (one, other))
    return bool(eval(f"a {how} b", {"a": a, "b": b}))


def tags_of(headers: dict[str, list[str]]) -> set[str]:
    tags: set[str] = set()
    for line in headers.get("keywords", []):
        tags |= set(line.replace(";", ",").split(",") if "," in line else line.replace(";", " ").split())
    tags |= set(headers.get("license-expression", []))
    for classifier in headers.get("classifier", []):
        parts = classifier.split(" :: ")
        if parts[0] == "Topic":
            tags |= set(parts[1:])
        elif parts[0] == "License" and len(parts) > 1:
            tags.add(parts[-1])
    return {" ".join(tag.split()) for tag in tags if tag.strip() and len(" ".join(tag.split())) <= 64}


def modules_of(info: Path) -> set[tuple[str, str]]:
    """What can be imported: a folder with an __init__ is a package, then a compiled file goes before a source file."""
    if not (info / "RECORD").is_file():
        return set()
    packages, compiled, sources = set[str](), set[str](), set[str]()
    with (info / "RECORD").open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            folders, _, file = row[0].rpartition("/")
            word, _, ending = file.partition(".")
            dotted = ".".join([*folders.split("/"), word] if folders else [word])
            if not all(part.isidentifier() for part in dotted.split(".")):
                continue
            if ending == "py" or (ending in EXTENSION_ENDINGS):
                kind = packages if word == "__init__" else sources if ending == "py" else compiled
                kind.add(dotted.removesuffix(".__init__"))
    compiled -= packages
    sources -= packages | compiled
    named = {"package": packages, "extension": compiled, "module": sources}
    return {(name, kind) for kind, names in named.items() for name in names if name != "__init__"}
