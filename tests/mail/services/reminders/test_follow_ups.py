"""Follow-up reminders: the owner is reminded once of what nobody answered, until somebody does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from jobs import testing
from mail.models import (
    Connection,
    EventType,
    MailAccount,
    MailEvent,
    MailThread,
    NotificationPreference,
    Reminder,
    ReminderStatus,
)
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.briefing import briefing_of
from mail.services.reminders import find_follow_ups as finding
from mail.services.reminders.delivery import NOT_THEIRS, enqueue_due_reminders
from mail.services.reminders.find_follow_ups import find_follow_ups
from mail.services.reminders.follow_ups import set_follow_ups
from mail.services.reminders.preferences import change_preference
from mail.services.reminders.reminders import cancel_reminder, change_reminder, delete_reminder
from tenants.models import Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import new_member
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import audit_entries, operation_url, submit
from tests.jobs.api.conftest import problem
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, jobs, letter, only, stored
from tests.support.receiver import receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-24")]

DAYS = 3
QUESTION = "Could you tell me when the swings will arrive?"
FIRST = "<first@acme.example>"


@pytest.fixture
def owner(mailbox: Mailbox) -> Any:
    """Return the owner of a mailbox that was read just now and has follow-up reminders."""
    person = new_member(mailbox.firm, Role.VIEWER)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner=person, shared=False, last_sync_at=datetime.now(UTC))
    mailbox.reload()
    set_follow_ups(mailbox.account, days=DAYS)
    return person


def ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=DAYS, hours=hours)


def write(
    mailbox: Mailbox,
    text: str = QUESTION,
    *,
    at: datetime | None = None,
    to: str = ANNA,
    subject: str = "Swings",
    **more: str,
) -> str:
    """Let the owner send a message; return Gmail's id."""
    raw = letter(subject, text, sender=OWNER, to=to, **{"message_id": FIRST, **more})
    arrived = mailbox.receive(raw, labels=("SENT",), at=at or ago(1))
    mailbox.store_all()
    return arrived


def answer(mailbox: Mailbox, **more: str) -> None:
    """Let somebody answer the owner's message."""
    raw = letter("Re: Swings", "On Monday.", reply_to_id=FIRST, message_id="<2@x.example>", **more)
    mailbox.receive(raw)
    mailbox.store_all()


def find() -> dict[str, int]:
    """Look for follow-ups, as the job of the system firm does."""
    return find_follow_ups(lambda: None)


def statuses() -> list[str]:
    return [row.status for row in stored(Reminder)]


def test_what_nobody_answered_is_told_once(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    sent = write(mailbox)
    assert find() == {"made": 1, "withdrawn": 0}
    assert find() == {"made": 0, "withdrawn": 0}
    enqueue_due_reminders(lambda: None)
    testing.drain()
    (told,) = mailoutbox
    assert (told.to, told.subject) == (
        [owner.email], "[Mailroom] Reminder: No answer yet: Swings",
    )  # fmt: skip
    message = mailbox.message(sent)
    assert "you asked anna@customer.example, and nobody has answered" in told.body
    assert f"/admin/mail/mailthread/{message.thread_id}/change/" in told.body
    reminder = only(stored(Reminder))
    assert (reminder.user_id, reminder.message_id) == (owner.pk, message.pk)
    assert reminder.status == ReminderStatus.DELIVERED
    assert find() == {"made": 0, "withdrawn": 0}
    with firm_scope(mailbox.firm):
        MailThread.objects.update(classification="waiting")
        briefing = briefing_of(mailbox.account)
    shown = briefing.follow_ups
    assert (shown.count, [one.pk for one in shown.first]) == (1, [message.thread_id])
    # The briefing lists a thread once.
    assert briefing.for_others.count == 0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"text": "Thanks a lot, that is all."}, id="nothing was asked"),
        pytest.param({"hours_ago": -2}, id="not so many days ago"),
        pytest.param({"hours_ago": 24 * 4}, id="too long ago"),
        pytest.param({"to": "no-reply@shop.example"}, id="to a robot"),
        pytest.param({"to": OWNER}, id="to themselves"),
        pytest.param({"Auto_Submitted": "auto-replied"}, id="an automatic answer"),
        pytest.param({"Precedence": "list"}, id="to a list"),
        # A question in quoted text is not the owner's.
        pytest.param(
            {"text": "Noted.\n\nOn Monday, Anna wrote:\n> Could you call me back, please?\n"},
            id="quoted",
        ),
    ],
)
def test_what_expects_no_answer_is_left_alone(
    mailbox: Mailbox, owner: Any, changes: dict[str, Any]
) -> None:
    hours_ago, more = changes.get("hours_ago"), {**changes}
    more.pop("hours_ago", None)
    write(mailbox, at=None if hours_ago is None else ago(hours_ago), **more)
    assert find()["made"] == 0
    assert stored(Reminder) == []


