"""The rows of pages that belong to no domain."""

from __future__ import annotations

from typing import Final

from ...schemas.endpoints import Parameter
from ...schemas.pages import Page
from .completing import COMPLETIONS
from .entities import DIFF, ENTITY, HISTORY, STATES
from .events import EVENT
from .home import HOME
from .live import FEED
from .pipeline import FRESHNESS, PIPELINE_PAGE
from .searching import KEYS, SEARCH

LOGIN: Final = Page(
    "GET", "/login", "Where to log in.", is_public=True, query=(
        Parameter("next", "The page to come back to."), Parameter("code", "A one-time code that fills in its form."),
    ),
)  # fmt: skip
LOGIN_FORM: Final = Page(
    "POST", "/login", "Log in with a key, a one-time code, or by a proxy's word.", audited="login", is_public=True
)
LOGOUT: Final = Page("POST", "/logout", "End the session.", audited="login")
ASSETS: Final = Page("GET", "/assets/{state}/{asset}", "A stylesheet or a script.", is_public=True)
PAGES: Final = (
    LOGIN,
    LOGIN_FORM,
    ASSETS,
    LOGOUT,
    HOME,
    SEARCH,
    KEYS,
    ENTITY,
    HISTORY,
    STATES,
    DIFF,
    EVENT,
    PIPELINE_PAGE,
    FRESHNESS,
    COMPLETIONS,
    FEED,
)
"""Every one of them."""
