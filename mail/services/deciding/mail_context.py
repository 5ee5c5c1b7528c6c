"""The facts from which a classifier decides: stored messages, and what became of earlier ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils import timezone

from mail.llm.base import Category, MailContext, SenderHistory
from mail.models import Decision, DecisionSource, MailAccount, Message
from mail.rules.automated import automated_signal
from mail.services.sending.compose import stored_headers
from mail.services.timelines.correspondents import outline_with_target
from mail.text.parsed import Address, AttachmentMeta, from_stored

DAYS = 180
# A thread that is younger may still be answered.
TIME_TO_ANSWER = timedelta(days=2)


def mail_context(
    message: Message,
    thread: Sequence[Message],
    own_addresses: frozenset[str],
    history: SenderHistory | None = None,
) -> MailContext:
    """Return the facts about `message` in its thread, newest message first.

    Who else uses the same form is not among them. It reads the attachments, so it must run in the
    firm's scope.
    """
    thread = outline_with_target(message, thread, own_addresses)
    return MailContext(
        sender=Address(message.sender_name, message.sender_address),
        own_addresses=own_addresses,
        subject=message.subject,
        text=message.text,
        headers=stored_headers(message),
        to=from_stored(message.to),
        cc=from_stored(message.cc),
        hidden_text=message.hidden_text,
        attachments=_attachments(message),
        calendar_method=message.calendar_method,
        thread_messages=len(thread),
        user_wrote_last=thread[0].outgoing,
        history=history or SenderHistory(),
    )


def _attachments(message: Message) -> tuple[AttachmentMeta, ...]:
    return tuple(
        AttachmentMeta(
            part_id=row.part_id,
            filename=row.filename,
            mime_type=row.mime_type,
            size=row.size,
            attachment_id=row.gmail_attachment_id,
            content_id=row.content_id,
            inline=row.inline,
        )
        for row in sorted(message.attachments.all(), key=lambda row: row.part_id)
    )


def sender_histories(
    account: MailAccount, messages: Sequence[Message]
) -> dict[UUID, SenderHistory]:
    """Return the history of each message's sender, by the message's id; most senders have none.

    Must run in the firm's scope. Only this mailbox is read: what people do in another says nothing
    about this one, and would be disclosed here.
    """
    senders = {one.sender_address for one in messages if one.sender_address}
    if not senders:
        return {}
    said = _said(account, senders | {one.lower() for one in senders})
    # Machines are left out: nobody answers them, and they write a lot.
    people = {one.sender_address for one in messages if _is_person(one)}
    threads = _threads(account, people) if people else {}
    return {
        one.pk: SenderHistory(
            said=tuple(said.get(one.sender_address.lower(), {}).values()),
            answered=sum(threads.get(one.sender_address, {}).values()),
            unanswered=sum(
                not answered
                for thread_id, answered in threads.get(one.sender_address, {}).items()
                if thread_id != one.thread_id
            ),
        )
        for one in messages
    }


def _said(account: MailAccount, senders: set[str]) -> dict[str, dict[UUID, Category]]:
    """Return the categories that the person gave threads, by sender and thread, the oldest first.

    `waiting` is left out, because it is about one conversation, not about the sender.
    """
    rows = Decision.objects.filter(
        account=account, source=DecisionSource.PERSON, message__sender_address__in=senders
    ).exclude(category=Category.WAITING)
    found: dict[str, dict[UUID, Category]] = defaultdict(dict)
    for sender, thread_id, category in rows.order_by("pk").values_list(
        "message__sender_address", "message__thread_id", "category"
    ):
        # Only the last category of a thread counts, and has its place in the order.
        found[sender.lower()].pop(thread_id, None)
        found[sender.lower()][thread_id] = Category(category)
    return found


def _threads(account: MailAccount, senders: set[str]) -> dict[str, dict[UUID, bool]]:
    """Return by sender and thread whether the person wrote after the sender's message."""
    now = timezone.now()
    later = Message.objects.filter(
        thread_id=OuterRef("thread_id"), outgoing=True, internal_date__gt=OuterRef("internal_date")
    )
    rows = Message.objects.filter(
        account=account, outgoing=False, sender_address__in=senders,
        internal_date__gte=now - timedelta(days=DAYS),
    ).annotate(answered=Exists(later))  # fmt: skip
    found: dict[str, dict[UUID, bool]] = defaultdict(dict)
    for sender, thread_id, at, answered in rows.values_list(
        "sender_address", "thread_id", "internal_date", "answered"
    ):
        if answered or at < now - TIME_TO_ANSWER:
            found[sender][thread_id] = answered or found[sender].get(thread_id, False)
    return found


def _is_person(message: Message) -> bool:
    if not message.sender_address:
        return False
    sender = Address(message.sender_name, message.sender_address)
    return automated_signal(sender, stored_headers(message)) is None
