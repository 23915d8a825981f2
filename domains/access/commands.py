"""`metajournal access`: who may do what through the gateway. It works without one, over Kafka and the lake.

The secret of a key is printed once, where it is issued; its hash never. A table and its `--json` come from the same
value.
"""

from __future__ import annotations

from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, cast

import click

from ...schemas.errors import InputError, UnavailableError, UnknownEntityError
from ...terminal.exits import FINE, PROBLEM
from ...terminal.options import Options, json_option, options
from ...terminal.rendering import console, fields, note, print_json, print_line, shortened, table, time_text, verdict

if TYPE_CHECKING:
    from rich.text import Text

    from ...lake_client import ConnectedJournal
    from ...producers.receipts import Receipt
    from ...terminal.listing import Listing
    from .client import AccessClient, WithAccess

_NAMES_S: Final = 5.0
"""Seconds to wait for the names of all principals, only to suggest one."""
_actor_option = click.option("--actor", metavar="NAME", help="Who is making the change.")
_on_option = click.option(
    "--on", "patterns", metavar="PATTERN", multiple=True,
    help="What it applies to: '*', 'dataset:*', 'dataset:sales/*', '*:sales/*' or a URN.",
)  # fmt: skip


@click.group()
def access() -> None:
    """Decide who may do what through the gateway: principals, their keys, and roles.

    The roles admin, developer, analyst and emitter always exist. Whoever may write the journal's topic of access may do
    all of this.

    \b
    metajournal access register ada
    metajournal access grant ada developer --on 'dataset:sales/*'
    metajournal access issue-key ada --label laptop
    metajournal access principals
    """


# Principals


@access.command()
@click.argument("principal")
@_actor_option
@json_option
@options
def register(given: Options, /, principal: str, actor: str | None, as_json: bool) -> int:
    """Create a principal, or enable a disabled one again with the grants that it had."""
    with given.journal() as journal:
        return _tell(_access(journal).register(principal, **_said(actor)), as_json)


@access.command()
@click.argument("principal")
@_actor_option
@json_option
@options
def disable(given: Options, /, principal: str, actor: str | None, as_json: bool) -> int:
    """Disable a principal. All its keys and sessions end permanently; its grants stay."""
    with given.journal() as journal:
        return _tell_of(journal, principal, _access(journal).disable(principal, **_said(actor)), as_json)


@access.command()
@click.argument("principal")
@click.argument("role")
@_on_option
@_actor_option
@json_option
@options
def grant(
    given: Options, /, principal: str, role: str, patterns: tuple[str, ...], actor: str | None, as_json: bool
) -> int:
    """Grant ROLE to a principal on what each PATTERN matches."""
    if not patterns:
        raise InputError("Nothing is named that the role applies to.", hint="Add --on '*', or --on 'dataset:sales/*'.")
    grants = [(role, pattern) for pattern in patterns]
    with given.journal() as journal:
        try:
            _access(journal).check_roles(*grants)
        except InputError as error:
            if error.code == "unknown-role" and principal in {one.name for one in _access(journal).roles()}:
                error.advise(f"The principal comes first: `metajournal access grant {role} {principal} …`.")
            raise
        except UnavailableError as error:
            note(f"Whether the role is defined is not known: {error} If it is not, the grant allows nothing.")
        return _tell_of(journal, principal, _access(journal).grant(principal, *grants, **_said(actor)), as_json)


@access.command()
@click.argument("principal")
@click.argument("role", required=False)
@_on_option
@click.option("--all", "every", is_flag=True, help="All grants of the principal.")
@_actor_option
@json_option
@options
def revoke(
    given: Options,
    /,
    principal: str,
    role: str | None,
    patterns: tuple[str, ...],
    every: bool,
    actor: str | None,
    as_json: bool,
) -> int:
    """Revoke ROLE from a principal on each PATTERN, or all its grants."""
    if every == (role is not None and bool(patterns)) or (every and (role is not None or patterns)):
        raise InputError("Give either ROLE and --on, or --all.")
    grants = [] if role is None else [(role, pattern) for pattern in patterns]
    with given.journal() as journal:
        receipt = _access(journal).revoke(principal, *grants, all=every, **_said(actor))
        return _tell_of(journal, principal, receipt, as_json)


@access.command()
@json_option
@options
def principals(given: Options, /, as_json: bool) -> int:
    """List the principals."""
    from .values import principal_json

    with given.journal() as journal:
        shown = [principal_json(one) for one in _access(journal).principals()]
    if as_json:
        print_json(shown)
        return FINE
    rows = [
        (one["name"], "yes" if one["enabled"] else "no", _granted(one["grants"], 60), f"{one['keys']:,}")
        for one in shown
    ]
    columns = ["principal", "enabled", "grants", "keys and sessions"]
    return _show(table(columns, rows, right=["keys and sessions"]) if rows else None, "no principals")


