"""Which terms match nothing, by one request that counts for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from .grammar import Term
from .options import SearchOptions
from .query import Ask, Dsl


def unmatched(queries: Sequence[tuple[Term, Dsl]], options: SearchOptions, ask: Ask) -> tuple[Term, ...]:
    """The terms whose queries match no entity within a search's filters, in their order.

    Args:
        queries: of each term what looks for it; at least one.
    """
    answer = ask({
        "size": 0,
        "query": {"bool": {"filter": options.filters}},
        "aggs": {"terms": {"filters": {"filters": {str(number): query for number, (_, query) in enumerate(queries)}}}},
        "track_total_hits": False,
    })  # fmt: skip
    counts = answer["aggregations"]["terms"]["buckets"]
    return tuple(term for number, (term, _) in enumerate(queries) if counts[str(number)]["doc_count"] == 0)
