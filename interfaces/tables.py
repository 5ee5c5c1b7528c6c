"""Tables for people at a terminal, and CSV for spreadsheets."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

GAP = 2
# A column that may be cut is not cut to less than this, which would be of no use.
MIN_SHORTENED = 24
# A spreadsheet treats a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Kept, though Python does not count them as printable: the end of a line, and the marks that join
# letters or keep them apart, as in Persian, in scripts of India and in emoji.
KEPT = "\n\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def printable(text: str) -> str:
    """Return `text` without control characters, which could steer the reader's terminal."""
    return "".join(
        char if char.isprintable() or char in KEPT else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def print_table(
    console: Console,
    title: str,
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[object]],
) -> None:
    """Print a table; None prints as a dash.

    In a terminal that is too narrow, the columns that do not fit go below their row. Elsewhere
    (a pipe, a file) each row is one line, however long, so that it can be searched.
    """
    made = [
        Column(column, overflow="fold") if isinstance(column, str) else column for column in columns
    ]
    cells = [[_cell(value) for value in row] for row in rows]
    by_column = list(zip(*cells, strict=True)) or [()] * len(made)
    widths = [
        max(cell_len(str(text)) for text in (column.header, *own))
        for column, own in zip(made, by_column, strict=True)
    ]
    needed = [
        min(width, MIN_SHORTENED) if column.ratio else width
        for column, width in zip(made, widths, strict=True)
    ]
    if not console.is_terminal:
        console.width = max(console.width, _sum(widths))
    if _sum(needed) > console.width:
        _print_records(console, title, made, cells, widths)
        return
    table = Table(
        *made,
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="bold",
        # A column with a ratio fills the rest of the line.
        expand=any(column.ratio for column in made),
    )
    for row in cells:
        table.add_row(*row)
    print_padded(console, table)


def print_padded(console: Console, renderable: RenderableType) -> None:
    """Print a renderable that pads its lines with blanks; outside of a terminal, strip those."""
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as captured:
        console.print(renderable)
    lines = captured.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def _print_records(
    console: Console,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Text]],
    widths: Sequence[int],
) -> None:
    """Print the first columns as a table, and the others below each row with their names."""
    fitting = 1
    while fitting < len(columns) and _sum(widths[: fitting + 1]) <= console.width:
        fitting += 1
    names = [str(column.header) for column in columns]
    if title:
        console.print(title, style="italic")
    heading = [Text(name) for name in names[:fitting]]
    console.print(_line(heading, widths), style="bold")
    for row in rows:
        console.print(_line(row[:fitting], widths), soft_wrap=True)
        rest = zip(names[fitting:], row[fitting:], strict=True)
        details = [
            Text.assemble((f"{name}: ", "dim"), text) for name, text in rest if str(text) != "-"
        ]
        if details:
            console.print(Padding(Text(", ").join(details), (0, 0, 0, GAP), expand=False))


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for text, width in zip(cells, widths, strict=False):
        line.append_text(text).append(" " * (width - cell_len(str(text)) + GAP))
    line.rstrip()
    return line


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    return Text("-" if value is None else printable(str(value)))


class Writable(Protocol):
    """A text file, or what a command writes to."""

    def write(self, text: str, /) -> object:
        """Write the text."""


def write_csv(file: Writable, fields: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a line of the fields' names, and one line for each row; nested values as JSON."""
    names = list(fields)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_csv_cell(row[name]) for name in names] for row in rows)


def _csv_cell(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
