"""Tables and pairs that fit their console without ever breaking a word: a URN, a position, a path can be copied.

Columns share the room that there is, each at least as wide as its longest word. Where even that does not fit, a row
becomes a block: its first cell on a line of its own, the others below it. A word longer than the console is left whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

GAP = 2


class Listing:
    """A borderless table, or blocks where the console is too narrow for one.

    Args:
        columns: their names.
        rows: one text for each column.
        right: columns that are set flush right.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Text]], right: Collection[str] = ()) -> None:
        self._columns = columns
        self._rows = rows
        self._right = right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._blocks()
        else:
            yield self._table(widths)

    def _widths(self, most: int) -> list[int] | None:
        """The columns' widths; None where they cannot stand side by side."""
        cells = [[Text(name), *(row[index] for row in self._rows)] for index, name in enumerate(self._columns)]
        least = [max(map(longest_word, column)) for column in cells]
        wished = [max(map(longest_line, column)) for column in cells]
        room = most - GAP * (len(cells) - 1) - sum(least)
        if room < 0:
            return None
        lacking = sum(wished) - sum(least)
        share = min(1.0, room / lacking) if lacking else 0.0
        return [low + int((high - low) * share) for low, high in zip(least, wished, strict=True)]

    def _table(self, widths: Sequence[int]) -> Table:
        drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold dim")
        for name, width in zip(self._columns, widths, strict=True):
            drawn.add_column(name, justify="right" if name in self._right else "left", overflow="fold", width=width)
        for row in self._rows:
            drawn.add_row(*row)
        return drawn

    def _blocks(self) -> Iterator[RenderableType]:
        for first, *others in self._rows:
            yield _whole(first)
            pairs = zip(self._columns[1:], others, strict=True)
            yield Pairs([(Text(f"  {name}"), cell) for name, cell in pairs if cell.plain not in ("", "-")])


class Pairs:
    """Names with their values; one with a word that does not fit beside its name stands below it.

    So does a value of several lines of which one does not fit: they are the value's own, and never wrapped.
    """

    def __init__(self, pairs: Sequence[tuple[Text, Text]]) -> None:
        self._pairs = pairs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        names = max((name.cell_len for name, _ in self._pairs), default=0)
        room = options.max_width - names - GAP
        for name, value in self._pairs:
            if (longest_line if "\n" in value.plain else longest_word)(value) <= room:
                row = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
                row.add_column(style="dim", width=names, no_wrap=True)
                row.add_column(overflow="fold", width=min(room, longest_line(value)))
                row.add_row(name, value)
                yield row
            else:
                yield Text(name.plain, style="dim")
                yield _whole(Text("\n").join(Text("    ").append_text(line) for line in value.split("\n")))


def _whole(text: Text) -> Text:
    """A text whose lines are never wrapped."""
    whole = text.copy()
    whole.no_wrap, whole.overflow = True, "ignore"
    return whole


def longest_word(text: Text) -> int:
    """Width of the longest word of a text, in cells."""
    return max((Text(word).cell_len for word in text.plain.split()), default=0)


def longest_line(text: Text) -> int:
    """Width of the longest line of a text, in cells."""
    return max((Text(line).cell_len for line in text.plain.splitlines()), default=0)
