"""Suggest-only, active, paused: when Gmail is written to, and when it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from jobs.models import Pause
from jobs.operations import limits
from jobs.queue import enqueue
from jobs.testing import run_job
from jobs.testing.run import claimed_now, performed, settled
from mail.errors import WrongState
from mail.labels import LABEL_NAMES, PAUSE_LABEL
from mail.models import (
    Action,
    ActionType,
    Approval,
    Decision,
    MailAccount,
    Mode,
    OutboundMessage,
    PausedBy,
)
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.mailboxes import modes
from mail.services.mailboxes.accounts import own_addresses, refresh_aliases
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.connection import mailbox_limit_key
from mail.services.queueing import request_backfill, request_sync
from mail.services.syncing.labels import ensure_label
from tenants.audit import Actor
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries
from tests.mail.action_kit import ask_undo, current, done
from tests.mail.mail_kit import (
    Mailbox,
    drain,
    drain_later,
    jobs,
    letter,
    only,
    stored,
    without_drafts,
)
from tests.mail.send_kit import sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-24")]


def set_mode(mailbox: Mailbox, **values: object) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(**values)
    mailbox.reload()


def sync(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()


@pytest.fixture
def suggesting(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox that only suggests."""
    set_mode(mailbox, mode=Mode.SUGGEST)
    return mailbox


def ours(mailbox: Mailbox, gmail_message_id: str) -> set[str]:
    return {name for name in mailbox.labels(gmail_message_id) if name in LABEL_NAMES.values()}


def test_a_new_mailbox_suggests_only_and_a_local_one_is_active(mailbox: Mailbox) -> None:
    assert MailAccount(address="x@y.example").mode == Mode.SUGGEST
    assert (mailbox.account.mode, mailbox.account.shared) == (Mode.ACTIVE, True)


def test_suggestions_are_stored_and_nothing_is_written(suggesting: Mailbox) -> None:
    arrived = suggesting.receive()
    before = suggesting.gmail.profile()["historyId"]
    sync(suggesting)
    assert len(stored(Decision)) == 1
    assert stored(Action) == []
    assert ours(suggesting, arrived) == set()
    assert suggesting.gmail.profile()["historyId"] == before


def test_made_active_only_mail_of_the_last_days_is_labelled(
    suggesting: Mailbox, settings: Settings
) -> None:
    settings.LABEL_BACKLOG_DAYS = 3
    now = datetime.now(UTC)
    recent = suggesting.receive(letter("Recent"), at=now - timedelta(days=2))
    old = suggesting.receive(letter("Old"), at=now - timedelta(days=5))
    sync(suggesting)
    assert len(stored(Decision)) == 2
    ada = UserFactory(username="ada")
    modes.activate(suggesting.account, reason="it is right", by=Actor("admin", ada))
    drain()
    assert len(ours(suggesting, recent)) == 1
    assert ours(suggesting, old) == set()

    older = suggesting.receive(letter("Older still"), at=now - timedelta(days=30))
    new = suggesting.receive(letter("New"))
    with firm_scope(suggesting.firm):
        request_backfill(suggesting.account)
    sync(suggesting)
    assert len(stored(Decision)) == 4
    assert ours(suggesting, older) == set()
    assert len(ours(suggesting, new)) == 1
    entry = audit_entries(suggesting.account.pk)[0]
    assert (entry.act, entry.reason, entry.actor_name) == ("mailbox.activate", "it is right", "ada")
    assert (entry.before["mode"], entry.after["mode"]) == ("suggest", "active")


def test_an_activation_reaches_a_thread_that_an_earlier_one_is_at(suggesting: Mailbox) -> None:
    arrived = suggesting.receive()
    sync(suggesting)

    def activate() -> None:
        modes.activate(suggesting.account)
        (activation,) = jobs("activate.gmail")
        run_job(activation)

    activate()
    (first,) = jobs("relabel.gmail")
    claimed = claimed_now(first.pk)
    modes.suggest_only(suggesting.account)
    skipped = performed(claimed)
    activate()
    settled(claimed, skipped)
    assert ours(suggesting, arrived) == set()
    drain()
    assert len(ours(suggesting, arrived)) == 1


def test_activation_makes_the_labels_one_pauses_with(suggesting: Mailbox) -> None:
    modes.activate(suggesting.account)
    drain()
    names = {label["name"] for label in suggesting.gmail.list_labels()}
    assert {PAUSE_LABEL, *LABEL_NAMES.values()} <= names