def test_a_thread_of_a_mailing_list_is_left_alone(mailbox: Mailbox, owner: Any) -> None:
    raw = letter("Swings", sender="dev@lists.example", message_id="<0@x.example>", List_Id="<dev>")
    mailbox.receive(raw, at=ago(5))
    write(mailbox, reply_to_id="<0@x.example>", subject="Re: Swings")
    assert len(stored(MailThread)) == 1
    assert find()["made"] == 0


@pytest.mark.parametrize("delivered", [False, True])
def test_an_answer_ends_it(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any], delivered: bool
) -> None:
    write(mailbox)
    find()
    if delivered:
        enqueue_due_reminders(lambda: None)
        testing.drain()
    answer(mailbox)
    assert statuses() == [ReminderStatus.WITHDRAWN]
    enqueue_due_reminders(lambda: None)
    testing.drain()
    assert len(mailoutbox) == delivered
    with firm_scope(mailbox.firm):
        assert briefing_of(mailbox.account).follow_ups.count == 0
        kept = MailEvent.objects.filter(event_type__startswith="follow_up").order_by("pk")
        assert [one.event_type for one in kept] == [
            EventType.FOLLOW_UP, EventType.FOLLOW_UP_WITHDRAWN,
        ]  # fmt: skip
    assert find() == {"made": 0, "withdrawn": 0}