@access.command()
@click.argument("principal")
@json_option
@options
def show(given: Options, /, principal: str, as_json: bool) -> int:
    """Show one principal with its grants and keys."""
    from .urns import principal_urn
    from .values import key_json, principal_json

    with given.journal() as journal, _access(journal).opened() as directory:
        tenant = journal.settings.journal.tenant
        found = next((one for one in directory.principals(tenant) if one.name == principal), None)
        keys = directory.keys(tenant, principal)
    if found is None:
        raise UnknownEntityError(str(principal_urn(principal)))
    if as_json:
        print_json({**principal_json(found), "keys": [key_json(one) for one in keys]})
        return FINE
    pairs = [
        ("principal", found.name),
        ("enabled", "yes" if found.enabled else "no"),
        ("grants", "\n".join(f"{role} on {pattern}" for role, pattern in found.grants) or "none"),
        ("keys", "\n".join(_key_line(key_json(one)) for one in keys) or "none"),
    ]
    console().print(fields(pairs))
    return FINE


# Keys


@access.command("issue-key")
@click.argument("principal")
@click.option("--label", metavar="TEXT", default="", help="What it is for.")
@click.option("--not-after", metavar="TIME", help="Refuse it after this time (default: never).")
@click.option("--once", is_flag=True, help="It can be exchanged once, for a session.")
@_actor_option
@json_option
@options
def issue_key(
    given: Options,
    /,
    principal: str,
    label: str,
    not_after: str | None,
    once: bool,
    actor: str | None,
    as_json: bool,
) -> int:
    """Make a key for a principal and print it, this once."""
    limit_ms = None if not_after is None else _time(not_after)
    with given.journal() as journal:
        issued = _access(journal).issue_key(principal, label=label, not_after=limit_ms, once=once, **_said(actor))
        result = _result(issued.receipt)
        line = _line_of(journal, principal, result)
    if result["ok"]:
        result |= {"id": issued.key.id, "key": issued.key.text}
    if as_json:
        print_json(result)
    elif result["ok"]:
        print_line(issued.key.text)
        note("Keep it: it is not stored anywhere, and is not shown again.")
        if limit_ms is not None and limit_ms <= time_ns() // 1_000_000:
            note(f"It is refused already: {time_text(limit_ms)} has passed.")
    else:
        console().print(line, soft_wrap=True)
    return FINE if result["ok"] else PROBLEM


@access.command("issue-code")
@click.argument("principal")
@_actor_option
@json_option
@options
def issue_code(given: Options, /, principal: str, actor: str | None, as_json: bool) -> int:
    """Make a one-time code and print where to log in with it, once, within ten minutes."""
    from ...stack.home import gateway_address, login_link

    with given.journal() as journal:
        issued = _access(journal).issue_code(principal, **_said(actor))
        result = _result(issued.receipt)
        line = _line_of(journal, principal, result)
    if not result["ok"]:
        print_json(result) if as_json else console().print(line, soft_wrap=True)
        return PROBLEM
    address = gateway_address(given.home)
    link = None if address is None else login_link(address, issued.key.text)
    if as_json:
        print_json(result | {"id": issued.key.id, "code": issued.key.text, "link": link})
        return FINE
    print_line(link or issued.key.text)
    note("Open it within ten minutes; it logs in once." if link else
         "Type it within ten minutes at /login of a gateway; it logs in once.")  # fmt: skip
    return FINE


@access.command("revoke-key")
@click.argument("principal")
@click.argument("key_id", metavar="ID")
@_actor_option
@json_option
@options
def revoke_key(given: Options, /, principal: str, key_id: str, actor: str | None, as_json: bool) -> int:
    """End a key, a one-time code or a session, permanently."""
    with given.journal() as journal:
        return _tell(_access(journal).revoke_key(principal, key_id, **_said(actor)), as_json)


@access.command()
@click.argument("principal")
@json_option
@options
def keys(given: Options, /, principal: str, as_json: bool) -> int:
    """List the keys of a principal that have not been revoked."""
    from .urns import principal_urn
    from .values import key_json

    with given.journal() as journal, _access(journal).opened() as directory:
        tenant = journal.settings.journal.tenant
        shown = [key_json(one) for one in directory.keys(tenant, principal)]
        if not shown and all(one.name != principal for one in directory.principals(tenant)):
            raise UnknownEntityError(str(principal_urn(principal)), hint="`metajournal access principals` lists them.")
    if as_json:
        print_json(shown)
        return FINE
    rows = [(one["id"], one["label"], time_text(one["not_after"]), "yes" if one["once"] else "") for one in shown]
    return _show(table(["id", "label", "not after", "once"], rows) if rows else None, "no keys")


