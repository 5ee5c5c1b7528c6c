"""Finds the rows of a firm that mention a person, reading for a while at a time.

Nothing tells which rows mention an address, so every row is read. Each step of that is a
transaction, which keeps mailboxes locked.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from django.apps import apps
from django.db.models import QuerySet

from jobs.models import JobQueue
from mail.models import MailAccount, Message, OutboundMessage
from mail.services.exports.subjects import mentioning, text_columns
from tenants.models import AuditEntry, FirmOwned, Membership

ROWS_AT_ONCE = 50
# How many rows are searched in one query, and for how long in one step.
READ_AT_ONCE = 500
READING_SECONDS = 1.0
# The only change of an entry that the audit log's trigger allows.
ERASED_ENTRY: dict[str, Any] = {"reason": "", "before": {}, "after": {"erased": True}}


def read_on(
    firm_id: int, address: str, position: dict[str, Any]
) -> tuple[type[Any], list[Any]] | None:
    """Return the next rows that mention the address, and move the position behind them.

    No rows: the time is over, and the next step reads on. None: this is the end of the pass.
    """
    tables = _tables()
    names = list(tables)
    first = names.index(position["table"]) if position["table"] in tables else 0
    until, has_read = time.monotonic() + READING_SECONDS, False
    for name in names[first:]:
        model = tables[name]
        if name != position["table"]:
            position.update(table=name, after=None)
        while True:
            if has_read and time.monotonic() > until:
                return model, []
            rows, last = _search(model, firm_id, address, position["after"])
            has_read = True
            if rows:
                position["after"] = str(rows[-1].pk)
                return model, rows
            if last is None:
                break
            position["after"] = str(last)
    return None


def _search(
    model: type[Any], firm_id: int, address: str, after: str | None
) -> tuple[list[Any], Any]:
    """Read the firm's next rows after this id; return those with the address, and the last id.

    The id is None at the table's end.
    """
    owned = model.objects.filter(firm_id=firm_id)
    if after is not None:
        owned = owned.filter(pk__gt=after)
    ids = owned.order_by("pk").values_list("pk", flat=True)
    last = next(iter(ids[READ_AT_ONCE - 1 : READ_AT_ONCE]), None)
    if last is not None:
        owned = owned.filter(pk__lte=last)
    return list(_of_subject(owned, firm_id, address).order_by("pk")[:ROWS_AT_ONCE]), last


@cache
def _tables() -> dict[str, type[Any]]:
    """Return the tables in which a person may be mentioned, mail first, by name."""
    owned = [
        model
        for model in apps.get_models()
        if issubclass(model, FirmOwned) and model._meta.managed and text_columns(model)
    ]
    first: list[type[Any]] = [Message, OutboundMessage, JobQueue]
    # Left out: requests do not name their subject in the reason, and members are not erased.
    rest = [model for model in owned if model not in (*first, Membership)]
    return {model._meta.db_table: model for model in (*first, *rest)}


def _of_subject(owned: QuerySet[Any], firm_id: int, address: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = mentioning(owned, address)
    model = owned.model
    if model is AuditEntry:
        return rows.exclude(after=ERASED_ENTRY["after"])
    if model is Message:
        # Messages that an ingest stores after this lock are checked by the suppression list.
        list(
            MailAccount.objects.select_for_update(no_key=True)
            .filter(firm_id=firm_id)
            .order_by("pk")
        )
        return rows.defer("html", "text", "hidden_text", "headers")
    return rows
