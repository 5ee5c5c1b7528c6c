"""Modes of a mailbox: suggest only, or active (write to Gmail); and the two ways to pause it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from jobs import registry
from jobs.errors import WrongState as PausedAlready
from jobs.models import Pause
from jobs.operations import limits
from jobs.queue import EnqueueResult
from mail.conf import label_backlog_days
from mail.errors import MailboxWaits, WrongState
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.labels import PAUSE_LABEL
from mail.models import (
    Connection,
    EventType,
    MailAccount,
    MailThread,
    Message,
    Mode,
    PausedBy,
)
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.mailboxes.change import (
    ACTIVE_ELSEWHERE,
    cancel_waiting,
    change_mailbox,
    is_active_elsewhere,
)
from mail.services.mailboxes.connection import mailbox_limit_key
from mail.services.operation import audit, locked_row
from mail.services.queueing import request_activation, request_label_sync, request_sync
from mail.services.syncing.labels import known_label_id
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

WRITING_TYPE = "action.gmail"
PAUSE_REASON = "The mailbox is paused"
SUGGESTS_ONLY = "The mailbox is set to suggest only"
# After how long an action is tried again that was claimed before its mailbox was paused.
CHECK_SECONDS = 60


def may_write(account: MailAccount) -> bool:
    """Say whether anything may be written to Gmail, by the stored row. Must run in its scope."""
    return MailAccount.objects.filter(
        pk=account.pk, mode=Mode.ACTIVE, paused_by=PausedBy.NOTHING
    ).exists()


def suggests_only(account: MailAccount) -> bool:
    """Say whether Mailroom may not write to the mailbox at all.

    Raises:
        MailboxWaits: Mailroom may write to it, but not while it is paused.
    """
    with firm_scope(account.firm_id):
        account.refresh_from_db(fields=["mode", "paused_by"])
    if account.mode == Mode.SUGGEST:
        return True
    _refuse_while_paused(account)
    return False


def require_unpaused(account: MailAccount) -> None:
    """Refuse to write while the mailbox is paused; for requests of people, and ends of actions.

    Raises:
        MailboxWaits: the mailbox is paused.
    """
    with firm_scope(account.firm_id):
        account.refresh_from_db(fields=["mode", "paused_by"])
    _refuse_while_paused(account)


def _refuse_while_paused(account: MailAccount) -> None:
    if account.paused_by:
        raise MailboxWaits(f"mailbox {account.pk} is paused", seconds=CHECK_SECONDS)


def may_label(account: MailAccount, message: Message) -> bool:
    """Say whether a decision on this message may be shown in Gmail. Must run in the firm's scope."""
    return bool(to_be_labelled(account, [message]))


def to_be_labelled(account: MailAccount, messages: Sequence[Message]) -> list[Message]:
    """Return the messages on which a decision may be shown in Gmail. Must run in the firm's scope."""
    if not may_write(account):
        return []
    if account.active_since is None:
        return list(messages)
    first = _first_labelled(account)
    return [message for message in messages if message.internal_date >= first]


def rules_act_on(account: MailAccount, message: Message) -> bool:
    """Say whether rules act on the message by themselves, and not only if a person applies them.

    They leave alone what came before the mailbox was made active or connected again: if its mail
    was deleted meanwhile, nobody knows what was done, sent and undone before.
    """
    return account.active_since is None or message.internal_date >= account.active_since


@in_firm_scope
def activate(account: MailAccount, *, reason: str = "", by: Actor = SERVICE) -> None:
    """Let Mailroom write to Gmail, and show there the decisions on mail of the last days.

    Raises:
        WrongState: the mailbox is active already, here or in another firm.
    """
    elsewhere = is_active_elsewhere(account)
    _lock(account)
    _refuse(account.mode == Mode.ACTIVE, "The mailbox is active already.")
    _refuse(elsewhere, ACTIVE_ELSEWHERE)
    _change(account, "mailbox.activate", by, reason, mode=Mode.ACTIVE, active_since=timezone.now())
    if not account.paused_by:
        request_activation(account)


@in_firm_scope
def suggest_only(account: MailAccount, *, reason: str = "", by: Actor = SERVICE) -> None:
    """Write nothing to Gmail from now on; waiting actions and messages are canceled."""
    _lock(account)
    _refuse(account.mode == Mode.SUGGEST, "The mailbox is set to suggest only already.")
    _change(account, "mailbox.suggest_only", by, reason, mode=Mode.SUGGEST, active_since=None)
    cancel_waiting(account, SUGGESTS_ONLY)


def suggest_if_active_elsewhere(account: MailAccount) -> None:
    """Set the mailbox to suggest only if it has become active in another firm meanwhile."""
    if account.mode == Mode.ACTIVE and is_active_elsewhere(account):
        suggest_only(account, reason=ACTIVE_ELSEWHERE)
        account.refresh_from_db()


