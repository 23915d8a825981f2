"""Commands about domains: `domains` lists them, `domains add NAME` has this installation serve one from outside.

Thin: what is installed says `schemas.outside`, what is served the journal, and `streaming.between.adding` adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import click

from ..schemas.domain import Domain
from ..schemas.errors import (
    DomainError,
    KafkaUnavailableError,
    MetajournalError,
    MissingExtraError,
    TopicMismatchError,
)
from ..schemas.outside import OWN_PACKAGE, declaration, file_of, installed
from ..schemas.registry import domains as own_domains
from ..schemas.registry import is_joining, role
from ..schemas.settings import Settings
from ..terminal.options import SECONDS, Options, json_option, no_options_before, options
from ..terminal.rendering import console, note, print_json, print_line, table


@click.group("domains", invoke_without_command=True, short_help="List the domains, or add an external one.")
@json_option
@options
@click.pass_context
def domains(context: click.Context, given: Options, /, as_json: bool) -> None:
    """List the domains: built-in ones, those of installed packages, and which of them this installation serves.

    \b
    metajournal domains
    metajournal domains add toys
    """
    if context.invoked_subcommand is not None:
        no_options_before(context)
        return
    rows = list(_listed(given.settings))
    if as_json:
        print_json(rows)
        return
    shown = [
        (row["name"], row["state"], row["package"], *_texts(row["kinds"], row["commands"]), row["topic"] or "-")
        for row in rows
    ]
    console().print(table(["domain", "state", "package", "kinds", "commands", "journal topic"], shown))
    for row in rows:
        if row.get("problem"):
            note(row["problem"])


def _listed(settings: Settings) -> Iterable[dict[str, Any]]:
    """Every domain: its name, what it is here, its package, kinds, commands and journal topic."""
    names = settings.journal.topics
    served, refused, away = _served(settings)
    for domain in own_domains():
        state, problem = _own_state(settings, domain, domain.name in served, away)
        state, problem = _unless_refused(refused, domain.journal or domain.name, state, problem)
        topic = names.journal(domain.journal or domain.name) if state in ("served", "refused") else None
        commands = _names(role(domain.name, "commands")) if domain.served else []
        yield _row(domain.name, state, OWN_PACKAGE, domain.kind_names, topic, commands, problem)
    ours = {domain.name for domain in own_domains()}
    for name in sorted({*served, *(brought_domain.name for brought_domain in installed())} - ours):
        recorded = served.get(name)
        brought = [brought_domain.package for brought_domain in installed() if brought_domain.name == name]
        declared, commands, problem = None, list[str](), None
        try:
            declared = declaration(name)
            commands = _names(file_of(name, "commands"))
        except DomainError as error:
            problem = str(error)
        if recorded is not None:
            state = "served" if brought else "served, not installed"
            state, problem = _unless_refused(refused, name, state, problem)
            yield _row(name, state, recorded.package, recorded.kind_names, names.journal(name), commands, problem)
        else:
            kinds = declared.kind_names if declared is not None else ()
            state = "installed" if away is None else "installed, possibly served"
            yield _row(name, state, " and ".join(brought), kinds, None, commands, problem or away)


def _own_state(settings: Settings, domain: Domain, is_recorded: bool, away: str | None) -> tuple[str, str | None]:
    """What one of our own domains is here, and what to do where it could be served and is not."""
    from ..stack.unserved import why_unserved

    if is_recorded or (domain.served and not is_joining(domain.name)):
        return "served", None
    if not domain.served:
        return "reserved", None
    if away is not None:
        return "perhaps served", away
    return "not served yet", f"{domain.name} is not served: {' '.join(why_unserved(settings, domain.name))}"


def _unless_refused(
    refused: Mapping[str, MetajournalError], name: str, state: str, problem: str | None
) -> tuple[str, str | None]:
    """State and problem of a domain; of one that is refused alone, why and what to do."""
    error = refused.get(name)
    return (state, problem) if error is None else ("refused", f"{error} {error.hint}")


def _names(commands: ModuleType | None) -> list[str]:
    """The words of the commands in a domain's file."""
    return sorted(str(command.name) for command in getattr(commands, "COMMANDS", ()))


def _texts(*several: Iterable[str]) -> tuple[str, ...]:
    return tuple(", ".join(words) or "-" for words in several)


def _row(
    name: str,
    state: str,
    package: str,
    kinds: Iterable[str],
    topic: str | None,
    commands: list[str],
    problem: str | None = None,
) -> dict[str, Any]:
    row = {
        "name": name, "state": state, "package": package, "kinds": sorted(kinds), "commands": commands, "topic": topic
    }  # fmt: skip
    return row if problem is None else {**row, "problem": problem}


def _served(settings: Settings) -> tuple[dict[str, Any], Mapping[str, MetajournalError], str | None]:
    """The domains that joined the journal, and why some are refused, by name; or why that is not known."""
    from ..producers.topics import check_topics

    try:
        epochs = check_topics(settings)
        return {served.name: served for served in epochs.outside}, epochs.refusals, None
    except (KafkaUnavailableError, TopicMismatchError) as error:
        return {}, {}, f"It is not known which domains are served: {error}"


@domains.command("add", short_help="Make this installation serve a domain that an installed package provides.")
@click.argument("name")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=60.0, show_default=True, metavar="SECONDS",
    help="How long to wait for the stream.",
)  # fmt: skip
@json_option
@options
def add(given: Options, /, name: str, timeout_s: float, as_json: bool) -> None:
    """Make this installation serve a domain that an installed package provides, from now on and permanently.

    Its topics are created, and its kinds are recorded in the journal, so the fold, every rebuild and every client use
    them. The package must be installed wherever the stream and the indexer run. If the stream is running, it adds the
    domain between two batches. Refused while an entity of one of its kinds exists in the catalog.
    """
    try:
        from ..streaming.between.adding import add_domain
    except ModuleNotFoundError as error:
        raise MissingExtraError("lake", "Adding a domain") from error
    epochs = add_domain(given.settings, name, timeout_s=timeout_s)
    served = next(outside for outside in epochs.outside if outside.name == name)
    topic = given.settings.journal.topics.journal(name)
    kinds = sorted(served.kind_names)
    if as_json:
        print_json({"ok": True, "domain": name, "package": served.package, "kinds": kinds, "topic": topic})
        return
    text = f"{name} is served from now on, in {topic}: {', '.join(kinds)}."
    print_line(f"{text} Restart the indexer, and all programs that emit or read such entities.")


DOMAINS: tuple[click.Command, ...] = (domains,)
