"""Commands that search: `search` and `suggest`. They ask Elasticsearch alone, and nothing of Kafka,
unless it is asked what the hits looked like earlier: that stands in the lake.

Thin: options become values, the index answers, `search_views.py` words it.
Invariant: each has `--json`, which prints one JSON value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..terminal.completion import complete_kind
from ..terminal.options import Options, json_option, options
from ..terminal.rendering import console, note, print_json, writing
from .journals import journal_of

if TYPE_CHECKING:
    from ..indexer.search.searching import Results, Search

MAX_LIMIT = 1000  # hits of a page
MOST_URNS = 100_000
_SORTS = ("relevance", "name", "name:asc", "name:desc", "creation_time", "creation_time:asc", "creation_time:desc")
_FILTERS = {"kinds": "kind", "namespace": "namespace", "scope": "scope"}
_SCOPE = click.option(
    "--scope", type=click.Choice(["USER", "SYSTEM"], case_sensitive=False), help="Which metadata may match."
)


@click.command(short_help="Search names, tags, properties, descriptions and schemas.")
@click.argument("query", default="")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, shell_complete=complete_kind,
    help="Only this kind; may be repeated.",
)  # fmt: skip
@click.option("--namespace", metavar="NAME", help="Only this namespace.")
@_SCOPE
@click.option("--sort", type=click.Choice(_SORTS), default="relevance", show_default=True, help="Order of the hits.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_URNS), default=20, show_default=True, metavar="N",
    help=f"Maximum number of hits: at most {MAX_LIMIT:,}, with --urns {MOST_URNS:,}.",
)  # fmt: skip
@click.option("--urns", is_flag=True, help="Print the hits' URNs alone, one per line, of as many pages as needed.")
@click.option("--cursor", metavar="TEXT", help="Continue where an earlier answer ended.")
@click.option("--facets", is_flag=True, help="Also count all hits by kind, namespace and tag.")
@click.option("--why", "--explain", "why", is_flag=True, help="Show all reasons for each hit and for its rank.")
@click.option(
    "--at-least", metavar="POSITIONS", help="Wait until the index shows this position (or these, separated by commas)."
)
@click.option(
    "--as-at", metavar="POSITIONS|TIME",
    help="Also show what each hit looked like then. The search itself finds what the index shows now.",
)  # fmt: skip
@json_option
@options
def search(
    given: Options, /, query: str, at_least: str | None, as_at: str | None, why: bool, urns: bool, as_json: bool,
    **asked: Any,
) -> None:  # fmt: skip
    """Search names, tags, properties, descriptions and schemas; best match first.

    Separate terms with spaces, any of them is enough. AND, OR, NOT, +, - and parentheses combine them; quotes make a
    phrase; a trailing * matches a prefix. Write -- before a query that begins with a minus.

    \b
    metajournal search 'noaa owner:ali*'          words, or a property's value
    metajournal search tags:pii --kind dataset    a tag, of datasets only
    metajournal search 'schema:customer_id:long'  a field of a schema
    metajournal search 'properties:owner'         entities that have such a key
    metajournal search '(orders OR sales) -pii'   either word, without what is tagged or described so
    metajournal search tags:pii --limit 1000 --urns   for `metajournal emit TYPE --each -`
    """
    from ..indexer.search.searching import Search
    from ..terminal.views import results_view
    from ..values import point, positions, results_json, then_json
    from .search_views import explained_view, facets_view, then_view, without_filters

    if as_at is not None and (why or asked["facets"]):
        raise click.UsageError("--as-at cannot be combined with --why or --facets, which describe the present.")
    if urns and (as_json or as_at is not None or why or asked["facets"]):
        raise click.UsageError("--urns prints URNs alone; omit --json, --as-at, --why and --facets.")
    if not urns and asked["limit"] > MAX_LIMIT:
        raise click.UsageError(f"--limit is at most {MAX_LIMIT:,} without --urns.")
    after = None if at_least is None else positions(at_least)
    place = None if as_at is None else point(as_at)
    options_given = {key: value for key, value in asked.items() if value not in (None, ())}
    with Search(given.settings) as catalog:
        results = (_print_urns if urns else Search.search)(catalog, query, at_least=after, **options_given)
        filtered = [f"--{option}" for key, option in _FILTERS.items() if asked[key]]
        without = catalog.search(query, limit=1, facets=True) if filtered and not (results.total or as_json) else None
    if place is not None:
        with journal_of(given) as journal:
            then = journal.then(results.hits, place)
        print_json(then_json(results, then)) if as_json else console().print(then_view(results, then), crop=False)
    elif as_json:
        print_json(results_json(results))
    elif not urns:
        out = console()
        out.print(explained_view(results) if why else results_view(results), crop=False)
        if results.facets:
            out.print(facets_view(results.facets))
    if without is not None and without.total:
        note(without_filters(without, filtered))


def _print_urns(
    catalog: Search, query: str, *, at_least: Any, limit: int, cursor: str | None = None, **asked: Any
) -> Results:
    """Print the hits' URNs, page by page, and notes on standard error; returns the last page."""
    left, notes = limit, set[str]()
    while True:
        page = catalog.search(query, at_least=at_least, limit=min(left, MAX_LIMIT), cursor=cursor, **asked)
        with writing():
            click.echo("".join(f"{hit.urn}\n" for hit in page.hits), nl=False)
        if page.note and page.note not in notes:
            notes.add(page.note)
            note(page.note)
        left, cursor = left - len(page.hits), page.cursor
        if cursor is None:
            return page
        if left <= 0:
            note(f"{page.total:,} found; there are more than the {limit:,} printed. --limit says how many to print.")
            return page


@click.command(short_help="Complete a name or a metadata key.")
@click.argument("prefix", default="")
@click.option("--keys", is_flag=True, help="Complete metadata keys instead of names.")
@_SCOPE
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number of results.",
)
@json_option
@options
def suggest(given: Options, /, prefix: str, keys: bool, scope: str | None, limit: int, as_json: bool) -> None:
    """List names (or metadata keys) that begin with a text, and how many entities have each.

    \b
    metajournal suggest ord
    metajournal suggest --keys own        then: metajournal search 'properties:owner'
    """
    from ..indexer.search.searching import Search
    from .search_views import suggestions_view

    if scope and not keys:
        raise click.UsageError("--scope can only be used with --keys: a name belongs to no scope.")
    with Search(given.settings) as catalog:
        suggestions = (
            catalog.suggest_keys(prefix, scope=scope, limit=limit)
            if keys
            else catalog.suggest_names(prefix, limit=limit)
        )
    if as_json:
        print_json([suggestion._asdict() for suggestion in suggestions])
    else:
        console().print(suggestions_view(suggestions, "key" if keys else "name"))


SEARCHING: tuple[click.Command, ...] = (search, suggest)
