"""Refuses automatic messages that could begin a loop, or come after the owner's own answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from mail.errors import AutomaticRefused
from mail.gmail.mime import OUTBOUND_HEADER
from mail.models import MailAccount, Message, OutboundKind, OutboundMessage, OutboundStatus
from mail.rules.automated import automated_signal, is_auto_submitted
from mail.services.mailboxes.accounts import own_inboxes
from mail.services.sending.compose import Content, stored_headers
from mail.text.addresses import inbox_of, untagged
from mail.text.authentication import is_forged
from mail.text.parsed import Address, Headers, from_stored

ANSWERED = "The mailbox's owner has answered the message."
AUTO_REPLY_PAUSE = timedelta(days=1)
# Ends a loop even if the other machine's answers come from changing addresses.
MAX_AUTO_REPLIES_AN_HOUR = 50
# Messages in these states were never sent, so they do not count.
_NOT_SENT = (OutboundStatus.CANCELED, OutboundStatus.REJECTED, OutboundStatus.FAILED)
# These count whenever they were asked for, as they may have waited for an approval or a pause.
_ON_THEIR_WAY = (OutboundStatus.QUEUED, OutboundStatus.SENDING)


def check_automatic(account: MailAccount, content: Content) -> None:
    """Refuse an automatic message that must not be sent. Must run in the firm's scope.

    The replies are locked, so that of two to one sender the second finds the first.

    Raises:
        AutomaticRefused: it could begin a loop, is the second answer within a day, or the owner has
            answered.
    """
    own = own_inboxes(account)
    if any(inbox_of(one.key) in own for one in (*content.to, *content.cc, *content.bcc)):
        raise AutomaticRefused("The message would go to the mailbox's own owner.")
    if content.message is not None:
        _check_original(content.message, content, own)
    if content.kind == OutboundKind.REPLY:
        if len(content.to) > 1:
            raise AutomaticRefused("The message would answer several addresses at once.")
        if content.message is not None and is_answered(content.message, content.to):
            raise AutomaticRefused(ANSWERED)
        lock_replies(account.pk)
        replies = _Replies(account, counts_asked=True)
        _check_rates(replies, [untagged(one.key) for one in content.to])


def is_answered(message: Message, to: Iterable[Address], *, since: datetime | None = None) -> bool:
    """Say whether a person of the mailbox has written to one of these addresses in the thread.

    What was sent before the message does not count, nor what was stored before `since`: whoever asked
    for an answer then knew of it. A sync may store an answer long after it was sent. Must run in the
    firm's scope.
    """
    whom = {untagged(one.key) for one in to}
    later = Message.objects.filter(
        thread_id=message.thread_id, outgoing=True, internal_date__gte=message.internal_date
    ).exclude(pk=message.pk)
    if since is not None:
        later = later.filter(created_at__gte=since)
    return any(
        is_persons_answer(stored_headers(one), from_stored([*one.to, *one.cc]), whom)
        for one in later.only("firm", "to", "cc", "headers")
    )


def is_persons_answer(headers: Headers, to: Iterable[Address], whom: Collection[str]) -> bool:
    """Say whether an outgoing message went to one of these addresses, and was not automatic."""
    is_to_them = not {untagged(one.key) for one in to}.isdisjoint(whom)
    return is_to_them and not is_auto_submitted(headers)


def lock_replies(account_id: UUID) -> None:
    """Let one transaction at a time release automatic replies. Must run in the firm's scope.

    Call it before anything else of the mailbox is locked, because otherwise two could deadlock.
    """
    list(MailAccount.objects.select_for_update(no_key=True).filter(pk=account_id))


def why_not_released(outbound: OutboundMessage) -> str:
    """Return why an automatic reply cannot be released, because others were in the meantime.

    The reply itself does not count, though it may have been released before. Must run in the firm's
    scope, with the replies locked.
    """
    if not outbound.auto_reply_to:
        return ""
    others = _Replies(outbound.account, apart_from=outbound.pk)
    try:
        _check_rates(others, [outbound.auto_reply_to])
    except AutomaticRefused as error:
        return str(error)
    return ""


def stays_failed(outbound: OutboundMessage) -> bool:
    """Say whether a failed automatic reply may not be sent by a retry of its job; store why.

    Many jobs may be retried at once. Must run in the firm's scope, in the transaction that would
    mark the message as sending.
    """
    if not outbound.auto_reply_to:
        return False
    lock_replies(outbound.account_id)
    why = why_not_released(outbound)
    if why:
        OutboundMessage.objects.filter(pk=outbound.pk).update(error=why)
    return bool(why)


def _check_original(message: Message, content: Content, own: Collection[str]) -> None:
    headers = stored_headers(message)
    if OUTBOUND_HEADER in headers:
        raise AutomaticRefused("The message was sent by Mailroom.")
    if content.kind != OutboundKind.REPLY:
        return
    if "SPAM" in message.labels:
        raise AutomaticRefused("The message is among spam, whose sender may be forged.")
    if message.outgoing or inbox_of(message.sender_address.lower()) in own:
        raise AutomaticRefused("The message is the owner's own.")
    sender = Address(message.sender_name, message.sender_address)
    if is_forged(headers, sender):
        raise AutomaticRefused(
            "The receiving mail server could not verify the message's sender, who may be forged."
        )
    for address in (sender, *content.to):
        signal = automated_signal(address, headers)
        if signal is not None:
            kind = signal.kind.value.replace("_", " ")
            raise AutomaticRefused(
                f"Nobody reads an answer: {kind}, by the header {signal.header}."
            )


def _check_rates(replies: _Replies, to: list[str]) -> None:
    of_day = replies.since(AUTO_REPLY_PAUSE)
    if of_day.filter(auto_reply_to__in=to).exists():
        raise AutomaticRefused("This sender had an automatic reply within the last day.")
    of_hour = replies.since(timedelta(hours=1))
    if of_hour.count() >= MAX_AUTO_REPLIES_AN_HOUR:
        raise AutomaticRefused("The mailbox has sent too many automatic replies within an hour.")


@dataclass(frozen=True)
class _Replies:
    """The automatic replies of a mailbox that count; those only asked for may count, too."""

    account: MailAccount
    counts_asked: bool = False
    apart_from: UUID | None = None

    def since(self, age: timedelta) -> QuerySet[OutboundMessage]:
        """Return those released since or not sent yet."""
        since = timezone.now() - age
        counted = Q(status__in=_ON_THEIR_WAY) | Q(send_after__gt=since) | Q(sent_at__gt=since)
        if self.counts_asked:
            counted |= Q(created_at__gt=since)
        rows: QuerySet[OutboundMessage] = OutboundMessage.objects.filter(
            counted, account=self.account
        )
        others = rows.exclude(auto_reply_to="").exclude(status__in=_NOT_SENT)
        return others if self.apart_from is None else others.exclude(pk=self.apart_from)