@in_firm_scope
def pause_mailbox(
    account: MailAccount,
    *,
    reason: str = "",
    by: Actor = SERVICE,
    paused_by: PausedBy = PausedBy.SWITCH,
) -> None:
    """Write nothing to Gmail until the mailbox is resumed; actions wait."""
    _lock(account)
    _refuse(bool(account.paused_by), "The mailbox is paused already.")
    _change(account, "mailbox.pause", by, reason, paused_by=paused_by)
    with suppress(PausedAlready):
        limits.pause(
            firm=account.firm_id,
            category=_writing_category(),
            job_type=WRITING_TYPE,
            limit_key=mailbox_limit_key(account.pk),
            reason=reason or PAUSE_REASON,
            by=by,
        )


@in_firm_scope
def resume_writing(account: MailAccount, *, reason: str = "", by: Actor = SERVICE) -> None:
    """End the pause; decisions that were made meanwhile are shown in Gmail."""
    _lock(account)
    _refuse(not account.paused_by, "The mailbox is not paused.")
    _change(account, "mailbox.resume", by, reason, paused_by=PausedBy.NOTHING)
    of_mailbox = Pause.objects.filter(
        firm_id=account.firm_id, job_type=WRITING_TYPE, limit_key=mailbox_limit_key(account.pk)
    )
    # Older versions set the pause without a category.
    held = of_mailbox.filter(category=_writing_category()).first() or of_mailbox.first()
    if held is not None:
        limits.resume(held, reason=reason, by=by)
    if account.mode == Mode.ACTIVE:
        request_activation(account)


def _writing_category() -> str:
    """Return the category that tells the mailbox's own pause from an operator's, which stays."""
    return registry.get(WRITING_TYPE).category


def follow_pause_label(account: MailAccount, gmail: GmailClient) -> None:
    """Pause the mailbox while any message carries the pause label, and resume it after.

    A mailbox that suggests only is not paused. But a pause from before that is ended as usual,
    because undos and snoozed mail wait for its end.
    """
    if account.mode != Mode.ACTIVE and account.paused_by != PausedBy.LABEL:
        return
    label_id = known_label_id(account, PAUSE_LABEL)
    try:
        carried = label_id is not None and gmail.get_label(label_id).get("messagesTotal", 0) > 0
    except GmailNotFound:
        carried = False
    with firm_scope(account.firm_id):
        _lock(account)
        may_pause = account.mode == Mode.ACTIVE and account.paused_by == PausedBy.NOTHING
        if carried and may_pause:
            pause_mailbox(account, reason=f"Label {PAUSE_LABEL}", paused_by=PausedBy.LABEL)
        elif not carried and account.paused_by == PausedBy.LABEL:
            resume_writing(account, reason=f"Label {PAUSE_LABEL} removed")


@in_firm_scope
def sync_now(
    account: MailAccount, *, force_full: bool = False, reason: str = "", by: Actor = SERVICE
) -> EnqueueResult:
    """Have the mailbox synced; with `force_full`, recent mail is scanned, too."""
    _refuse(account.connection != Connection.CONNECTED, "The mailbox is not connected.")
    requested = request_sync(account, force_full=force_full)
    audit(
        "mailbox.full_sync" if force_full else "mailbox.sync",
        account,
        by,
        reason,
        after={"job_id": str(requested.job.pk)},
    )
    return requested


@in_firm_scope
def sync_labels_now(
    account: MailAccount, *, reason: str = "", by: Actor = SERVICE
) -> EnqueueResult:
    """Have the mailbox's labels read."""
    _refuse(account.connection != Connection.CONNECTED, "The mailbox is not connected.")
    requested = request_label_sync(account)
    audit("mailbox.sync_labels", account, by, reason, after={"job_id": str(requested.job.pk)})
    return requested


def threads_to_label(account: MailAccount) -> QuerySet[MailThread]:
    """Return the judged threads of the last days. Must run in the firm's scope."""
    judged = MailThread.objects.filter(account=account).exclude(classification="")
    recent: QuerySet[MailThread] = judged.filter(last_message_at__gte=_first_labelled(account))
    return recent.only("pk", "account_id", "firm_id")


def _first_labelled(account: MailAccount) -> datetime:
    since = account.active_since or timezone.now()
    return since - timedelta(days=label_backlog_days())


def _lock(account: MailAccount) -> None:
    """Lock the row and read the mailbox's mode and pause, so that nobody changes them meanwhile.

    Otherwise the label in Gmail could take over a pause by the switch, and end it.
    """
    stored = locked_row(account)
    account.mode, account.paused_by = stored.mode, stored.paused_by


def _refuse(obstacle: bool, why: str) -> None:
    if obstacle:
        raise WrongState(why)


def _change(account: MailAccount, operation: str, by: Actor, reason: str, **values: object) -> None:
    change_mailbox(account, operation, by=by, reason=reason, **values)
    after = {name: str(value or "") for name, value in values.items()}
    record_event(EventType.MODE_CHANGED, account, detail={"operation": operation, **after})
