"""Prints the report of a rehearsal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interfaces.commands import JsonCommand
from interfaces.tables import printable


def show_rehearsal(command: JsonCommand, report: Mapping[str, Any]) -> None:
    """Print what the job would do, the parts that are not empty."""
    error = report["error"] or {}
    facts = [
        ("outcome", report["outcome"].replace("_", " ")),
        ("error", ": ".join(filter(None, (error.get("error_class"), error.get("message"))))),
        ("result", report["result"] and json.dumps(report["result"], ensure_ascii=False)),
        ("again in", report["delay_seconds"] and f"{report['delay_seconds']:g} s"),
        ("took", None if report["seconds"] is None else f"{report['seconds']:g} s"),
    ]
    command.facts(f"Rehearsal of {report['job_type']}", [fact for fact in facts if fact[1]])
    _table(
        command,
        "Writes",
        ("Table", "Inserted", "Updated", "Deleted", "Ids"),
        [
            [*(one[name] for name in ("table", "inserted", "updated", "deleted")), _ids(one["ids"])]
            for one in report["writes"]
        ],
    )
    _table(
        command,
        "Jobs it would enqueue",
        ("Type", "Firm", "Due", "Idempotency key"),
        [
            [
                one["job_type"],
                one["firm"],
                one["scheduled_at"] or f"once {one['after']}",
                one["idempotency_key"],
            ]
            for one in report["children"]
        ],
    )
    _table(
        command,
        "Calls it tried to make",
        ("Kind", "Target", "Times"),
        [[one[name] for name in ("kind", "target", "count")] for one in report["calls"]],
    )
    _table(
        command,
        "Steps",
        ("Step", "Stored before"),
        [[one["name"], "yes" if one["was_stored"] else "no"] for one in report["steps"]],
    )
    _lines(command, "Log", report["log"])
    if error.get("traceback"):
        _lines(command, "Traceback", error["traceback"].splitlines())
    command.stdout.write("\nEverything above was undone.")


def _ids(ids: list[str]) -> str | None:
    return ", ".join(ids) or None


def _table(
    command: JsonCommand, title: str, columns: tuple[str, ...], rows: list[list[object]]
) -> None:
    if rows:
        command.stdout.write("")
        command.table(title, columns, rows)


def _lines(command: JsonCommand, title: str, lines: list[str]) -> None:
    if lines:
        command.stdout.write(f"\n{title}")
        for line in lines:
            command.stdout.write(printable(line))
