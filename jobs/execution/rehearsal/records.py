"""Keeps what a rehearsal does: statements, rows of the project's models, steps, log lines."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import Model
from django.db.models.signals import post_delete, post_save

from interfaces.redaction import redact
from jobs.engine.redaction import redact_secrets
from jobs.errors import WrongPlace
from jobs.execution.context import JobContext

MOST_IDS = 20
MOST_LINES = 200
MOST_CHARACTERS = 1000
MOST_STEPS = 100

_ENDS_TRANSACTION = re.compile(
    r"\s*(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+TO))\b",
    re.IGNORECASE,
)
_SAVEPOINT = re.compile(r"\s*(?:SAVEPOINT|RELEASE|ROLLBACK\s+TO)\b", re.IGNORECASE)


def run_statement(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Run a statement of the handler as it would run alone; refuse those that end a transaction.

    If one fails outside the handler's own transactions, it is undone by itself, as with autocommit.
    """
    text = sql if isinstance(sql, str) else ""
    if _ENDS_TRANSACTION.match(text):
        raise WrongPlace(
            "a rehearsal runs in one transaction, so the handler may not begin or end one"
        )
    if any(connection.savepoint_ids) or _SAVEPOINT.match(text):
        return execute(sql, params, many, context)
    if connection.needs_rollback:
        transaction.set_rollback(False)
    if connection.vendor != "postgresql":
        # A statement that fails on SQLite undoes itself alone.
        return execute(sql, params, many, context)
    with transaction.atomic():
        return execute(sql, params, many, context)


class SavedRows:
    """The ids of the rows that were saved or deleted one by one, by table."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, list[str]] = defaultdict(list)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note the rows inside the block."""
        for signal in (post_save, post_delete):
            signal.connect(self._note, weak=False, dispatch_uid=f"rehearsal {id(self)}")
        try:
            yield
        finally:
            for signal in (post_save, post_delete):
                signal.disconnect(dispatch_uid=f"rehearsal {id(self)}")

    def _note(self, sender: type[Model], instance: Model, **_: Any) -> None:
        ids = self._ids[sender._meta.db_table]
        if len(ids) < MOST_IDS and str(instance.pk) not in ids:
            ids.append(str(instance.pk))

    def of(self, table: str) -> list[str]:
        """Return the first ids of the table's rows that were saved or deleted."""
        return self._ids.get(table, [])


class RehearsalContext(JobContext):
    """`ctx` of a rehearsal: it also notes the steps."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._steps = STEPS

    def _find_step(self, name: str, function: Callable[..., Any]) -> tuple[Any] | None:
        stored = super()._find_step(name, function)
        if stored is not None:
            self._note(name, stored[0], was_stored=True)
        return stored

    def _save_step(self, name: str, result: object, began: float) -> Any:
        stored = super()._save_step(name, result, began)
        self._note(name, stored, was_stored=False)
        return stored

    def _note(self, name: str, result: object, *, was_stored: bool) -> None:
        if len(self._steps) < MOST_STEPS:
            step = {"name": name, "was_stored": was_stored, "result": redact_secrets(result)}
            self._steps.append(step)


# Global, because the executor makes the context, and a process rehearses one job only.
STEPS: list[dict[str, Any]] = []


class LogLines(logging.Handler):
    """Keeps the first log lines, redacted."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        if len(self.lines) < MOST_LINES:
            self.lines.append(redact(self.format(record), MOST_CHARACTERS))

    def replace_handlers(self) -> None:
        """Take the place of the root logger's handlers, and write as the first of them does."""
        root = logging.getLogger()
        if root.handlers:
            self.setFormatter(root.handlers[0].formatter)
        root.handlers = [self]