def test_back_to_suggestions_cancels_what_waits(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    sync_without_actions(mailbox)
    modes.suggest_only(mailbox.account)
    drain()
    ends = [(action.status, action.error) for action in stored(Action)]
    assert ends == [("canceled", "The mailbox is set to suggest only")]
    assert ours(mailbox, arrived) == set()
    assert {job.status for job in jobs(live=False)} == {"completed"}


def test_a_yes_for_what_may_not_be_written_says_why_nothing_was_done(suggesting: Mailbox) -> None:
    arrived = suggesting.receive()
    suggesting.store_all()
    with firm_scope(suggesting.firm):
        action = request_action(suggesting.message(arrived), ActionType.STAR, needs_approval=True)
    approve(only(stored(Approval)), by=Actor("service"))
    drain()
    ended = only(stored(Action), pk=action.pk)
    assert (ended.status, ended.error) == ("canceled", "The mailbox is set to suggest only")


def test_a_message_of_a_canceled_action_is_not_sent_when_the_mailbox_is_active_again(
    mailbox: Mailbox,
) -> None:
    arrived = mailbox.receive()
    mailbox.store_all()
    with firm_scope(mailbox.firm):
        action = request_action(
            mailbox.message(arrived),
            ActionType.AUTO_REPLY,
            {"body": "Gladly."},
            needs_approval=False,
        )
    modes.suggest_only(mailbox.account)
    modes.activate(mailbox.account)
    drain()
    (outbound,) = stored(OutboundMessage)
    assert (outbound.status, sent(mailbox)) == ("canceled", [])
    assert only(stored(Action), pk=action.pk).status == "canceled"


def sync_without_actions(mailbox: Mailbox) -> None:
    """Sync and judge, and leave the actions in the queue."""
    without_drafts(mailbox)
    modes.pause_mailbox(mailbox.account)
    set_mode(mailbox, paused_by=PausedBy.NOTHING)
    sync(mailbox)
    assert [job.status for job in jobs("action.gmail")] == ["pending"]
    with firm_scope(mailbox.firm):
        Pause.objects.all().delete()


def test_a_pause_holds_at_once_what_was_asked_for(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    sync_without_actions(mailbox)
    modes.pause_mailbox(mailbox.account, reason="holidays")
    drain()
    assert ours(mailbox, arrived) == set()
    (job,) = jobs("action.gmail")
    assert (job.status, job.attempts) == ("pending", 0)

    second = mailbox.receive(letter("Second"))
    sync(mailbox)
    assert len(stored(Decision)) == 2
    assert ours(mailbox, second) == set()

    modes.resume_writing(mailbox.account)
    drain()
    assert len(ours(mailbox, arrived)) == 1
    assert len(ours(mailbox, second)) == 1
    assert stored(Pause) == []


def test_an_action_claimed_before_the_pause_waits_without_an_attempt(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    sync_without_actions(mailbox)
    set_mode(mailbox, paused_by=PausedBy.SWITCH)
    drain()
    assert ours(mailbox, arrived) == set()
    assert jobs("action.gmail")[0].attempts == 0


@pytest.mark.parametrize("job_type", ["sync", "history.sync.gmail"])
def test_the_gmail_label_pauses_and_its_removal_resumes(mailbox: Mailbox, job_type: str) -> None:
    label = ensure_label(mailbox.account, mailbox.gmail, PAUSE_LABEL)
    arrived = mailbox.receive()
    mailbox.gmail.modify_message(arrived, add=[label])

    def sync_by_type() -> None:
        with firm_scope(mailbox.firm):
            request_sync(mailbox.account, job_type=job_type)
        drain()

    sync_by_type()
    assert mailbox.reload().paused_by == PausedBy.LABEL
    assert len(stored(Decision)) == 1
    assert ours(mailbox, arrived) == set()

    mailbox.gmail.modify_message(arrived, remove=[label])
    sync_by_type()
    assert mailbox.reload().paused_by == PausedBy.NOTHING
    assert len(ours(mailbox, arrived)) == 1


def test_the_labels_removal_resumes_a_mailbox_that_only_suggests_by_now(mailbox: Mailbox) -> None:
    label = ensure_label(mailbox.account, mailbox.gmail, PAUSE_LABEL)
    arrived = mailbox.receive()
    sync(mailbox)
    snooze = done(mailbox, arrived, "snooze", amount=2, units="hours")
    mailbox.gmail.modify_message(arrived, add=[label])
    sync(mailbox)
    modes.suggest_only(mailbox.account)
    undo = ask_undo(mailbox, snooze)
    sync(mailbox)
    assert mailbox.reload().paused_by == PausedBy.LABEL
    assert "INBOX" not in mailbox.labels(arrived)

    mailbox.gmail.modify_message(arrived, remove=[label])
    sync(mailbox)
    drain_later()
    assert mailbox.reload().paused_by == PausedBy.NOTHING
    assert current(undo).status == "completed"
    assert "INBOX" in mailbox.labels(arrived)


def test_the_end_of_the_pause_leaves_an_operators_pause(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    sync_without_actions(mailbox)
    held = {"job_type": modes.WRITING_TYPE, "limit_key": mailbox_limit_key(mailbox.account.pk)}
    with firm_scope(mailbox.firm):
        operators = limits.pause(firm=mailbox.firm, **held, reason="a partner complained")
    modes.pause_mailbox(mailbox.account)
    modes.resume_writing(mailbox.account)
    drain()
    assert [one.pk for one in stored(Pause)] == [operators.pk]
    assert ours(mailbox, arrived) == set()

    with firm_scope(mailbox.firm):
        limits.resume(operators)
    drain()
    assert len(ours(mailbox, arrived)) == 1


def test_a_pause_of_an_older_version_ends_with_the_mailboxs(mailbox: Mailbox) -> None:
    modes.pause_mailbox(mailbox.account)
    with firm_scope(mailbox.firm):
        Pause.objects.update(category="")
    modes.resume_writing(mailbox.account)
    assert stored(Pause) == []


def test_the_label_does_not_end_a_persons_pause(mailbox: Mailbox) -> None:
    ensure_label(mailbox.account, mailbox.gmail, PAUSE_LABEL)
    modes.pause_mailbox(mailbox.account)
    sync(mailbox)
    assert mailbox.reload().paused_by == PausedBy.SWITCH


def test_a_label_seen_at_the_same_moment_does_not_take_over_a_persons_pause(
    mailbox: Mailbox,
) -> None:
    stale = only(stored(MailAccount), pk=mailbox.account.pk)
    modes.pause_mailbox(mailbox.account)
    with pytest.raises(WrongState, match="paused already"):
        modes.pause_mailbox(stale, paused_by=PausedBy.LABEL)
    assert mailbox.reload().paused_by == PausedBy.SWITCH


@pytest.mark.parametrize("before", [PausedBy.NOTHING, PausedBy.LABEL])
def test_a_person_who_pauses_while_the_label_is_looked_for_counts(
    mailbox: Mailbox, before: PausedBy
) -> None:
    label = ensure_label(mailbox.account, mailbox.gmail, PAUSE_LABEL)
    if before == PausedBy.NOTHING:
        mailbox.gmail.modify_message(mailbox.receive(), add=[label])
    set_mode(mailbox, paused_by=before)
    stale = only(stored(MailAccount), pk=mailbox.account.pk)
    set_mode(mailbox, paused_by=PausedBy.SWITCH)
    modes.follow_pause_label(stale, mailbox.gmail)
    assert mailbox.reload().paused_by == PausedBy.SWITCH


def test_of_two_changes_of_the_mode_at_once_one_counts(mailbox: Mailbox) -> None:
    stale = [only(stored(MailAccount), pk=mailbox.account.pk) for _ in range(2)]
    modes.suggest_only(mailbox.account)
    with pytest.raises(WrongState, match="set to suggest only already"):
        modes.suggest_only(stale[0])
    suggesting = only(stored(MailAccount), pk=mailbox.account.pk)
    # This copy was read while the mailbox was active.
    modes.activate(stale[1])
    with pytest.raises(WrongState, match="active already"):
        modes.activate(suggesting)
    assert mailbox.reload().mode == Mode.ACTIVE


def test_of_two_who_resume_at_once_one_does(mailbox: Mailbox) -> None:
    running = only(stored(MailAccount), pk=mailbox.account.pk)
    modes.pause_mailbox(mailbox.account)
    paused = only(stored(MailAccount), pk=mailbox.account.pk)
    # This copy was read while the mailbox was not paused.
    modes.resume_writing(running)
    with pytest.raises(WrongState, match="is not paused"):
        modes.resume_writing(paused)
    assert mailbox.reload().paused_by == PausedBy.NOTHING


def test_the_owners_aliases_count_as_the_owner(mailbox: Mailbox) -> None:
    address = mailbox.account.address
    mailbox.simulator.add_alias(address, "Sales@Acme.example")
    mailbox.simulator.add_alias(address, "unproven@acme.example", verified=False)
    with firm_scope(mailbox.firm):
        enqueue("sync", {"account_id": mailbox.account.pk, "force_full": True})
    drain()
    assert own_addresses(mailbox.reload()) == {address, "sales@acme.example"}
    wire_id = mailbox.receive(letter(sender="Sales <SALES@acme.example>", to="a@b.example"))
    sync(mailbox)
    assert mailbox.message(wire_id).outgoing

    refresh_aliases(mailbox.account, mailbox.gmail)
    assert mailbox.reload().aliases == ["sales@acme.example"]


def test_of_two_disconnects_at_once_one_counts(mailbox: Mailbox) -> None:
    stale = only(stored(MailAccount), pk=mailbox.account.pk)
    disconnect_account(mailbox.account, keep_days=0)
    gone_at = mailbox.reload().delete_mail_at
    with pytest.raises(WrongState, match="disconnected already"):
        disconnect_account(stale, keep_days=30)
    assert mailbox.reload().delete_mail_at == gone_at
    assert len(audit_entries(stale.pk)) == 1
