"""Sends one message through Gmail, at most once whatever is lost or killed on the way.

Gmail sends a draft once: then the draft is gone. So the message becomes a draft first, whose id is
stored, and only that draft is ever sent. After a lost answer or a killed worker the same draft is
sent again: either it was not sent before, or it is gone. If it is gone, the sent message is looked
for by its Message-ID: in Gmail's search, which lags, and in the history. If it is found in neither
for some time, it waits for a person. So does a message whose draft the person has changed, because
nobody has approved the change.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from mail.conf import send_check_seconds
from mail.errors import MailboxWaits, RowGone
from mail.gmail.answers import Draft, MessageReference
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailError, GmailForbidden, GmailNotFound
from mail.gmail.mime import build_mail
from mail.models import MailAccount, OutboundMessage, OutboundStatus
from mail.services.drafting.gmail_drafts import read_draft
from mail.services.mailboxes.accounts import usable_account
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.sending.loop_guard import stays_failed
from mail.services.sending.outbound import database_identity, outgoing_mail
from mail.services.sending.outgoing_files import fetch_files
from mail.services.sending.send_outcome import NOT_TOLD, complete_send, end_send
from mail.services.sending.sent_mail import (
    delete_unsent,
    is_untouched,
    left_drafts,
    overtaken,
    search_sent,
    sent_in_history,
)
from tenants.scope import firm_scope

RESTORED = "The database was restored or taken over since: the message may have been sent before."
DRAFT_GONE = (
    "The draft is gone and not in the sent mail: nobody can tell whether it was sent or discarded."
)
DRAFT_CHANGED = "The draft was changed in Gmail and is yours now: send it there, or discard it."
CHECK_PAUSE_SECONDS = 5.0


def send_outbound(
    account: MailAccount, gmail: GmailClient, outbound_id: UUID, *, job_id: UUID, release: int
) -> dict[str, Any]:
    """Send the message for this job, and return the job's result.

    Must run under the message's send lock.

    Raises:
        RowGone: the mailbox has no such message.
        MailboxWaits: the mailbox is paused, or it is too early to say whether it was sent.
        MailboxDisconnected, MailboxInactive: the mailbox may no longer be used.
        OutboundInvalid: the message cannot be written.
        GmailError: Gmail did not do it; the message stays sending.
    """
    outbound = _find(account, outbound_id)
    if _is_restored(outbound):
        end_send(outbound, OutboundStatus.UNKNOWN, RESTORED)
    elif suggests_only(account):
        _end_unsent(gmail, outbound)
    elif (why := overtaken(gmail, outbound)) and delete_unsent(gmail, outbound):
        _end_without_draft(outbound, OutboundStatus.CANCELED, why)
        _delete_left_drafts(gmail, outbound)
    else:
        repeated = outbound.started_at is not None or release > 1
        if _start(outbound, job_id, release):
            sent = _send_once(account, gmail, outbound, repeated=repeated)
            if sent is None and outbound.status == OutboundStatus.SENDING:
                _check_later(outbound)
            elif sent is not None:
                complete_send(outbound, sent)
                if repeated:
                    _delete_left_drafts(gmail, outbound)
        elif outbound.status == OutboundStatus.UNKNOWN and outbound.releases == release:
            _note_if_sent(gmail, outbound)
    status = OutboundStatus(outbound.status)
    if status == OutboundStatus.SENT:
        return {"outbound_id": str(outbound.pk), "gmail_message_id": outbound.gmail_message_id}
    return {"skipped": True, "reason": f"The message is {status.label.lower()}"}


def _find(account: MailAccount, outbound_id: UUID) -> OutboundMessage:
    with firm_scope(account.firm_id):
        rows = OutboundMessage.objects.select_related("message", "action", "account")
        found: OutboundMessage | None = rows.filter(account=account, pk=outbound_id).first()
    if found is None:
        raise RowGone(f"outbound message {outbound_id} is gone, or belongs to another mailbox")
    return found


def _is_restored(outbound: OutboundMessage) -> bool:
    if outbound.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        return False
    with firm_scope(outbound.firm_id):
        return outbound.database_id != database_identity()


def _start(outbound: OutboundMessage, job_id: UUID, release: int) -> bool:
    """Mark the message as sending, unless it was canceled, ended or released anew."""
    own_failure = Q(status=OutboundStatus.FAILED, job_id=job_id)
    unsent = Q(status__in=[OutboundStatus.QUEUED, OutboundStatus.SENDING])
    with firm_scope(outbound.firm_id):
        is_own = outbound.job_id == job_id and outbound.releases == release
        if outbound.status == OutboundStatus.FAILED and is_own and stays_failed(outbound):
            return False
        rows = OutboundMessage.objects.filter(own_failure | unsent, pk=outbound.pk)
        started = rows.filter(releases=release).update(
            status=OutboundStatus.SENDING, job_id=job_id, error="", started_at=Now()
        )
        outbound.refresh_from_db(
            fields=["status", "started_at", "gmail_draft_id", "gmail_draft_message_id"]
        )
    return bool(started)


def _send_once(
    account: MailAccount, gmail: GmailClient, outbound: OutboundMessage, *, repeated: bool
) -> MessageReference | None:
    """Return the sent message; None if a person has to decide, or if it must be checked later."""
    sent = search_sent(gmail, outbound)
    if sent is not None:
        return sent
    if not outbound.gmail_draft_id:
        _make_draft(account, gmail, outbound, repeated=repeated)
    elif (draft := read_draft(gmail, outbound.gmail_draft_id)) is None:
        return search_sent(gmail, outbound) or sent_in_history(gmail, outbound)
    elif not is_untouched(outbound, draft):
        _end_without_draft(outbound, OutboundStatus.UNKNOWN, DRAFT_CHANGED)
        return None
    elif outbound.missing_since is not None:
        _note_return(outbound)
    # Checked again, because making the draft may have taken long, and somebody may have stopped it.
    usable_account(account.firm_id, account.pk)
    if suggests_only(account):
        _end_unsent(gmail, outbound)
        return None
    if not _is_sending(outbound):
        return None
    try:
        return gmail.send_draft(outbound.gmail_draft_id)
    except GmailNotFound:
        return search_sent(gmail, outbound) or sent_in_history(gmail, outbound)
    except (GmailBadRequest, GmailForbidden) as error:
        return _refused(gmail, outbound, error, repeated=repeated)


def _is_sending(outbound: OutboundMessage) -> bool:
    """Say whether nobody has ended the message, even if its mailbox may be written to again."""
    with firm_scope(outbound.firm_id):
        outbound.refresh_from_db(fields=["status"])
    return outbound.status == OutboundStatus.SENDING


def _note_return(outbound: OutboundMessage) -> None:
    """Clear `missing_since`, because the draft came back from the trash."""
    outbound.missing_since = None
    with firm_scope(outbound.firm_id):
        OutboundMessage.objects.filter(pk=outbound.pk).update(missing_since=None)


def _refused(
    gmail: GmailClient, outbound: OutboundMessage, error: GmailError, *, repeated: bool
) -> MessageReference | None:
    """Fail a message that Gmail refuses to send, and delete its draft.

    If the draft is gone, an earlier attempt may have sent it all the same. An earlier draft may
    have been sent, too, before a person had the message sent again.

    Raises:
        GmailError: the refusal; the message is failed if it was surely not sent.
    """
    try:
        gmail.delete_draft(outbound.gmail_draft_id)
    except GmailNotFound:
        return search_sent(gmail, outbound) or sent_in_history(gmail, outbound)
    except GmailError:
        if not repeated:
            end_send(outbound, OutboundStatus.FAILED, str(error))
        raise error from None
    if outbound.in_doubt:
        _end_without_draft(outbound, OutboundStatus.UNKNOWN, f"{NOT_TOLD}: {error}")
    else:
        _end_without_draft(outbound, OutboundStatus.FAILED, str(error))
    raise error


def _end_without_draft(outbound: OutboundMessage, status: OutboundStatus, error: str) -> None:
    """End the message and forget its draft, so that sending it again creates a new one."""
    with firm_scope(outbound.firm_id):
        # Only this draft is forgotten, not another that a later attempt may have created.
        ours = OutboundMessage.objects.filter(
            pk=outbound.pk, gmail_draft_id=outbound.gmail_draft_id
        )
        ours.update(gmail_draft_id="", gmail_draft_message_id="")
        end_send(outbound, status, error)


def _make_draft(
    account: MailAccount, gmail: GmailClient, outbound: OutboundMessage, *, repeated: bool
) -> None:
    """Store the message as a draft in Gmail, and its id here; the first stored id counts."""
    _note_history(gmail, outbound)
    left = left_drafts(gmail, outbound) if repeated else []
    if left:
        draft_id, message_id = left[0].draft_id, left[0].gmail_message_id
    else:
        draft = _create_draft(account, gmail, outbound)
        draft_id, message_id = draft["id"], draft["message"]["id"]
    with firm_scope(account.firm_id):
        OutboundMessage.objects.filter(
            pk=outbound.pk, gmail_draft_id="", status=OutboundStatus.SENDING
        ).update(gmail_draft_id=draft_id, gmail_draft_message_id=message_id)
        outbound.refresh_from_db(fields=["gmail_draft_id", "history_id"])
    if outbound.gmail_draft_id != draft_id:
        # Another worker, which took this one for dead, has stored its draft first; or the message
        # was canceled meanwhile.
        gmail.delete_draft(draft_id)


def _note_history(gmail: GmailClient, outbound: OutboundMessage) -> None:
    """Store the mailbox's history id from before the message is in Gmail."""
    if outbound.history_id is not None:
        return
    history_id = int(gmail.profile()["historyId"])
    with firm_scope(outbound.firm_id):
        OutboundMessage.objects.filter(pk=outbound.pk, history_id=None).update(
            history_id=history_id
        )
        outbound.refresh_from_db(fields=["history_id"])


