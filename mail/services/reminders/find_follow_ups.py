"""Finds messages in which a mailbox's owner asked and nobody answered; makes reminders of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from django.db.models import Exists, F, OuterRef, QuerySet

from jobs.engine.clock import database_now
from mail.conf import public_url
from mail.llm.reading import asks, read
from mail.models import (
    Connection,
    EventType,
    MailAccount,
    MailEvent,
    MailThread,
    Message,
    Reminder,
    ThreadStatus,
)
from mail.models.reminder import MAX_TITLE_LENGTH
from mail.rules.automated import automated_signal
from mail.services.deciding.mail_context import mail_context
from mail.services.mailboxes.accounts import own_addresses
from mail.services.reminders.follow_ups import PAGE_OF_THREAD, withdraw_answered
from mail.services.reminders.preferences import find_preference
from mail.services.timelines.events import record_events
from mail.services.timelines.threads import without_discarded
from mail.text.cleaning import clean_line
from mail.text.parsed import Address, Headers, from_stored
from tenants.models import Membership
from tenants.scope import all_firms, firm_scope

# Messages that were due longer ago are left out, so that nobody gets all of last year at once.
LATE = timedelta(days=3)
# If the last sync is longer ago, an answer may have come that is not stored here.
READ_WITHIN = timedelta(days=1)
MOST_AT_ONCE = 50
_SHOWN_RECIPIENTS = 3

_log = structlog.get_logger("mail")


def find_follow_ups(checkpoint: Callable[[], None]) -> dict[str, int]:
    """Create the reminders that are due, in every mailbox that wants them; end answered ones."""
    made = withdrawn = 0
    with all_firms("mailboxes with follow-up reminders"):
        found = list(_wanted().order_by("firm_id", "pk").values_list("firm_id", "pk"))
    for firm_id, account_id in found:
        with firm_scope(firm_id):
            # Read again at its turn, because the owner may have switched them off.
            account = _wanted().select_related("owner").filter(pk=account_id).first()
            if account is not None:
                withdrawn += withdraw_answered(account)
                made += remind_of_unanswered(account)
        checkpoint()
    return {"made": made, "withdrawn": withdrawn}


def _wanted() -> QuerySet[MailAccount]:
    found: QuerySet[MailAccount] = MailAccount.objects.filter(
        follow_up_days__isnull=False, firm__active=True
    )
    return found


def remind_of_unanswered(account: MailAccount) -> int:
    """Create the reminders of one mailbox; return how many. Must run in the firm's scope.

    A message gets one reminder in its life, even if that is deleted.
    """
    owner = _person_to_remind(account)
    if owner is None:
        return 0
    own = own_addresses(account)
    found = (message for message in _last_words(account) if _wants_answer(message, own))
    asking = list(islice(found, MOST_AT_ONCE))
    if not asking:
        return 0
    now = database_now()
    zone = _zone_of(account, owner)
    if zone is None:
        return 0
    rows = [
        Reminder(
            firm_id=account.firm_id, user_id=owner.pk, message=message, due_at=now,
            planned_at=now, **_words(message, own, zone),
        )
        for message in asking
    ]  # fmt: skip
    Reminder.objects.bulk_create(rows)
    about = [
        (message, {"reminder_id": str(row.pk)}) for message, row in zip(asking, rows, strict=True)
    ]
    record_events(EventType.FOLLOW_UP, account, about)
    return len(rows)


def _zone_of(account: MailAccount, owner: Any) -> ZoneInfo | None:
    """Return the owner's time zone; None if the system's list no longer has it, so others go on."""
    preference = find_preference(account.firm_id, owner.pk)
    try:
        return ZoneInfo(preference.time_zone)
    except ZoneInfoNotFoundError as error:
        _log.error(
            "mail.dates_not_computed",
            table=preference._meta.label,
            row_id=str(preference.pk),
            firm_id=account.firm_id,
            field="time_zone",
            error=str(error),
        )
        return None


def _person_to_remind(account: MailAccount) -> Any | None:
    """Return the owner; None if they are away, or if answers may not be stored here yet."""
    owner, synced = account.owner, account.last_sync_at
    if owner is None or not owner.is_active or not account.active:
        return None
    if account.connection != Connection.CONNECTED or synced is None:
        return None
    is_member = Membership.objects.filter(user_id=owner.pk).exists()
    return owner if is_member and synced > database_now() - READ_WITHIN else None


def _last_words(account: MailAccount) -> QuerySet[Message]:
    """Return the owner's messages that have been the last of their threads for so many days."""
    until = database_now() - timedelta(days=account.follow_up_days or 0)
    newer = Message.objects.filter(
        thread_id=OuterRef("thread_id"), internal_date__gte=OuterRef("internal_date")
    ).exclude(pk=OuterRef("pk"))
    reminded = MailEvent.objects.filter(message_id=OuterRef("pk"), event_type=EventType.FOLLOW_UP)
    threads = MailThread.objects.filter(
        account=account, last_message_at__gt=until - LATE, last_message_at__lte=until
    ).exclude(status=ThreadStatus.ARCHIVED)
    found: QuerySet[Message] = Message.objects.filter(
        ~Exists(newer), ~Exists(reminded), thread__in=without_discarded(threads), outgoing=True,
        internal_date=F("thread__last_message_at"),
    )  # fmt: skip
    return found.select_related("thread").defer("html").order_by("internal_date", "pk")


def _wants_answer(message: Message, own: frozenset[str]) -> bool:
    """Say whether the message asks people something; a mere thank-you, for example, does not."""
    if not _people(message, own) or _is_among_machines(message):
        return False
    return asks(read(mail_context(message, [message], own)))


def _people(message: Message, own: frozenset[str]) -> list[Address]:
    """Return the recipients in To, without the owner and robots."""
    return [
        one
        for one in from_stored(message.to)
        if one.key and one.key not in own and automated_signal(one, Headers()) is None
    ]


def _is_among_machines(message: Message) -> bool:
    """Say whether a program or a mailing list wrote in the thread, this message included."""
    for sender, headers in Message.objects.filter(thread_id=message.thread_id).values_list(
        "sender_address", "headers"
    ):
        pairs = Headers(tuple((name, value) for name, value in headers))
        if automated_signal(Address("", sender), pairs) is not None:
            return True
    return False


def _words(message: Message, own: frozenset[str], zone: ZoneInfo) -> dict[str, Any]:
    subject = clean_line(message.subject, MAX_TITLE_LENGTH) or "(no subject)"
    sent = message.internal_date.astimezone(zone)
    title = "".join(one for one in f"No answer yet: {subject}" if one.isprintable())
    body = (
        f"On {sent.day} {sent:%B %Y} you asked {', '.join(_names(message, own))}, and nobody has "
        f"answered.\n\n{public_url()}{PAGE_OF_THREAD.format(message.thread_id)}"
    )
    return {"title": title[:MAX_TITLE_LENGTH], "body": body}


def _names(message: Message, own: frozenset[str]) -> Iterator[str]:
    people = _people(message, own)
    for one in people[:_SHOWN_RECIPIENTS]:
        yield clean_line(one.address, MAX_TITLE_LENGTH)
    if len(people) > _SHOWN_RECIPIENTS:
        yield f"{len(people) - _SHOWN_RECIPIENTS} more"
