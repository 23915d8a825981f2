"""A digest of the rules themselves, so that a stream can tell whether a table was written under other ones.

It covers the source of this folder, of the parts of `schemas/` that judge events (their validation, the URNs, the
limits and the hashes), and of each domain its declaration and its pure files. Equal sources give the equal digest on
every machine and in every form of installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from ..schemas.domain import Domain
from ..schemas.registry import served, taken_in

_ROOT: Final = __name__.rsplit(".", 2)[0]
_JUDGING_SCHEMAS: Final = ("domain.py", "hashing.py", "header.py", "kinds.py", "limits.py", "registry.py", "urn.py")
_PURE_FILES: Final = ("columns/judging.py", "domain.py", "events.py", "rows.py", "rules.py")


def rules_digest(sources: Iterable[tuple[str, bytes]]) -> str:
    """Digest of (name, source) pairs, whatever their order and their line ends.

    Returns:
        64 hexadecimal digits, blake2b.
    """
    total = blake2b(digest_size=32)
    for name, source in sorted(sources):
        text = source.replace(b"\r\n", b"\n")
        total.update(f"{name}\0{len(text)}\0".encode() + text)
    return total.hexdigest()


def _sources() -> Iterator[tuple[str, bytes]]:
    schemas = files(f"{_ROOT}.schemas")
    yield from _modules("rules", files(f"{_ROOT}.rules"))
    yield from _modules("schemas/events", schemas / "events")
    for name in _JUDGING_SCHEMAS:
        yield f"schemas/{name}", (schemas / name).read_bytes()
    for domain in served():
        yield from _of_domain(domain)


def _of_domain(domain: Domain) -> Iterator[tuple[str, bytes]]:
    folder = files(domain.package)
    for name in _PURE_FILES:
        if (folder / name).is_file():
            yield f"domains/{domain.name}/{name}", (folder / name).read_bytes()


def _modules(folder: str, where: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in where.iterdir():
        if entry.name.endswith(".py"):
            yield f"{folder}/{entry.name}", entry.read_bytes()


RULES_DIGEST: Final = rules_digest(_sources())
"""64 hexadecimal digits over the rules of this installation."""


def current_digest() -> str:
    """The digest over all rules of this process: RULES_DIGEST, and those of the domains from outside taken in."""
    several = tuple(domain for domain in taken_in() if domain.package)
    return RULES_DIGEST if not several else _with(several)


def digest_of_domain(domain: Domain) -> str:
    """The digest over the pure files of one domain."""
    return rules_digest(_of_domain(domain))


@cache
def _with(several: tuple[Domain, ...]) -> str:
    sources = [source for domain in several for source in _of_domain(domain)]
    return rules_digest([("metajournal", RULES_DIGEST.encode()), *sources])
