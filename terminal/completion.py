"""Shell completion: `metajournal completion SHELL`, and what completes words that only metajournal knows.

click makes the scripts and completes commands and options; here kinds, event types and URNs are added. Whatever goes
wrong while a word is completed means no suggestion, never an error in somebody's prompt.
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from .exits import COMPLETION
from .rendering import writing

SHELLS: Final = ("bash", "zsh", "fish")
_URNS: Final = 20
_ASKED_S: Final = 1.0
_WHOLE_URNS: Final = "\n# A URN is one word, including its colon.\nCOMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n"


@click.command(short_help="Print a script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print a script that completes commands, options, event types, kinds and URNs in your shell.

    \b
    metajournal completion bash > ~/.local/share/bash-completion/completions/metajournal
    metajournal completion zsh > ~/.zfunc/_metajournal        (a folder of your fpath)
    metajournal completion fish > ~/.config/fish/completions/metajournal.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    root = context.find_root()
    script = kind(root.command, {}, "metajournal", COMPLETION).source()
    with writing():
        click.echo(script + (_WHOLE_URNS if shell == "bash" else ""), nl=False)


def complete_kind(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Kinds of entities that begin so."""
    from ..schemas.kinds import KINDS

    return [CompletionItem(kind) for kind in sorted(KINDS) if kind.startswith(begun)]


def complete_event(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Event types that begin so, in any case."""
    from .parsing import EVENT_CLASSES

    return [CompletionItem(name) for name in sorted(EVENT_CLASSES) if name.lower().startswith(begun.lower())]


def complete_urn(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """URNs that begin so: kinds until the colon, then entities that the index knows."""
    kind, colon, rest = begun.partition(":")
    if not colon:
        return [CompletionItem(f"{item.value}:") for item in complete_kind(context, parameter, kind)]
    try:
        return [CompletionItem(urn) for urn in _urns(context, kind, rest) if urn.startswith(begun)]
    except Exception:
        return []


def _urns(context: click.Context, kind: str, rest: str) -> list[str]:
    from ..indexer.search.searching import Search
    from .options import Options

    options = context.find_root().params
    settings = Options(options.get("file"), tuple(options.get("overrides") or ())).settings
    namespace, slash, name = rest.rpartition("/")
    where = namespace.partition("/")[0] if slash else None
    with Search(settings) as catalog:
        results = catalog.search(
            f"{name}*" if name else "", kinds=[kind], namespace=where, limit=_URNS, timeout_s=_ASKED_S, paging=False
        )
    return sorted(str(hit.urn) for hit in results.hits)


COMPLETING: tuple[click.Command, ...] = (completion,)
