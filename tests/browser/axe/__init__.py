"""What axe-core finds wrong with a page for those who do not see it, or see it badly, or use no mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import BrowserContext, Page

AXE: Final = Path(__file__).parent / "axe-core-4.14.1.min.js"
_GRAVE: Final = ("serious", "critical")


def equip(context: BrowserContext) -> None:
    """Have axe-core in each page that a context opens from now on, beside the scripts of the page."""
    context.add_init_script(path=AXE)


def grave(page: Page, *rules: str) -> list[str]:
    """What is serious or critical on the page as it is shown now: the rule, and the element that breaks it.

    Args:
        rules: look at these alone; none: at all.
    """
    only: dict[str, Any] = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    answer: Any = page.evaluate("how => axe.run(document, how)", {"resultTypes": ["violations"], **only})
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in answer["violations"] if one["impact"] in _GRAVE for node in one["nodes"]
    ]  # fmt: skip
