"""The reference page of domains: what their declarations say together."""

from __future__ import annotations

from metajournal.lake.declared import SPECS
from metajournal.schemas.domain import Domain, Kind
from metajournal.schemas.registry import domains, role, served_domains
from metajournal.schemas.topics import TopicNames

from .markdown import prose, table


def domains_page() -> list[str]:
    """The lines of the page."""
    names = TopicNames()
    lines = [
        "# Domains",
        "",
        *prose(
            "Each is one folder in `domains/`; this page is generated from their declarations.",
            "A kind that none of them declares belongs to the one that owns undeclared kinds, and is its own",
            "aggregate.",
        ),
        "## Kinds",
        "",
    ]
    kinds = [kind for domain in domains() for kind in domain.kinds]
    lines += table(["kind", "domain", "parts of the path", "aggregate"], map(_kind, kinds))
    for domain in domains():
        lines += ["", f"## {domain.name}", "", *_domain(domain, names)]
    return lines


def _kind(kind: Kind) -> tuple[str, str, str, str]:
    parts = str(kind.min_parts) if kind.min_parts == kind.max_parts else f"{kind.min_parts} or more"
    aggregate = "itself" if kind.aggregate_kind is None else f"its `{kind.aggregate_kind}`"
    return f"`{kind.name}`", kind.domain, parts, aggregate


def _domain(domain: Domain, names: TopicNames) -> list[str]:
    if not domain.served:
        return ["Its kinds are reserved; this version serves no event of it."]
    own = domain.name in served_domains()
    journal = names.journal(domain.journal or domain.name)
    module = role(domain.name, "tables")
    tables = [] if module is None else [spec.name for spec in SPECS.values() if spec in module.TABLES]
    rows = [
        ("journal topic", f"`{journal}`" + ("" if own else f", that of {domain.journal}")),
        ("change topic", f"`{names.changes(domain.name)}`" if domain.has_changes else "none"),
        ("published and indexed, with annotations", "yes" if domain.has_documents else "no"),
        ("class of actions", f"{domain.actions.of}: {', '.join(domain.actions.verbs)}"),
        ("event types", ", ".join(f"`{name}`" for name in domain.event_types)),
        ("reasons of rejections, besides those of every event", ", ".join(domain.reasons) or "none"),
        ("tables", ", ".join(f"`{name}`" for name in tables) or "none of its own"),
        ("owns undeclared kinds and annotations", "yes" if domain.owns_undeclared_kinds else "no"),
    ]
    return table(["", ""], rows)
