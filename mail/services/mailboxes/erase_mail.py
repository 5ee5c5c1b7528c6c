"""Deletes the mail of a disconnected mailbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from mail.models import (
    Action,
    AgentRun,
    Approval,
    Attachment,
    Connection,
    Decision,
    Document,
    Draft,
    MailAccount,
    MailEvent,
    MailLabel,
    MailThread,
    Message,
    OutboundMessage,
    PushReceipt,
)
from tenants.audit import SERVICE, record_operation
from tenants.scope import firm_scope

DELETED_AT_ONCE = 500
# The models that hold a mailbox's mail, in the order in which it is deleted.
CONTENT: tuple[type[Any], ...] = (
    MailEvent,
    Approval,
    OutboundMessage,
    AgentRun,
    Action,
    Decision,
    Draft,
    Document,
    Attachment,
    Message,
    MailThread,
    PushReceipt,
)


def count_mail(account_id: Any, firm_id: int) -> int:
    """Return how many rows `erase_mail` would delete now."""
    with firm_scope(firm_id):
        return sum(_of_account(model, account_id)().count() for model in CONTENT)


def erase_mail(account_id: Any, firm_id: int, *, counted: int = 0) -> dict[str, Any]:
    """Delete the mail of a disconnected mailbox after its time has come; the mailbox stays.

    `counted` is how many rows there were at first, because an earlier attempt may have deleted some.
    """
    # Five minutes' tolerance, because the queue's clock may be ahead of this process's.
    now = timezone.now() + timedelta(minutes=5)
    with firm_scope(firm_id):
        due = MailAccount.objects.filter(
            pk=account_id, connection=Connection.DISCONNECTED, delete_mail_at__lte=now
        )
    deleted, before = 0, -1
    # A job in flight may have stored an answer to mail that was still there, after the answers had
    # their turn. So rounds follow until one deletes nothing: then there is no mail left to answer.
    while deleted > before:
        before = deleted
        for model in CONTENT:
            rows = _of_account(model, account_id)
            while page := _delete_page(firm_id, due, rows):
                deleted += page
    rows_in_all = max(counted, deleted)
    with firm_scope(firm_id):
        ended = due.update(delete_mail_at=None, history_cursor=None, last_sync_at=None)
        if not ended:
            return {"skipped": True, "reason": "The mailbox is connected, or its mail is kept"}
        MailLabel.objects.filter(account_id=account_id).delete()
        record_operation(
            SERVICE,
            "mailbox.erase_mail",
            firm_id=firm_id,
            target=("mailbox", account_id),
            after={"rows": rows_in_all},
        )
    return {"rows": rows_in_all}


def _of_account(model: type[Any], account_id: Any) -> Any:
    column = "message__account_id" if model is Attachment else "account_id"
    return lambda: model.objects.filter(**{column: account_id})


def _delete_page(firm_id: int, due: QuerySet[MailAccount], rows: Any) -> int:
    """Delete some rows in a transaction of its own, if the mail is still due; return how many."""
    with firm_scope(firm_id):
        if not due.select_for_update(no_key=True).exists():
            return 0
        found: QuerySet[Any] = rows()
        page = list(found.order_by("pk").values_list("pk", flat=True)[:DELETED_AT_ONCE])
        found.filter(pk__in=page).delete()
    return len(page)
