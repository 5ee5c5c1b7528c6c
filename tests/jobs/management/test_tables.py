"""Tables in terminals and in pipes, and CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column
from rich.text import Text

from interfaces.tables import print_table
from jobs.management.tables import error_column
from tenants.models import Firm
from tests.factories.jobs import JobQueueFactory

pytestmark = pytest.mark.req("O-04")

Runner = Callable[..., Any]
ROW = ["0" * 36, "dlq", "harbour-toys", "ValueError " + "it broke " * 20]


def printed(width: int, *, terminal: bool, rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table with these rows."""
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, no_color=True, markup=False)
    # A column keeps the cells of the table that it was in.
    columns = [Column("Job", no_wrap=True), "Status", "Firm", error_column("Error")]
    print_table(console, "", columns, rows)
    return Text.from_ansi(out.getvalue()).plain.splitlines()


def test_words_and_emoji_that_need_joiners_are_left_whole() -> None:
    spelled = ["می\u200cشود", "👩\u200d👧"]
    line = printed(200, terminal=False, rows=[[*spelled, "\x1b[31m", "\u202eexe.txt"]])[1]
    assert line.split() == [
        *spelled,
        "\N{REPLACEMENT CHARACTER}[31m",
        "\N{REPLACEMENT CHARACTER}exe.txt",
    ]


@pytest.mark.parametrize("width", [80, 60])
def test_in_a_narrow_terminal_the_last_columns_go_below_their_row(width: int) -> None:
    lines = printed(width, terminal=True, rows=[ROW, [*ROW[:3], None]])
    assert max(cell_len(line) for line in lines) <= width
    assert [word for word in lines[0].split() if word != "Firm"] == ["Job", "Status"]
    assert lines[1].split()[:2] == ["0" * 36, "dlq"]
    text = " ".join(" ".join(lines).split())
    assert "Error: ValueError it broke" in text
    assert (text.count("Error:"), text.count("it broke")) == (1, 20)


def test_in_a_wide_terminal_a_row_is_one_line() -> None:
    heading, line = printed(120, terminal=True, rows=[ROW])
    assert (heading.split(), "…" in line, cell_len(line)) == (
        ["Job", "Status", "Firm", "Error"], True, 120,
    )  # fmt: skip


def test_in_a_pipe_a_row_is_one_whole_line() -> None:
    _, line = printed(80, terminal=False, rows=[ROW])
    assert line.count("it broke") == 20


def test_in_a_pipe_no_line_ends_with_blanks(run: Runner, firm: Firm) -> None:
    short = [*ROW[:3], None]
    assert [
        line for line in printed(80, terminal=False, rows=[ROW, short]) if line[-1] == " "
    ] == []
    job = JobQueueFactory(firm=firm)
    for command in (("list",), ("show", str(job.pk)), ("stats",)):
        lines = run("jobs", *command).out.splitlines()
        assert [line for line in lines if line.endswith(" ")] == []


def test_a_list_as_csv_has_the_fields_of_its_json(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, last_error='=cmd("x"), then\na second line')
    JobQueueFactory(firm=firm)
    done = run("jobs", "list", "--csv")
    rows = list(csv.DictReader(StringIO(done.out)))
    [expected] = [
        row for row in run("jobs", "list", "--json").json["results"] if row["job_id"] == str(job.pk)
    ]
    [row] = [row for row in rows if row["job_id"] == str(job.pk)]
    assert row.keys() == expected.keys()
    assert (len(rows), row["status"], row["lock_key"]) == (2, "pending", expected["lock_key"] or "")
    assert row["last_error"] == "'" + job.last_error
    assert "More: --cursor" in run("jobs", "list", "--csv", "--limit", "1").err
    assert run("dlq", "list", "--csv").out.startswith("id,job_id,firm")
