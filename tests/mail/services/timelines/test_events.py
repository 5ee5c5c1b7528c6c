"""Events can be added, but not changed or removed."""

from __future__ import annotations

import pytest

from interfaces.correlation import correlation
from mail.errors import AppendOnly
from mail.models import EventType, MailEvent
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, stored

pytestmark = pytest.mark.django_db


@pytest.mark.req("M-21")
def test_an_event_knows_what_caused_it(mailbox: Mailbox) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    with correlation("cause-1"), firm_scope(mailbox.firm):
        record_event(EventType.CLASSIFIED, mailbox.account, message=message)
    event = stored(MailEvent)[-1]
    assert event.correlation_id == "cause-1"
    assert event.thread_id == message.thread_id


@pytest.mark.req("M-21")
def test_an_event_is_neither_changed_nor_removed(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        record_event(EventType.HISTORY_EXPIRED, mailbox.account)
        event = MailEvent.objects.get()
        event.event_type = EventType.INGESTED
        with pytest.raises(AppendOnly):
            event.save()
        with pytest.raises(AppendOnly):
            event.delete()
    assert stored(MailEvent)[0].event_type == EventType.HISTORY_EXPIRED
