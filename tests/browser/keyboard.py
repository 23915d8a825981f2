"""Somebody who uses no mouse: goes on by Tab, sees at each step where the focus is, and presses Enter."""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Page

_FOCUS: Final = """() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  if (one === document.body) return null;
  return {
    text: one.innerText || one.getAttribute('aria-label') || one.name || one.textContent,
    top: box.top, inside: !!one.closest('main'),
    seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.left >= 0 && box.width > 0,
  };
}"""


def tab(page: Page) -> Any:
    """Where the focus is after one more Tab; None: it has left the page."""
    page.keyboard.press("Tab")
    focus = page.evaluate(_FOCUS)
    assert focus is None or focus["seen"], f"the focus is not seen: {focus}"
    return focus


def tab_to(page: Page, text: str) -> None:
    """Press Tab until what has a text, or a field of a name, is reached."""
    passed = []
    while (focus := tab(page)) is not None:
        if focus["text"].strip() == text:
            return
        passed.append(focus["text"])
    raise AssertionError(f"{text!r} is not reached: {passed}")


def enter(page: Page, text: str) -> None:
    """Press Enter on what has a text."""
    tab_to(page, text)
    page.keyboard.press("Enter")
