"""Finds a message in Gmail, sent or as a draft, by its Message-ID, and the owner's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from mail.gmail.answers import MessageReference, pages
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailHistoryExpired, GmailNotFound
from mail.gmail.mime import NAMELESS, OUTBOUND_HEADER
from mail.models import Approval, OutboundMessage, OutboundStatus
from mail.rules.automated import is_auto_submitted
from mail.services.drafting.gmail_drafts import GmailDraft, content_hash, read_draft
from mail.services.sending.loop_guard import ANSWERED, is_persons_answer
from mail.services.sending.outbound import outgoing_mail
from mail.services.timelines.threads import DISCARDING_LABELS
from mail.text.addresses import parse_addresses
from mail.text.parsed import Headers
from mail.text.parts import raw_headers
from tenants.scope import firm_scope

SENT, DRAFT = "SENT", "DRAFT"
ALREADY_SENT = "An automatic reply to the message is in the sent mail already."
DISCARDED = "The message is in the trash, among spam, or deleted."


def rfc822_query(outbound: OutboundMessage) -> str:
    """Return the search for all messages with the message's Message-ID."""
    return f"rfc822msgid:{outbound.rfc822_id.strip('<>')}"


def search_sent(gmail: GmailClient, outbound: OutboundMessage) -> MessageReference | None:
    """Return the sent message that Gmail's search finds; None does not mean it was not sent."""
    page = gmail.list_messages(rfc822_query(outbound), label_id=SENT, everywhere=True)
    return next(iter(page.get("messages", [])), None)


def sent_in_history(gmail: GmailClient, outbound: OutboundMessage) -> MessageReference | None:
    """Return the sent message that the mailbox's history names, which does not lag."""
    return next(_in_history(gmail, outbound, SENT), None)


def overtaken(gmail: GmailClient, outbound: OutboundMessage) -> str:
    """Return why nobody wants an automatic reply any more, empty if it may be sent.

    Gmail is asked, because the reply may have waited for longer than the last sync is ago. Whatever
    a person has approved or ordered is sent all the same.
    """
    waits = outbound.status in (OutboundStatus.QUEUED, OutboundStatus.SENDING)
    if not outbound.auto_reply_to or outbound.releases != 1 or not waits:
        return ""
    message = outbound.message
    with firm_scope(outbound.firm_id):
        if Approval.objects.filter(outbound=outbound).exists():
            return ""
    if message is None:
        return DISCARDED
    try:
        thread = gmail.get_thread(outbound.gmail_thread_id, "metadata")
    except GmailNotFound:
        return DISCARDED
    whom = {outbound.auto_reply_to}
    for one in thread["messages"]:
        labels = one.get("labelIds", [])
        if one["id"] == message.gmail_message_id and not DISCARDING_LABELS.isdisjoint(labels):
            return DISCARDED
        headers = raw_headers(one.get("payload", {}))
        to = parse_addresses((*headers.get_all("To"), *headers.get_all("Cc")))
        is_later = int(one["internalDate"]) >= int(message.internal_date.timestamp() * 1000)
        if SENT not in labels or not is_later:
            continue
        if is_persons_answer(headers, to, whom):
            return ANSWERED
        if _is_another_reply(headers, outbound):
            return ALREADY_SENT
    return ""


def _is_another_reply(headers: Headers, outbound: OutboundMessage) -> bool:
    """Say whether this is another automatic reply of Mailroom's to the same message.

    Its row may be missing: the database may have been restored from an earlier backup.
    """
    answered = (headers.get("In-Reply-To") or "").strip()
    is_ours = OUTBOUND_HEADER in headers and is_auto_submitted(headers)
    is_other = is_ours and not _is_it(headers, outbound)
    return is_other and answered == outbound.in_reply_to != ""


def delete_unsent(gmail: GmailClient, outbound: OutboundMessage) -> bool:
    """Delete the message's draft, if it has one; say whether that shows that it was not sent."""
    if not outbound.gmail_draft_id:
        return True
    draft = read_draft(gmail, outbound.gmail_draft_id)
    if draft is None or not is_untouched(outbound, draft):
        return False
    try:
        gmail.delete_draft(draft.draft_id)
    except GmailNotFound:
        return False
    return True


def left_drafts(gmail: GmailClient, outbound: OutboundMessage) -> list[GmailDraft]:
    """Return the message's drafts that exist, including those whose ids no attempt could store.

    A draft that the person has changed is theirs, so it is not among them.
    """
    drafts = [read_draft(gmail, draft_id) for draft_id in _draft_ids(gmail, outbound)]
    return [one for one in drafts if one is not None and is_untouched(outbound, one)]


def is_untouched(outbound: OutboundMessage, draft: GmailDraft) -> bool:
    """Say whether the draft is unchanged; if its id is not stored yet, by its content."""
    if outbound.gmail_draft_id == draft.draft_id and outbound.gmail_draft_message_id:
        return outbound.gmail_draft_message_id == draft.gmail_message_id
    filenames = sorted(name or NAMELESS for name in outbound.filenames)
    if filenames != sorted(name for name, _ in draft.files):
        return False
    return draft.content_hash == content_hash(outgoing_mail(outbound), draft.files)


def _draft_ids(gmail: GmailClient, outbound: OutboundMessage) -> set[str]:
    found = {draft["id"] for draft in gmail.find_drafts(rfc822_query(outbound))}
    # The search may not find them yet, so the history is read, too.
    message_ids = {message["id"] for message in _in_history(gmail, outbound, DRAFT)}
    for page in pages(gmail.list_drafts) if message_ids else ():
        found.update(
            draft["id"] for draft in page.get("drafts", []) if draft["message"]["id"] in message_ids
        )
    return found


def _in_history(
    gmail: GmailClient, outbound: OutboundMessage, label: str
) -> Iterator[MessageReference]:
    """Yield messages that arrived under this label since `history_id` and are this message."""
    if outbound.history_id is None:
        return
    for added in _added_since(gmail, str(outbound.history_id)):
        if label not in added.get("labelIds", [label]):
            continue
        try:
            message = gmail.get_message(added["id"], fmt="metadata")
        except GmailNotFound:
            continue
        headers = raw_headers(message.get("payload", {}))
        if label in message.get("labelIds", []) and _is_it(headers, outbound):
            yield added


def _added_since(gmail: GmailClient, history_id: str) -> list[MessageReference]:
    added: list[MessageReference] = []
    with suppress(GmailHistoryExpired):
        for page in pages(partial(gmail.history, history_id)):
            for record in page.get("history", []):
                added += [change["message"] for change in record.get("messagesAdded", [])]
    return added


def _is_it(headers: Headers, outbound: OutboundMessage) -> bool:
    """Compare our own header, too, because Gmail may replace the Message-ID."""
    own = (headers.get("Message-ID") or "").strip() == outbound.rfc822_id
    return own or (headers.get(OUTBOUND_HEADER) or "").strip() == str(outbound.pk)