def _create_draft(account: MailAccount, gmail: GmailClient, outbound: OutboundMessage) -> Draft:
    raw = build_mail(
        replace(outgoing_mail(outbound), files=fetch_files(account, gmail, outbound.attachments))
    )
    if outbound.gmail_thread_id:
        try:
            return gmail.create_draft(raw, outbound.gmail_thread_id)
        except GmailNotFound:
            # The person deleted the conversation, so the answer begins a new one.
            pass
    return gmail.create_draft(raw)


def _end_unsent(gmail: GmailClient, outbound: OutboundMessage) -> None:
    """End a message that the mailbox no longer sends; an earlier attempt may have sent it."""
    if not outbound.may_be_sent:
        end_send(outbound, OutboundStatus.CANCELED, SUGGESTS_ONLY)
    elif not _note_if_sent(gmail, outbound):
        end_send(outbound, OutboundStatus.UNKNOWN, f"{NOT_TOLD}: {SUGGESTS_ONLY}")


def _note_if_sent(gmail: GmailClient, outbound: OutboundMessage) -> bool:
    """Complete the message if it is in the sent mail; say whether it is."""
    sent = search_sent(gmail, outbound) or sent_in_history(gmail, outbound)
    if sent is not None:
        complete_send(outbound, sent)
    return sent is not None


def _delete_left_drafts(gmail: GmailClient, outbound: OutboundMessage) -> None:
    """Delete drafts that a killed worker may have left; a failure to do so is ignored."""
    if outbound.started_at is None:
        return
    with suppress(GmailError):
        for draft in left_drafts(gmail, outbound):
            gmail.delete_draft(draft.draft_id)


def _check_later(outbound: OutboundMessage) -> None:
    """Leave the message to a person if it has been missing for some time."""
    with firm_scope(outbound.firm_id):
        OutboundMessage.objects.filter(pk=outbound.pk, missing_since=None).update(
            missing_since=Now()
        )
        outbound.refresh_from_db(fields=["missing_since"])
    missing_since = outbound.missing_since or timezone.now()
    if (timezone.now() - missing_since).total_seconds() < send_check_seconds():
        message = "It is too early to say whether the message was sent"
        raise MailboxWaits(message, seconds=min(CHECK_PAUSE_SECONDS, send_check_seconds()))
    end_send(outbound, OutboundStatus.UNKNOWN, DRAFT_GONE)
