"""What is wrong with a page as it is laid out, for whoever sees it and for whoever does not; wide and narrow, each in
light and dark."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

from tests.browser.axe import grave
from tests.browser.visitor import Visitor

_BY_COLOURS: Final = "color-contrast"
_BY_LOOKS: Final = (_BY_COLOURS, "target-size", "scrollable-region-focusable")
"""The rules whose answer depends on colours and widths."""
_WIDER: Final = "() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
_OVER: Final = """() => {
  const boxes = [], shown = document.querySelector('dialog[open]') ?? document;
  for (const one of shown.querySelectorAll('a, button, input, select, textarea, summary, h1, h2, h3')) {
    if (one.matches('.skip, .hidden') || !one.checkVisibility()) continue;
    for (const box of one.getClientRects()) if (box.width > 1 && box.height > 1) boxes.push([one, box]);
  }
  const over = [];
  boxes.forEach(([one, a], place) => {
    for (const [other, b] of boxes.slice(place + 1)) {
      if (one.contains(other) || other.contains(one)) continue;
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width > 1 && height > 1) over.push(`${one.outerHTML.slice(0, 150)} over ${other.outerHTML.slice(0, 150)}`);
    }
  });
  return over;
}"""
_BROKEN: Final = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll('th, td')) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const { 0: word, index } of text.data.matchAll(/(?<!\\S)[A-Za-z]{2,14}(?!\\S)/g)) {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word);
      }
    }
  }
  return broken;
}"""


def wrong_with(visitor: Visitor) -> list[str]:
    """What is wrong with the page that is shown: wide, then narrow, each in light and in dark."""
    page = visitor.page
    found = [f"wide: {one}" for one in (*grave(page), *_laid_out(page))]
    page.emulate_media(color_scheme="dark")
    found += [f"wide and dark: {one}" for one in grave(page, _BY_COLOURS)]
    page.set_viewport_size({"width": 360, "height": 740})
    found += [f"narrow and dark: {one}" for one in (*grave(page, *_BY_LOOKS), *_laid_out(page))]
    page.emulate_media(color_scheme="light")
    found += [f"narrow: {one}" for one in grave(page, _BY_COLOURS)]
    page.set_viewport_size({"width": 1280, "height": 720})
    return found


def _laid_out(page: Page) -> list[str]:
    """What makes one scroll sideways, what stands over something else (lines of text may touch), and words of tables
    that are broken though they are short."""
    wider, over, broken = page.evaluate(_WIDER), page.evaluate(_OVER), page.evaluate(_BROKEN)
    return [
        *[f"{wider} pixels wider than its window"] * (wider > 0), *map(str, over),
        *(f"the word {word} is broken" for word in broken),
    ]  # fmt: skip
