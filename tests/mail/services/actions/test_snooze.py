"""Snooze: a message leaves the inbox for a time and returns, late rather than never."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.queue import cancel
from jobs.testing import drain, frozen_time, run_job
from mail.errors import ActionInvalid, NotUndoable
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import Action, EventType, MailAccount, MailEvent, MailThread, ThreadStatus
from mail.services.actions.sweep import sweep_actions
from tenants.scope import firm_scope
from tests.mail.action_kit import (
    ARRIVED,
    ask,
    ask_undo,
    current,
    done,
    in_gmail,
    received,
    run,
    undone,
)
from tests.mail.mail_kit import Mailbox, jobs, letter, only, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-17")]

LABEL = "Mailroom/Snoozed"
SNOOZED = {"UNREAD", LABEL}
AN_HOUR = {"amount": 1, "units": "hours"}


def drain_after(**time: float) -> None:
    """Run what is due after that time."""
    with frozen_time(database_now()) as clock:
        clock.tick(**time)
        drain()


def delete_label(mailbox: Mailbox, name: str = LABEL) -> None:
    (label_id,) = [row["id"] for row in mailbox.gmail.list_labels() if row["name"] == name]
    mailbox.gmail._execute(mailbox.gmail._resources.labels.delete(userId="me", id=label_id))


@pytest.mark.parametrize(
    "amount", [{"amount": 90, "units": "minutes"}, {"amount": 3, "units": "days"}]
)
def test_a_snoozed_message_comes_back_at_its_time(mailbox: Mailbox, amount: dict[str, Any]) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "snooze", **amount)
    length = timedelta(**{amount["units"]: amount["amount"]})
    assert mailbox.labels(arrived) == SNOOZED
    assert action.wake_at == action.created_at + length
    (wake,) = jobs("unsnooze.gmail")
    hint = action.undo_hint or {}
    assert wake.payload["snooze_label_id"] == hint["snooze_label_id"]
    assert wake.payload["action_id"] == str(action.pk)
    assert wake.idempotency_key == f"unsnooze.gmail:{mailbox.account.pk}:{action.pk}"
    assert hint["unsnooze_job_id"] == str(wake.pk)
    assert (hint["snooze_label"], hint["snooze_until"]) == (LABEL, action.wake_at.isoformat())
    assert hint["inverse_parameters"] == {
        "add_labels": ["INBOX"],
        "remove_labels": [hint["snooze_label_id"]],
    }
    drain_after(seconds=length.total_seconds() - 30)
    assert mailbox.labels(arrived) == SNOOZED
    drain_after(seconds=length.total_seconds() + 30)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert current(action).wake_at is None
    event = only(stored(MailEvent), event_type=EventType.UNSNOOZED)
    assert event.detail == {"action_id": str(action.pk), "changed": True}


def test_until_a_moment_in_any_zone(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    until = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    text = until.astimezone(timezone.get_fixed_timezone(120)).isoformat()
    action = done(mailbox, arrived, "snooze", until=text)
    assert action.wake_at == until


def in_days(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


@pytest.mark.parametrize(
    ("parameters", "field", "code"),
    [
        ({}, "until", "required"),
        ({"until": in_days(2), "amount": 1, "units": "days"}, "until", "conflict"),
        ({"until": in_days(2), "units": "days"}, "until", "conflict"),
        ({"until": in_days(-1)}, "until", "past"),
        ({"until": in_days(366)}, "until", "too_far"),
        ({"until": "tomorrow"}, "until", "not_a_moment"),
        ({"until": "2030-01-01T10:00:00"}, "until", "not_a_moment"),
        ({"until": 7}, "until", "wrong_type"),
        ({"amount": 366, "units": "days"}, "amount", "too_far"),
        ({"amount": 10**30, "units": "minutes"}, "amount", "too_far"),
        ({"amount": 0, "units": "days"}, "amount", "greater_than"),
        ({"amount": -3, "units": "days"}, "amount", "greater_than"),
        ({"amount": True, "units": "days"}, "amount", "wrong_type"),
        ({"amount": 1.5, "units": "days"}, "amount", "wrong_type"),
        ({"amount": 3}, "units", "required"),
        ({"units": "days"}, "amount", "required"),
        ({"amount": 3, "units": "weeks"}, "units", "literal_error"),
        ({"amount": 3, "units": "days", "colour": "red"}, "colour", "unknown_field"),
    ],
)
def test_a_time_that_cannot_be_used_is_refused_by_name(
    mailbox: Mailbox, parameters: dict[str, Any], field: str, code: str
) -> None:
    arrived = received(mailbox, *ARRIVED)
    with pytest.raises(ActionInvalid) as refused:
        ask(mailbox, arrived, "snooze", **parameters)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [(field, code)]
    assert stored(Action) == []


def test_a_stored_action_without_a_usable_time_is_fatal(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    with firm_scope(mailbox.firm):
        Action.objects.filter(pk=action.pk).update(parameters={"until": in_days(-2)})
    job = run(action)
    assert (job.status, "until must be in the future" in job.last_error) == ("dlq", True)
    assert current(action).status == "failed"
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_time_that_is_over_when_the_job_runs_leaves_the_message(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    with firm_scope(mailbox.firm):
        made = timezone.now() - timedelta(days=1)
        Action.objects.filter(pk=action.pk).update(created_at=made)
    assert run(action).result["reason"] == "The snooze time is over"
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert jobs("unsnooze.gmail") == []


def test_a_worker_that_was_off_wakes_on_return(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    drain_after(hours=24 * 30)
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_the_label_is_made_once_and_found_again(mailbox: Mailbox) -> None:
    first, second = received(mailbox), received(mailbox)
    for arrived in (first, second):
        done(mailbox, arrived, "snooze", **AN_HOUR)
    assert [row["name"] for row in mailbox.gmail.list_labels()].count(LABEL) == 1


def test_the_label_has_the_name_that_is_set(mailbox: Mailbox, settings: Any) -> None:
    settings.SNOOZE_LABEL = "Later"
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    assert mailbox.labels(arrived) == {"UNREAD", "Later"}
    settings.SNOOZE_LABEL = "Much later"
    drain_after(hours=2)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert (current(action).undo_hint or {})["snooze_label"] == "Later"


def test_a_label_deleted_meanwhile_does_not_keep_the_message(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    delete_label(mailbox)
    drain_after(hours=2)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert current(action).wake_at is None


def test_a_label_deleted_between_reading_and_waking(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mail.services.actions import wake

    arrived = received(mailbox)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    read = wake.read_state

    def and_delete(*arguments: Any) -> Any:
        state = read(*arguments)
        delete_label(mailbox)
        return state

    monkeypatch.setattr(wake, "read_state", and_delete)
    drain_after(hours=2)
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_label_made_again_as_it_is_put_on_goes_with_the_wake(mailbox: Mailbox) -> None:
    first, second = received(mailbox, *ARRIVED), received(mailbox, *ARRIVED)
    done(mailbox, first, "snooze", **AN_HOUR)
    delete_label(mailbox)
    # The job that wakes the message names the deleted label, because Gmail refuses it only
    # afterwards.
    done(mailbox, second, "snooze", **AN_HOUR)
    assert mailbox.labels(second) == SNOOZED
    drain_after(hours=2)
    assert mailbox.labels(second) == set(ARRIVED)


def test_a_label_deleted_before_it_is_put_on_is_made_again(mailbox: Mailbox) -> None:
    first, second = received(mailbox), received(mailbox)
    done(mailbox, first, "snooze", **AN_HOUR)
    delete_label(mailbox)
    done(mailbox, second, "snooze", **AN_HOUR)
    assert mailbox.labels(second) == SNOOZED


@pytest.mark.parametrize("where", ["TRASH", "SPAM"])
def test_a_message_the_person_threw_away_stays_there(mailbox: Mailbox, where: str) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    in_gmail(mailbox, arrived, add=where)
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD", where}
    assert current(action).wake_at is None


@pytest.mark.parametrize("where", ["TRASH", "SPAM"])
@pytest.mark.parametrize("fault", [None, Fault(status=429)], ids=["waits", "refused"])
def test_a_message_thrown_away_before_its_snooze_is_left_as_it_is(
    mailbox: Mailbox, where: str, fault: Fault | None
) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    if fault is not None:
        mailbox.simulator.order_fault(fault, method="messages.modify")
        assert run(action).status == "pending"
        with firm_scope(mailbox.firm):
            MailAccount.objects.update(held_until=None)
    in_gmail(mailbox, arrived, add=where)
    before = mailbox.labels(arrived)
    with frozen_time(database_now() + timedelta(minutes=5)):
        ended = run(action)
    assert ended.result["reason"] == "The message is in the trash, or among spam"
    assert mailbox.labels(arrived) == before
    in_gmail(mailbox, arrived, remove=where)
    in_gmail(mailbox, arrived, remove="INBOX")
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD"}
    snoozed = current(action)
    assert (snoozed.status, snoozed.wake_at) == ("completed", None)
    assert (snoozed.undo_hint or {})["inverse_action"] == "none"


def test_a_message_hidden_and_then_thrown_away_is_only_rid_of_the_label(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    assert run(action).status == "pending"
    assert mailbox.labels(arrived) == SNOOZED
    mailbox.gmail.trash(arrived)
    with frozen_time(database_now() + timedelta(minutes=5)):
        assert run(action).status == "completed"
    assert mailbox.labels(arrived) == {*SNOOZED, "TRASH"}
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD", "TRASH"}


@pytest.mark.parametrize("fault", [None, LOST_ANSWER], ids=["at once", "lost answer"])
@pytest.mark.parametrize("kind", ["trash", "delete"])
def test_a_message_that_mailroom_threw_away_is_back_once_that_is_undone(
    mailbox: Mailbox, kind: str, fault: Fault | None
) -> None:
    arrived = received(mailbox, *ARRIVED)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    thrown = done(mailbox, arrived, kind)
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD", "TRASH"}
    undo = ask_undo(mailbox, thrown)
    if fault is not None:
        mailbox.simulator.order_fault(fault, method="messages.untrash")
    drain_after(hours=3)
    drain_after(hours=4)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert (current(undo).undo_hint or {})["changed"] == {"added": ["INBOX"], "removed": ["TRASH"]}


@pytest.mark.parametrize("why", ["woken before", "asleep", "moved", "done with", "snooze undone"])
def test_an_undo_brings_nothing_back_that_nobody_waits_for(mailbox: Mailbox, why: str) -> None:
    arrived = received(mailbox, *ARRIVED)
    snooze = done(mailbox, arrived, "snooze", **AN_HOUR)
    if why == "woken before":
        drain_after(hours=2)
        in_gmail(mailbox, arrived, remove="INBOX")
    elif why == "moved":
        in_gmail(mailbox, arrived, add="INBOX")
        in_gmail(mailbox, arrived, remove="INBOX")
    thrown = done(mailbox, arrived, "trash")
    if why == "done with":
        with firm_scope(mailbox.firm):
            MailThread.objects.update(status=ThreadStatus.ARCHIVED)
    elif why == "snooze undone":
        undone(mailbox, snooze)
        in_gmail(mailbox, arrived, remove="INBOX")
    if why not in ("woken before", "asleep"):
        drain_after(hours=2)
    undone(mailbox, thrown)
    assert mailbox.labels(arrived) == (SNOOZED if why == "asleep" else {"UNREAD"})
    if why == "asleep":
        drain_after(hours=2)
        assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_deleted_message_is_nothing_to_wake(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.gmail.delete_message(arrived)
    drain_after(hours=2)
    assert only(jobs("unsnooze.gmail", live=False)).status == "completed"


def test_a_message_that_is_gone_here_is_nothing_to_wake(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    with firm_scope(mailbox.firm):
        mailbox.message(arrived).delete()
    drain_after(hours=2)
    assert only(jobs("unsnooze.gmail", live=False)).status == "completed"


@pytest.mark.req("M-16")
def test_undone_before_it_wakes(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    undone(mailbox, action)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert only(jobs("unsnooze.gmail", live=False)).status == "canceled"
    in_gmail(mailbox, arrived, remove="INBOX")
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD"}


@pytest.mark.req("M-16")
def test_a_wake_that_was_not_canceled_asks_the_action(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    (wake,) = jobs("unsnooze.gmail")
    undone(mailbox, action)
    in_gmail(mailbox, arrived, remove="INBOX")
    again = run_job("unsnooze.gmail", {
        name: wake.payload[name] for name in ("account_id", "message_id", "action_id", "snooze_label_id")
    }, firm=mailbox.firm)  # fmt: skip
    assert again.result["skipped"] is True
    assert mailbox.labels(arrived) == {"UNREAD"}


@pytest.mark.req("M-16")
def test_undone_after_it_woke(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    drain_after(hours=2)
    in_gmail(mailbox, arrived, remove="INBOX")
    undone(mailbox, action)
    assert mailbox.labels(arrived) == {"UNREAD"}


@pytest.mark.req("M-16")
@pytest.mark.parametrize("fault", [LOST_ANSWER, Fault(status=503)], ids=["lost", "503"])
def test_undone_while_it_wakes(mailbox: Mailbox, fault: Fault) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    with frozen_time(database_now()) as clock:
        clock.tick(hours=2)
        mailbox.simulator.order_fault(fault, method="messages.modify")
        drain()
        undo = ask_undo(mailbox, action)
        for _ in range(3):
            clock.tick(minutes=5)
            drain()
    assert current(undo).status == "completed"
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert current(action).wake_at is None
    assert jobs() == []


@pytest.mark.req("M-16")
def test_the_last_of_two_snoozes_decides(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    first = done(mailbox, arrived, "snooze", **AN_HOUR)
    second = done(mailbox, arrived, "snooze", amount=3, units="hours")
    with pytest.raises(NotUndoable, match="snoozed again"):
        ask_undo(mailbox, first)
    drain_after(hours=2)
    assert mailbox.labels(arrived) == SNOOZED
    drain_after(hours=4)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert current(second).wake_at is None


@pytest.mark.req("M-16")
@pytest.mark.parametrize(("slept", "back"), [(0, False), (2, True)])
def test_the_undo_of_a_second_snooze_leaves_the_first(
    mailbox: Mailbox, slept: float, back: bool
) -> None:
    arrived = received(mailbox)
    first = done(mailbox, arrived, "snooze", **AN_HOUR)
    second = done(mailbox, arrived, "snooze", amount=5, units="hours")
    with frozen_time(database_now()) as clock:
        clock.tick(hours=slept)
        drain()
        assert mailbox.labels(arrived) == SNOOZED
        undone(mailbox, second)
        drain()
        assert mailbox.labels(arrived) == (set(ARRIVED) if back else SNOOZED)
        clock.tick(hours=1.5)
        drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert current(first).wake_at is None


def test_two_messages_of_one_thread_wake_each_at_its_time(mailbox: Mailbox) -> None:
    first = mailbox.receive(letter("One", message_id="<one@customer.example>"))
    second = mailbox.receive(letter("Re: One", reply_to_id="<one@customer.example>"))
    from tests.mail.action_kit import store

    for arrived in (first, second):
        store(mailbox, arrived)
    assert mailbox.message(first).thread_id == mailbox.message(second).thread_id
    done(mailbox, first, "snooze", **AN_HOUR)
    done(mailbox, second, "snooze", amount=3, units="hours")
    drain_after(hours=2)
    assert (mailbox.labels(first), mailbox.labels(second)) == (set(ARRIVED), SNOOZED)
    drain_after(hours=4)
    assert mailbox.labels(second) == set(ARRIVED)


def test_a_lost_answer_hides_it_once_and_wakes_it(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(action).status == "pending"
        clock.tick(minutes=5)
        assert run(action).status == "completed"
        assert len(jobs("unsnooze.gmail")) == 1
        clock.tick(hours=1)
        drain()
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_wake_whose_answer_was_lost_says_that_it_brought_the_message_back(
    mailbox: Mailbox,
) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    (job,) = jobs("unsnooze.gmail")
    with frozen_time(database_now()) as clock:
        clock.tick(hours=1, seconds=1)
        assert run_job(job).status == "pending"
        assert mailbox.labels(arrived) == set(ARRIVED)
        clock.tick(minutes=5)
        woken = {"action_id": str(action.pk), "changed": True}
        assert run_job(job).result == woken
    assert only(stored(MailEvent), event_type=EventType.UNSNOOZED).detail == woken


def test_a_snooze_that_failed_after_it_hid_the_message_wakes_it_all_the_same(
    mailbox: Mailbox,
) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    job_id = current(action).job_id
    assert job_id is not None
    assert run(action).status == "pending"
    assert mailbox.labels(arrived) == SNOOZED
    cancel(job_id)
    sweep_actions()
    assert current(action).status == "failed"
    drain_after(hours=2)
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_snooze_that_never_hid_the_message_brings_nothing_back(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(Fault(status=503), method="messages.modify")
    job_id = current(action).job_id
    assert job_id is not None
    run(action)
    cancel(job_id)
    sweep_actions()
    in_gmail(mailbox, arrived, remove="INBOX")
    drain_after(hours=2)
    assert mailbox.labels(arrived) == {"UNREAD"}
    assert current(action).wake_at is None


def test_a_wake_whose_job_is_lost_is_enqueued_again(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    (wake,) = jobs("unsnooze.gmail")
    cancel(wake)
    assert sweep_actions()["woken"] == 0
    with firm_scope(mailbox.firm):
        Action.objects.filter(pk=action.pk).update(wake_at=timezone.now() - timedelta(minutes=5))
    assert sweep_actions()["woken"] == 1
    assert sweep_actions()["woken"] == 0
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert sweep_actions()["woken"] == 0


def test_a_wake_that_gmail_refuses_is_tried_less_and_less(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    forbidden = Fault(status=403, reason="insufficientPermissions")
    mailbox.simulator.order_fault(forbidden, method="messages.get", times=100)
    assert action.wake_at is not None
    for minute in range(3, 123):
        now = action.wake_at + timedelta(minutes=minute)
        with time_machine.travel(now, tick=False), frozen_time(now):
            sweep_actions()
            drain()
    dead = jobs("unsnooze.gmail", live=False)
    assert {job.status for job in dead} == {"dlq"}
    assert 5 <= len(dead) <= 8
    mailbox.simulator.clear_faults()
    now += timedelta(hours=1)
    with time_machine.travel(now, tick=False), frozen_time(now):
        sweep_actions()
        drain()
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_paused_mailbox_wakes_it_when_it_is_resumed(mailbox: Mailbox) -> None:
    from mail.services.mailboxes.modes import pause_mailbox, resume_writing

    arrived = received(mailbox)
    done(mailbox, arrived, "snooze", **AN_HOUR)
    pause_mailbox(mailbox.account)
    with frozen_time(database_now()) as clock:
        clock.tick(hours=2)
        drain()
        assert mailbox.labels(arrived) == SNOOZED
        resume_writing(mailbox.account)
        clock.tick(minutes=5)
        drain()
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_a_job_that_names_no_label_takes_the_one_of_now(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "snooze", **AN_HOUR)
    payload = {
        "account_id": mailbox.account.pk,
        "message_id": action.message_id,
        "action_id": action.pk,
    }
    run_job("unsnooze.gmail", payload, firm=mailbox.firm, idempotency_key="by hand", at=None)
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_what_an_answer_was_lost_of_is_woken_from_under_the_label_it_has(
    mailbox: Mailbox, settings: Any
) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "snooze", **AN_HOUR)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    assert run(action).status == "pending"
    for job in (*jobs("action.gmail"), *jobs("unsnooze.gmail")):
        cancel(job)
    settings.SNOOZE_LABEL = "Later"
    with firm_scope(mailbox.firm):
        Action.objects.filter(pk=action.pk).update(wake_at=timezone.now() - timedelta(minutes=5))
    assert sweep_actions()["woken"] == 1
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