# Roles


@access.command()
@json_option
@options
def roles(given: Options, /, as_json: bool) -> int:
    """List the roles and what they allow."""
    from .values import role_json

    with given.journal() as journal:
        shown = [role_json(one) for one in _access(journal).roles()]
    if as_json:
        print_json(shown)
        return FINE
    rows = [(one["name"], "yes" if one["constant"] else "", " ".join(one["actions"])) for one in shown]
    return _show(table(["role", "built in", "actions"], rows), "")


@access.command("define-role")
@click.argument("role")
@click.argument("actions", nargs=-1, required=True)
@_actor_option
@json_option
@options
def define_role(given: Options, /, role: str, actions: tuple[str, ...], actor: str | None, as_json: bool) -> int:
    """Define ROLE by the ACTIONS that it allows, such as ReadEntity; it replaces an earlier definition."""
    with given.journal() as journal:
        return _tell(_access(journal).define_role(role, actions, **_said(actor)), as_json)


@access.command("delete-role")
@click.argument("role")
@_actor_option
@json_option
@options
def delete_role(given: Options, /, role: str, actor: str | None, as_json: bool) -> int:
    """Delete ROLE. Its name cannot be used again, since grants that name it would apply again."""
    with given.journal() as journal:
        return _tell(_access(journal).delete_role(role, **_said(actor)), as_json)


def _access(journal: ConnectedJournal) -> AccessClient:
    return cast("WithAccess", journal).access


def _said(actor: str | None) -> dict[str, Any]:
    return {} if actor is None else {"actor": actor}


def _time(text: str) -> int:
    from ...schemas.times import time_ms

    try:
        return time_ms(text)
    except ValueError as error:
        raise InputError(f"--not-after: {error}.") from None


def _result(receipt: Receipt) -> dict[str, Any]:
    from ...values import outcome_json

    said = outcome_json(receipt.outcome())
    ok = said["outcome"] not in ("rejected", "shelved")
    return {"ok": ok, "event_id": receipt.event_id, "position": str(receipt.position), **said}


def _tell(receipt: Receipt, as_json: bool) -> int:
    """Say what became of an event; fails where it was refused."""
    result = _result(receipt)
    print_json(result) if as_json else console().print(_line(result), soft_wrap=True)
    return FINE if result["ok"] else PROBLEM


def _tell_of(journal: ConnectedJournal, principal: str, receipt: Receipt, as_json: bool) -> int:
    """As `_tell`, of an event about a principal."""
    result = _result(receipt)
    print_json(result) if as_json else console().print(_line_of(journal, principal, result), soft_wrap=True)
    return FINE if result["ok"] else PROBLEM


def _line(result: dict[str, Any]) -> Text:
    """What became of an event; of one that was refused also why, and what to do."""
    from ...schemas.rejections import next_step
    from ...terminal.views import why_rejected

    if "reason" not in result:
        return _line_with(result)
    topic = str(result["position"]).rsplit("/", 2)[0]
    return _line_with(result, why_rejected(result), next_step(result["reason"], topic))


def _line_of(journal: ConnectedJournal, principal: str, result: dict[str, Any]) -> Text:
    """As `_line`, of an event about a principal: where there is none, with the nearest name and how to register it."""
    from .client import no_principal
    from .urns import principal_urn

    detail = result.get("detail")
    if result.get("reason") != UnknownEntityError.CODE or detail != {"entity": str(principal_urn(principal))}:
        return _line(result)
    known: list[str] = []
    with suppress(UnavailableError):
        known = [one.name for one in _access(journal).principals(timeout_s=_NAMES_S)]
    return _line_with(result, no_principal(principal, known), f"`metajournal access register {principal}` creates it.")


def _line_with(result: dict[str, Any], why: str = "", step: str = "") -> Text:
    from rich.text import Text

    text = Text.assemble(verdict(str(result["outcome"])), f"  {result['position']}")
    return text.append(f"  {result['reason']}: {why}\n  next: {step}") if "reason" in result else text


def _granted(grants: list[dict[str, str]], width: int) -> str:
    return shortened(", ".join(f"{one['role']} on {one['pattern']}" for one in grants), width) if grants else "none"


def _key_line(key: dict[str, Any]) -> str:
    ends = "" if key["not_after"] is None else f", until {time_text(key['not_after'])}"
    return f"{key['id']}  {key['label']}{ends}{', once' if key['once'] else ''}"


def _show(listing: Listing | None, empty: str) -> int:
    console().print(listing, crop=False) if listing is not None else print_line(empty)
    return FINE


COMMANDS = (access,)
