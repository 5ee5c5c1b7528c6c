"""Mailboxes and their mail, written as rows, for tests that need no Gmail."""

from __future__ import annotations

import factory
from django.utils import timezone

from mail.models import MailAccount, MailThread, Message
from mail.text.parsed import TextSource
from tests.factories.tenants import FirmOwnedFactory


class MailAccountFactory(FirmOwnedFactory):
    """A mailbox."""

    class Meta:
        model = MailAccount

    address = factory.Sequence(lambda number: f"box-{number}@acme.example")


class MailThreadFactory(FirmOwnedFactory):
    """A conversation of one message."""

    class Meta:
        model = MailThread

    account = factory.SubFactory(MailAccountFactory)
    firm = factory.SelfAttribute("account.firm")
    gmail_thread_id = factory.Sequence(lambda number: f"thread-{number}")
    message_count = 1


class MessageFactory(FirmOwnedFactory):
    """A message in a conversation of its own."""

    class Meta:
        model = Message

    account = factory.SubFactory(MailAccountFactory)
    firm = factory.SelfAttribute("account.firm")
    thread = factory.SubFactory(MailThreadFactory, account=factory.SelfAttribute("..account"))
    gmail_message_id = factory.Sequence(lambda number: f"message-{number}")
    subject = "Question"
    text_source = TextSource.PLAIN
    internal_date = factory.LazyFunction(timezone.now)
