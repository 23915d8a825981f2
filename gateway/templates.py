"""Templates as HTML: escaped at output, names that are missing refused, odd characters visible.

Metadata is text. Whatever a template puts out is escaped, and characters that cannot be seen, or that turn the order
of others round, are shown as their numbers. Fields of forms alone keep them (`raw`), so that a form sends back what it
was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from ..schemas.pages import address_of
from ..schemas.registry import domains_in
from ..schemas.wording import ODD

OWN: Final = f"{__package__}.pages"
"""Where the gateway's own templates are."""
_LINK: Final = re.compile(r"https?://[!#-;=?-Z\[\]_a-z~]+")


def visible(text: str) -> str:
    """A text whose odd characters stand as their numbers: `⟨U+202E⟩`."""
    return ODD.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def raw(text: Any) -> Markup:
    """A text as it is, escaped: for the values of fields, which are sent back."""
    return escape(str(text))


def linked(text: str) -> Markup:
    """A text, as a link where it is nothing but an address of http or https without a user's name."""
    if _LINK.fullmatch(text) is None or not _is_address(text):
        return escape(visible(text))
    return Markup('<a href="{0}" rel="noreferrer noopener nofollow">{0}</a>').format(text)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc


def time_text(time_ms: int) -> str:
    """Milliseconds UTC as people read them; ones outside of the calendar as a number."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} UTC"


def marked(why: Any) -> Markup:
    """The text of a reason for a hit, its matches marked."""
    shown, begin = [], 0
    for start, end in why.matched:
        shown += [escape(visible(why.text[begin:start])), Markup("<mark>%s</mark>") % visible(why.text[start:end])]
        begin = end
    return Markup("").join([*shown, escape(visible(why.text[begin:]))])


def _put_out(value: Any) -> Any:
    """What an expression of a template puts out: odd characters as their numbers."""
    if isinstance(value, Markup | StrictUndefined):
        return value
    return "" if value is None else visible(str(value))


def environment(topic_domains: Iterable[str], assets: str) -> Environment:
    """The templates of the gateway, and those of served domains under their names.

    Args:
        topic_domains: the domains that have a journal topic; one without templates of its own adds none.
        assets: the address below which stylesheet and scripts stand.
    """
    packages = {domain.name: domain.package for topic in topic_domains for domain in domains_in(topic)}
    made = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_put_out, trim_blocks=True, lstrip_blocks=True,
        auto_reload=False, loader=FunctionLoader(_loader(packages)),
    )  # fmt: skip
    filters: dict[str, Callable[..., str]] = {"raw": raw, "linked": linked, "time": time_text, "marked": marked}
    made.filters |= filters
    made.globals |= {"address": address_of, "assets": assets}
    return made


def _loader(packages: dict[str, str]) -> Callable[[str], str | None]:
    """What finds templates: `home.html` of the gateway, `<domain>/entity.html` of a domain."""

    @cache
    def load(name: str) -> str | None:
        domain, slash, file = name.rpartition("/")
        package = OWN if not slash else f"{packages[domain]}.pages" if packages.get(domain) else None
        if package is None or not file.endswith(".html"):
            return None
        found = files(package).joinpath(file)
        return found.read_text("utf-8") if found.is_file() else None

    return load
