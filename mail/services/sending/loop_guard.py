"""Keeps machines from writing to machines: when a message that nobody wrote must not go out."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from mail.errors import AutomaticRefused
from mail.gmail.mime import OUTBOUND_HEADER
from mail.models import MailAccount, Message, OutboundKind, OutboundMessage, OutboundStatus
from mail.rules.automated import automated_signal
from mail.services.mailboxes.accounts import own_addresses
from mail.services.sending.compose import Content, own_recipients, stored_headers
from mail.text.authentication import is_forged
from mail.text.parsed import Address

AUTO_REPLY_PAUSE = timedelta(days=1)
# Whatever addresses the answers of a machine come from, the loop ends here.
MAX_AUTO_REPLIES_AN_HOUR = 50
# What never went out does not count.
_NOT_SENT = (OutboundStatus.CANCELED, OutboundStatus.REJECTED, OutboundStatus.FAILED)


def check_automatic(account: MailAccount, content: Content) -> None:
    """Let a message that nobody wrote be stored. Must run in the firm's scope.

    The account is locked, so that of two answers to one sender the second finds the first.

    Raises:
        AutomaticRefused: it could begin a loop, or is the second answer within a day.
    """
    if own_recipients(account, content):
        raise AutomaticRefused("It would go to the mailbox's own owner.")
    if content.message is not None:
        _check_original(account, content.message, content)
    if content.kind == OutboundKind.REPLY:
        if len(content.to) > 1:
            raise AutomaticRefused("It would answer several addresses at once.")
        MailAccount.objects.select_for_update(no_key=True).get(pk=account.pk)
        for address in content.to:
            _check_day(account, address)
        _check_hour(account)


def _check_original(account: MailAccount, message: Message, content: Content) -> None:
    headers = stored_headers(message)
    if OUTBOUND_HEADER in headers:
        raise AutomaticRefused("The message was sent by Mailroom.")
    if content.kind != OutboundKind.REPLY:
        return
    if "SPAM" in message.labels:
        raise AutomaticRefused("The message is among spam, whose sender may be forged.")
    if message.outgoing or message.sender_address.lower() in own_addresses(account):
        raise AutomaticRefused("The message is the owner's own.")
    sender = Address(message.sender_name, message.sender_address)
    if is_forged(headers, sender):
        raise AutomaticRefused(
            "The receiving server could not tell that the message is by its sender, who may be forged."
        )
    for address in (sender, *content.to):
        signal = automated_signal(address, headers)
        if signal is not None:
            kind = signal.kind.value.replace("_", " ")
            raise AutomaticRefused(
                f"Nobody reads an answer: {kind}, by the header {signal.header}."
            )


def _check_day(account: MailAccount, address: Address) -> None:
    answered = _replies_since(account, AUTO_REPLY_PAUSE)
    if answered.filter(auto_reply_to=untagged(address.key)).exists():
        raise AutomaticRefused("This sender had an automatic reply within the last day.")


def _check_hour(account: MailAccount) -> None:
    if _replies_since(account, timedelta(hours=1)).count() >= MAX_AUTO_REPLIES_AN_HOUR:
        raise AutomaticRefused("The mailbox has sent too many automatic replies within an hour.")


def _replies_since(account: MailAccount, age: timedelta) -> QuerySet[OutboundMessage]:
    rows: QuerySet[OutboundMessage] = OutboundMessage.objects.filter(
        account=account, created_at__gt=timezone.now() - age
    )
    return rows.exclude(auto_reply_to="").exclude(status__in=_NOT_SENT)


def untagged(address: str) -> str:
    """Return the address without what follows a plus sign: ticket systems have one for each ticket."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0] or local}@{domain}"
