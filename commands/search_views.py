"""How an answer to a search looks where more is asked for than the hits: every reason, counts, completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..terminal.rendering import named, safe, shortened, table, time_text
from ..terminal.views import results_view

_MOST_VALUES = 10


def explained_view(results: Any) -> RenderableType:
    """Hits, best first, each with its place's reason and all texts that matched, on lines of their own."""
    from ..indexer.search.results import TIER_NAMES

    summary = results_view(results)
    if not results.hits or not isinstance(summary, Group):
        return summary
    parts: list[RenderableType] = [summary.renderables[0]]
    for hit in results.hits:
        place = "" if hit.tier is None else f"  ({TIER_NAMES[hit.tier]})"
        parts.append(Text.assemble((safe(hit.urn), "bold"), (place, "dim")))
        parts += [_reason(reason) for reason in hit.why]
    return Group(*parts, *summary.renderables[2:])


def without_filters(results: Any, filters: Sequence[str]) -> str:
    """What would be found without filters that leave nothing: kinds and namespaces are open, so none is misspelt."""
    counts = [
        f"{name} "
        + ", ".join(f"{named(value.value)} ({value.hits:,})" for value in results.facets[name][:_MOST_VALUES])
        for name in ("kind", "namespace")
        if f"--{name}" in filters
    ]
    return (
        f"Without {' and '.join(filters)} {results.total:,} would be found"
        + "".join(f"; {count}" for count in counts)
        + "."
    )


def then_view(results: Any, then: Sequence[Any]) -> RenderableType:
    """Hits as the index shows them now, each with what it looked like at an earlier point."""
    rows = [(str(hit.urn), *_looked(answer)) for hit, answer in zip(results.hits, then, strict=True)]
    notes = [Text(f"{results.total:,} found now", style="dim")]
    if results.cursor is not None:
        notes.append(Text(f"next page: --cursor {results.cursor}", style="dim", no_wrap=True, overflow="ignore"))
    if any(answer is not None and not answer.final for answer in then):
        notes.append(Text("not final: events that arrive later may change this", style="dim"))
    return Group(table(["entity", "written", "tags then", "properties then"], rows), *notes) if rows else notes[0]


def _looked(answer: Any) -> tuple[str, str, str]:
    row = None if answer is None else answer.row
    if row is None:
        return "did not exist then" if answer is None else "did not exist then (not final)", "-", "-"
    tags = ", ".join(sorted({*row.user_tags, *row.system_tags})) or "-"
    properties = ", ".join(f"{key}={value}" for key, value in sorted(row.user_properties.items())) or "-"
    return time_text(row.system_time), shortened(tags, 60), shortened(properties, 60)


def _reason(why: Any) -> Text:
    scope = f" ({why.scope})" if why.scope else ""
    key = f" {shortened(why.key, 60)}" if why.key else ""
    meant = f" for {shortened(why.instead_of, 60)}" if why.instead_of else ""
    return Text.assemble("    ", (f"{why.field}{key}{scope}: ", "dim"), shortened(why.marked(), 300), (meant, "dim"))


def facets_view(facets: Mapping[str, Sequence[Any]]) -> RenderableType:
    """Counts over all hits, the commonest values first; of those that are not shown, how many there are."""
    rows: list[tuple[str, str, str]] = []
    for name, counts in facets.items():
        rows += [
            (name if number == 0 else "", shortened(count.value, 60), f"{count.hits:,}")
            for number, count in enumerate(counts[:_MOST_VALUES])
        ]
        if len(counts) > _MOST_VALUES:
            rows.append(("", f"({len(counts) - _MOST_VALUES:,} more in --json)", ""))
    return Group(Text(), table(["facet", "value", "hits"], rows, right=["hits"])) if rows else Text()


def suggestions_view(suggestions: Iterable[Any], what: str) -> RenderableType:
    """Completions and how many entities have each."""
    rows = [(shortened(suggestion.text, 120), f"{suggestion.entities:,}") for suggestion in suggestions]
    return (
        table([what, "entities"], rows, right=["entities"]) if rows else Text(f"no {what} has this prefix", style="dim")
    )