def test_an_answer_that_comes_while_it_waits_for_its_delivery_ends_it(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(mailbox)
    find()
    enqueue_due_reminders(lambda: None)
    # As if a transaction that did not see the reminder yet had stored the answer.
    monkeypatch.setattr("mail.services.syncing.store_messages.withdraw_answered", lambda *_: None)
    answer(mailbox)
    testing.drain(max_jobs=5)
    assert (mailoutbox, statuses()) == ([], [ReminderStatus.WITHDRAWN])


def test_the_next_message_has_one_of_its_own(mailbox: Mailbox, owner: Any) -> None:
    write(mailbox, at=ago(30))
    find()
    write(mailbox, message_id="<again@acme.example>", reply_to_id=FIRST, at=ago(2))
    assert statuses() == [ReminderStatus.WITHDRAWN]
    assert find()["made"] == 1
    assert sorted(statuses()) == [ReminderStatus.ACTIVE, ReminderStatus.WITHDRAWN]


def test_a_done_thread_needs_no_answer(mailbox: Mailbox, owner: Any) -> None:
    write(mailbox)
    find()
    with firm_scope(mailbox.firm):
        MailThread.objects.update(status="archived")
    assert find() == {"made": 0, "withdrawn": 1}


def test_what_is_in_the_trash_needs_no_answer(mailbox: Mailbox, owner: Any) -> None:
    write(mailbox)
    find()
    thrown_away = write(mailbox, message_id="<other@acme.example>", subject="Slides")
    with firm_scope(mailbox.firm):
        for message in mailbox.messages():
            message.labels = [*message.labels, "TRASH"]
            message.save()
    assert find() == {"made": 0, "withdrawn": 1}
    with firm_scope(mailbox.firm):
        message = mailbox.message(thrown_away)
        message.labels = ["SENT"]
        message.save()
    assert find() == {"made": 1, "withdrawn": 0}


@pytest.mark.req("M-23")
def test_discord_is_told_neither_the_subject_nor_to_whom(
    mailbox: Mailbox, owner: Any, settings: Settings, mailoutbox: list[Any]
) -> None:
    sent = write(mailbox, subject="Canary")
    with receiver() as discord:
        settings.WEBHOOK_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
        change_preference(mailbox.firm.pk, owner.pk, discord_webhook=discord.url)
        find()
        enqueue_due_reminders(lambda: None)
        testing.drain()
    told = discord.received[-1].json["content"]
    assert "Canary" not in told
    assert "customer.example" not in told
    assert f"/admin/mail/mailthread/{mailbox.message(sent).thread_id}/change/" in told
    assert "Canary" in mailoutbox[0].subject


def test_what_its_person_did_with_it_stays_done(mailbox: Mailbox, owner: Any) -> None:
    write(mailbox)
    find()
    later = datetime.now(UTC) + timedelta(days=2)
    assert change_reminder(only(stored(Reminder)), due_at=later).status == ReminderStatus.ACTIVE
    cancel_reminder(only(stored(Reminder)))
    assert find()["made"] == 0
    delete_reminder(only(stored(Reminder)))
    assert find()["made"] == 0
    assert stored(Reminder) == []


@pytest.mark.parametrize(
    "account",
    [
        {"follow_up_days": None},
        {"owner": None},
        {"active": False},
        {"connection": Connection.NEEDS_REAUTH},
        {"last_sync_at": None},
        {"last_sync_at": datetime.now(UTC) - finding.READ_WITHIN - timedelta(minutes=1)},
    ],
)
def test_no_mailbox_that_may_have_an_answer_or_nobody_to_tell(
    mailbox: Mailbox, owner: Any, account: dict[str, Any]
) -> None:
    write(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(**account)
    assert find()["made"] == 0
    assert stored(Reminder) == []


def test_who_comes_back_is_told_nothing_of_a_mailbox_that_is_anothers_by_now(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    write(mailbox)
    find()
    other = new_member(mailbox.firm, Role.OPERATOR)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner=other)
    enqueue_due_reminders(lambda: None)
    testing.drain()
    assert mailoutbox == []
    (job,) = jobs("reminder_delivery", live=False)
    assert (job.status, job.result) == ("completed", {"skipped": True, "reason": NOT_THEIRS})


def test_who_left_is_not_reminded(mailbox: Mailbox, owner: Any) -> None:
    write(mailbox)
    with firm_scope(mailbox.firm):
        Membership.objects.filter(user=owner).delete()
    assert find()["made"] == 0


@pytest.fixture
def second(mailbox: Mailbox, owner: Any) -> Mailbox:
    """Return a second mailbox of the firm, created later, with another owner."""
    account = open_account(mailbox.firm, "second@acme.example")
    with firm_scope(mailbox.firm):
        MailAccount.objects.filter(pk=account.pk).update(
            owner=new_member(mailbox.firm, Role.OPERATOR), last_sync_at=datetime.now(UTC)
        )
        account.refresh_from_db()
    set_follow_ups(account, days=DAYS)
    return Mailbox(mailbox.firm, account, mailbox.simulator)


def write_as_second(second: Mailbox) -> None:
    raw = letter("Swings", QUESTION, sender=second.account.address, to=ANNA)
    second.receive(raw, labels=("SENT",), at=ago(1))
    second.store_all()


def test_a_time_zone_that_vanished_holds_up_no_other_mailbox(
    mailbox: Mailbox, owner: Any, second: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    write(mailbox)
    write_as_second(second)
    row = change_preference(mailbox.firm.pk, owner.pk)
    with firm_scope(mailbox.firm):
        NotificationPreference.objects.update(time_zone="Nowhere/Gone")
    with caplog.at_level("ERROR", logger="mail"):
        assert find()["made"] == 1
    assert only(stored(Reminder)).user_id == second.account.owner_id
    (line,) = [str(one.msg) for one in caplog.records if "dates_not_computed" in str(one.msg)]
    assert str(row.pk) in line
    change_preference(mailbox.firm.pk, owner.pk, time_zone="Europe/Vienna")
    assert find()["made"] == 1


def test_who_wants_none_any_more_by_the_time_their_mailbox_comes_gets_none(
    mailbox: Mailbox, owner: Any, second: Mailbox
) -> None:
    write_as_second(second)

    def checkpoint() -> None:
        if second.reload().follow_up_days:
            set_follow_ups(second.account, days=None)

    assert find_follow_ups(checkpoint)["made"] == 0
    assert stored(Reminder) == []


@pytest.mark.req("M-22")
def test_they_are_set_over_rest_by_the_owner_or_an_admin(mailbox: Mailbox, owner: Any) -> None:
    from tests.mail.api.test_accounts import Api

    admin, other = Api(mailbox.firm, Role.ADMIN), Api(mailbox.firm, Role.OPERATOR)
    shown = admin.post(mailbox.account, "follow-ups", days=5, reason="offers get lost").json()
    assert shown["follow_up_days"] == 5
    assert other.post(mailbox.account, "follow-ups", days=1).status_code == 403
    assert mailbox.reload().follow_up_days == 5
    for bad in ({}, {"days": 0}, {"days": 61}, {"days": "5"}, {"days": 5, "hours": 1}):
        problem(admin.post(mailbox.account, "follow-ups", **bad), 400)
    assert admin.post(mailbox.account, "follow-ups", days=None).json()["follow_up_days"] is None
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner=None)
    problem(admin.post(mailbox.account, "follow-ups", days=5), 409)
    kept = [entry for entry in audit_entries(mailbox.account.pk) if entry.reason]
    assert [(one.act, one.after) for one in kept] == [("mailbox.follow_ups", {"follow_up_days": 5})]


def test_they_are_set_and_seen_in_the_admin(mailbox: Mailbox, owner: Any) -> None:
    owners = Client()
    owner.is_staff = True
    owner.save()
    owners.force_login(owner)
    page = f"/admin/mail/mailaccount/{mailbox.account.pk}/change/"
    assert "After 3 days without an answer" in owners.get(page).content.decode()
    assert submit(owners, mailbox.account, "follow-ups", days="5").status_code == 302
    assert mailbox.reload().follow_up_days == 5
    assert submit(owners, mailbox.account, "follow-ups", days="").status_code == 302
    assert mailbox.reload().follow_up_days is None
    set_follow_ups(mailbox.account, days=DAYS)
    colleague = browser_of(mailbox.firm, Role.OPERATOR)
    assert colleague.get(operation_url(mailbox.account, "follow-ups")).status_code == 403

    write(mailbox)
    find()
    reminder = only(stored(Reminder))
    own = f"/admin/mail/reminder/{reminder.pk}/change/"
    text = owners.get(own).content.decode()
    assert "No answer yet: Swings" in text
    assert f"/admin/mail/message/{reminder.message_id}/change/" in text
    # Only the reminder's person sees the subject.
    assert "Swings" not in colleague.get(own).content.decode()
    briefing = owners.get(f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/")
    assert "Nobody answered (1)" in briefing.content.decode()
