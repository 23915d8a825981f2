"""What is installed, read by hand: from *.dist-info folders (and a checkout's *.egg-info), without importlib.metadata.

The oracle of the Python environment source and of the demo. It knows only what wheels write; it leaves cutting and
limits aside, so it compares what a healthy environment holds.
"""

from __future__ import annotations

import csv
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
    name = headers["name"][0].lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    description = body.strip() or "\n".join(headers.get("description", [])) or properties.get("summary", "")
    return name, Walked(properties, tags_of(headers), modules, description)


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
