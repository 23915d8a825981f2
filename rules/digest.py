"""A digest of each domain's rules, so that a stream can tell whether a table was written under other ones.

A domain's digest covers the language (the parts of `schemas/` that judge events: their validation, the URNs, the limits
and the hashes), this folder, and the pure files of the domain and of those that it imports, wherever their packages
stand. So the rules of one domain change without another's. Equal sources give the equal digest on every machine and in
every form of installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from ..schemas.domain import Domain
from ..schemas.registry import domain_named, domains_in, served

_ROOT: Final = __name__.rsplit(".", 2)[0]
_JUDGING_SCHEMAS: Final = ("domain.py", "hashing.py", "header.py", "kinds.py", "limits.py", "registry.py", "urn.py")
PURE_FILES: Final = ("columns/judging.py", "domain.py", "events.py", "rows.py", "rules.py", "urns.py")
"""Files of a domain that decide verdicts and rows; they import no others of a domain."""


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


@cache
def digest_of(name: str) -> str:
    """The digest of a declared domain's rules, as this process has them.

    Raises:
        LookupError: it, or a domain that it imports, is not declared.
    """
    return rules_digest((*_language(), *(source for domain in _with_imports(name) for source in _of_domain(domain))))


def digests_of_topics(topic_domains: Iterable[str]) -> dict[str, str]:
    """The digests of all domains whose events stand in the journal topics of some domains."""
    return {domain.name: digest_of(domain.name) for name in sorted(set(topic_domains)) for domain in domains_in(name)}


def served_digests() -> dict[str, str]:
    """The digests of all served domains."""
    return {domain.name: digest_of(domain.name) for domain in served()}


def digests_text(digests: Mapping[str, str]) -> str:
    """Digests as a table's log holds them; read by `digests_from`."""
    return " ".join(f"{name}={digest}" for name, digest in sorted(digests.items()))


def digests_from(text: str) -> dict[str, str]:
    """The digests in a table's log. The only one that version 0.1.0 wrote was that of all its domains."""
    if "=" not in text:
        return {domain.name: text for domain in served() if domain.original}
    return {name: digest for name, _, digest in (pair.partition("=") for pair in text.split(" "))}


def _with_imports(name: str) -> list[Domain]:
    """A domain, and all whose files its own import."""
    names, known = [name], list[Domain]()
    for each in names:
        domain = domain_named(each)
        if domain is None:
            raise LookupError(f"the domain {each!r}, which the rules of {name!r} need, is not declared")
        known.append(domain)
        names += [other for other in domain.imports if other not in names]
    return known


def _language() -> Iterator[tuple[str, bytes]]:
    schemas = files(f"{_ROOT}.schemas")
    yield from _modules("rules", files(f"{_ROOT}.rules"))
    yield from _modules("schemas/events", schemas / "events")
    for name in _JUDGING_SCHEMAS:
        yield f"schemas/{name}", (schemas / name).read_bytes()


def _of_domain(domain: Domain) -> Iterator[tuple[str, bytes]]:
    folder = files(domain.package)
    for name in PURE_FILES:
        if (folder / name).is_file():
            yield f"domains/{domain.name}/{name}", (folder / name).read_bytes()


def _modules(folder: str, where: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in where.iterdir():
        if entry.name.endswith(".py"):
            yield f"{folder}/{entry.name}", entry.read_bytes()
