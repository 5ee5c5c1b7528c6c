"""Undo takes back Mailroom's own change, except where somebody has changed the labels since."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from jobs.engine.clock import database_now
from jobs.queue import enqueue, retry
from jobs.testing import drain, frozen_time, run_job
from mail.errors import NotUndoable, RowGone
from mail.gmail.errors import GmailNotFound
from mail.gmail.oauth import FULL_SCOPE
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import (
    Action,
    ActionLink,
    ActionType,
    EventType,
    MailEvent,
    Relation,
)
from mail.services.actions.actions import irreversible_reason
from mail.services.actions.undo import request_undo
from mail.services.mailboxes.credentials import store_grant
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
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
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, jobs, only, stored

pytestmark = pytest.mark.django_db

TRASHED = ("TRASH", "UNREAD")
EVERY_INVERSE: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("archive", {}, ARRIVED),
    ("apply_label", {"label": "Projects"}, ARRIVED),
    ("remove_label", {"label": "STARRED"}, ("INBOX", "STARRED")),
    ("mark_read", {}, ARRIVED),
    ("mark_unread", {}, ("INBOX",)),
    ("star", {}, ARRIVED),
    ("unstar", {}, ("INBOX", "STARRED")),
    ("trash", {}, ("INBOX", "UNREAD", "STARRED")),
    ("trash", {}, ("UNREAD",)),
    ("restore", {}, TRASHED),
    ("delete", {}, ("INBOX", "UNREAD", "STARRED")),
    ("snooze", {"amount": 2, "units": "hours"}, ARRIVED),
]


@pytest.mark.req("M-16")
@pytest.mark.parametrize(
    ("action_type", "parameters", "labels"),
    EVERY_INVERSE,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(EVERY_INVERSE)],
)
def test_an_undo_restores_exactly_the_earlier_labels(
    mailbox: Mailbox, action_type: str, parameters: dict[str, Any], labels: tuple[str, ...]
) -> None:
    arrived = received(mailbox, *labels)
    action = done(mailbox, arrived, action_type, **parameters)
    assert mailbox.labels(arrived) != set(labels)
    undo = undone(mailbox, action)
    assert (undo.status, undo.action_type) == ("completed", "undo")
    assert mailbox.labels(arrived) == set(labels)
    assert set(mailbox.message(arrived).labels) == set(labels)
    link = only(stored(ActionLink), relation=Relation.UNDO_OF)
    assert (link.cause_id, link.effect_id, link.counts) == (undo.pk, action.pk, True)
    assert current(action).status == "completed"
    event = only(stored(MailEvent), event_type=EventType.ACTION_UNDONE)
    assert event.detail["undo_id"] == str(undo.pk)
    assert [entry.act for entry in audit_entries(action.pk)] == ["action.undo"]


@pytest.mark.req("M-16")
@pytest.mark.parametrize(
    ("action_type", "labels"),
    [("archive", ("UNREAD",)), ("star", ("INBOX", "STARRED")), ("mark_read", ("INBOX",))],
)
def test_the_undo_of_what_changed_nothing_changes_nothing(
    mailbox: Mailbox, action_type: str, labels: tuple[str, ...]
) -> None:
    arrived = received(mailbox, *labels)
    action = done(mailbox, arrived, action_type)
    # The action changed nothing, because the message already had the wanted labels.
    undo = ask_undo(mailbox, action)
    assert current(undo).status == "completed"
    assert jobs("undo.action") == []
    assert mailbox.labels(arrived) == set(labels)
    with pytest.raises(NotUndoable, match="undone already"):
        ask_undo(mailbox, action)


PERSON: list[tuple[str, tuple[str, ...], list[tuple[str, str]]]] = [
    # The person puts the message back into the inbox, and archives it again.
    ("archive", ARRIVED, [("add", "INBOX"), ("remove", "INBOX")]),
    ("archive", ARRIVED, [("add", "INBOX")]),
    ("star", ("INBOX",), [("remove", "STARRED")]),
    ("star", ("INBOX",), [("remove", "STARRED"), ("add", "STARRED")]),
    ("mark_read", ARRIVED, [("add", "UNREAD"), ("remove", "UNREAD")]),
]


@pytest.mark.req("M-16")
@pytest.mark.parametrize(("action_type", "labels", "since"), PERSON)
def test_what_the_person_changed_since_stays(
    mailbox: Mailbox, action_type: str, labels: tuple[str, ...], since: list[tuple[str, str]]
) -> None:
    arrived = received(mailbox, *labels)
    action = done(mailbox, arrived, action_type)
    for change, label in since:
        in_gmail(mailbox, arrived, **{change: label})
    left = mailbox.labels(arrived)
    undo = undone(mailbox, action)
    assert mailbox.labels(arrived) == left
    assert (undo.undo_hint or {})["kept"] == [since[0][1]]


@pytest.mark.req("M-16")
def test_what_the_person_put_into_the_inbox_since_does_not_go_back_to_the_trash(
    mailbox: Mailbox,
) -> None:
    arrived = received(mailbox, *TRASHED)
    action = done(mailbox, arrived, "restore")
    in_gmail(mailbox, arrived, add="INBOX")
    undo = undone(mailbox, action)
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert (undo.undo_hint or {})["kept"] == ["TRASH"]


@pytest.mark.req("M-16")
@pytest.mark.parametrize(
    ("action_type", "labels", "back"),
    [("archive", ARRIVED, "INBOX"), ("restore", TRASHED, "TRASH")],
)
def test_a_change_of_another_label_is_no_obstacle(
    mailbox: Mailbox, action_type: str, labels: tuple[str, ...], back: str
) -> None:
    arrived = received(mailbox, *labels)
    action = done(mailbox, arrived, action_type)
    in_gmail(mailbox, arrived, add="STARRED")
    in_gmail(mailbox, arrived, remove="UNREAD")
    undone(mailbox, action)
    assert mailbox.labels(arrived) == {back, "STARRED"}


@pytest.mark.req("M-16")
def test_what_the_person_changed_during_the_action_is_not_put_down_to_it(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "archive")
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(action).status == "pending"
        in_gmail(mailbox, arrived, add="STARRED")
        in_gmail(mailbox, arrived, remove="UNREAD")
        clock.tick(hours=1)
        assert run(action).status == "completed"
    undone(mailbox, action)
    assert mailbox.labels(arrived) == {"INBOX", "STARRED"}


@pytest.mark.req("M-16")
def test_a_refused_attempt_leaves_the_persons_change_to_the_person(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "archive")
    mailbox.simulator.order_fault(Fault(status=401), method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(action).status == "pending"
        in_gmail(mailbox, arrived, remove="INBOX")
        clock.tick(hours=1)
        assert run(action).result["changed"] is False
    undone(mailbox, action)
    assert mailbox.labels(arrived) == {"UNREAD"}


@pytest.mark.req("M-16")
def test_a_later_action_of_ours_on_the_same_label_stands(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "INBOX")
    first = done(mailbox, arrived, "star")
    done(mailbox, arrived, "unstar")
    third = done(mailbox, arrived, "star")
    undone(mailbox, first)
    assert mailbox.labels(arrived) == {"INBOX", "STARRED"}
    undone(mailbox, third)
    assert mailbox.labels(arrived) == {"INBOX"}


@pytest.mark.req("M-16")
def test_undone_in_turn_the_first_labels_are_back(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "INBOX")
    actions = [done(mailbox, arrived, name) for name in ("star", "unstar", "archive", "star")]
    for action in reversed(actions):
        undone(mailbox, action)
    assert mailbox.labels(arrived) == {"INBOX"}


def test_an_action_that_went_with_its_message_is_refused(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "archive")
    with firm_scope(mailbox.account.firm_id):
        Action.objects.filter(pk=action.pk).delete()
    with pytest.raises(RowGone, match="with its message"), firm_scope(mailbox.account.firm_id):
        request_undo(action)


@pytest.mark.req("M-16")
def test_one_of_two_undos_wins(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    ask_undo(mailbox, action)
    with pytest.raises(NotUndoable, match="being undone"):
        ask_undo(mailbox, action)
    drain()
    with pytest.raises(NotUndoable, match="undone already"):
        ask_undo(mailbox, action)
    assert len(jobs("undo.action", live=False)) == 1


@pytest.mark.req("M-16")
@pytest.mark.django_db(transaction=True)
def test_of_two_undos_at_the_same_moment_one_wins(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "archive")
    start, asked = threading.Barrier(2), []

    def undo() -> None:
        start.wait()
        try:
            asked.append(ask_undo(mailbox, action).status)
        except NotUndoable:
            asked.append("refused")
        connection.close()

    threads = [threading.Thread(target=undo) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asked) == ["queued", "refused"]
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert len(audit_entries(action.pk)) == 1


@pytest.mark.req("M-16")
def test_the_database_lets_one_undo_count(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    ask_undo(mailbox, action)
    with firm_scope(mailbox.firm):
        other = Action.objects.create(
            account=mailbox.account, message=action.message, action_type=ActionType.UNDO
        )
        with pytest.raises(IntegrityError), transaction.atomic():
            ActionLink.objects.create(cause=other, effect=action, relation=Relation.UNDO_OF)
        ActionLink.objects.create(
            cause=other, effect=action, relation=Relation.UNDO_OF, counts=False
        )


@pytest.mark.req("M-16")
def test_an_undo_belongs_to_one_job(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    undo = ask_undo(mailbox, action)
    stranger = run_job(
        "undo.action",
        {"account_id": mailbox.account.pk, "original_action_id": action.pk},
        firm=mailbox.firm,
        idempotency_key="another",
        lock_key="another",
    )
    assert (stranger.status, "being undone" in stranger.last_error) == ("dlq", True)
    assert current(undo).status == "queued"
    assert mailbox.labels(arrived) == {"UNREAD"}
    assert run(undo).result == {
        "action_id": str(undo.pk),
        "original_action_id": str(action.pk),
        "changed": True,
        "kept": [],
    }


@pytest.mark.req("M-16")
def test_a_job_alone_makes_the_undo_itself(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    payload = {"account_id": mailbox.account.pk, "original_action_id": action.pk}
    job = run_job("undo.action", payload, firm=mailbox.firm)
    assert job.status == "completed"
    assert job.idempotency_key == f"undo.action:{mailbox.account.pk}:{action.pk}"
    assert mailbox.labels(arrived) == set(ARRIVED)
    again = run_job("undo.action", payload, firm=mailbox.firm)
    assert (again.status, "undone already" in again.last_error) == ("dlq", True)


def undo_at_its_last_attempt(mailbox: Mailbox, action: Action) -> Action:
    undo = ask_undo(mailbox, action)
    mailbox.simulator.order_fault(Fault(status=503), method="messages.modify", times=5)
    with frozen_time(database_now()) as clock:
        for attempt in range(5):
            assert current(undo).status == ("executing" if attempt else "queued")
            run(undo)
            clock.tick(hours=1)
    return undo


@pytest.mark.req("M-16")
def test_an_undo_that_ran_out_of_attempts_failed_and_can_be_asked_for_again(
    mailbox: Mailbox,
) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    failed = undo_at_its_last_attempt(mailbox, action)
    assert current(failed).status == "failed"
    assert "503" in current(failed).error
    assert mailbox.labels(arrived) == {"UNREAD"}
    second = undone(mailbox, action)
    assert second.status == "completed"
    assert mailbox.labels(arrived) == set(ARRIVED)
    links = [link for link in stored(ActionLink) if link.effect_id == action.pk]
    assert [link.counts for link in links] == [False, True]


@pytest.mark.req("M-16")
def test_a_failed_undo_goes_on_when_its_job_is_retried(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    failed = undo_at_its_last_attempt(mailbox, action)
    job_id = current(failed).job_id
    assert job_id is not None
    with firm_scope(mailbox.firm):
        retry(job_id, reason="Gmail is back")
    assert run_job(job_id).status == "completed"
    assert current(failed).status == "completed"
    assert mailbox.labels(arrived) == set(ARRIVED)
    with pytest.raises(NotUndoable, match="undone already"):
        ask_undo(mailbox, action)


@pytest.mark.req("M-16")
def test_the_undo_of_a_message_deleted_in_gmail_failed(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    mailbox.gmail.delete_message(arrived)
    undo = ask_undo(mailbox, action)
    assert run(undo).status == "canceled"
    assert (current(undo).status, current(undo).error) == (
        "failed",
        "The message is no longer in Gmail",
    )


@pytest.mark.req("M-16")
def test_a_label_that_was_deleted_since_is_not_put_back(mailbox: Mailbox) -> None:
    label = mailbox.gmail.create_label("Projects")["id"]
    arrived = received(mailbox, "INBOX", "STARRED", label)
    action = done(mailbox, arrived, "remove_label", label="Projects")
    mailbox.gmail._execute(mailbox.gmail._resources.labels.delete(userId="me", id=label))
    assert undone(mailbox, action).status == "completed"
    assert mailbox.labels(arrived) == {"INBOX", "STARRED"}


@pytest.mark.req("M-16")
@pytest.mark.parametrize("name", ["Projects", "PROJECTS"])
def test_a_label_that_was_deleted_and_made_again_is_put_back(mailbox: Mailbox, name: str) -> None:
    label = mailbox.gmail.create_label("Projects")["id"]
    arrived = received(mailbox, "INBOX", "STARRED", label)
    action = done(mailbox, arrived, "remove_label", label="Projects")
    mailbox.gmail._execute(mailbox.gmail._resources.labels.delete(userId="me", id=label))
    again = mailbox.gmail.create_label(name)["id"]
    assert again != label
    undo = undone(mailbox, action)
    assert mailbox.labels(arrived) == {"INBOX", "STARRED", name}
    assert (undo.status, (undo.undo_hint or {})["changed"]["added"]) == ("completed", [again])


@pytest.mark.req("M-16", "M-15")
def test_what_cannot_be_undone_says_why(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    waiting = ask(mailbox, arrived, "star")
    with pytest.raises(
        NotUndoable, match="Only a completed action can be undone: this one is queued"
    ):
        ask_undo(mailbox, waiting)
    run(waiting)
    undo = undone(mailbox, waiting)
    with pytest.raises(NotUndoable, match="An undo cannot be undone"):
        ask_undo(mailbox, undo)
    deleted = done(mailbox, arrived, "delete", permanently=True)
    with pytest.raises(NotUndoable, match="deleted for good"):
        ask_undo(mailbox, deleted)
    payload = {"account_id": mailbox.account.pk, "original_action_id": deleted.pk}
    job = run_job("undo.action", payload, firm=mailbox.firm)
    assert (job.status, "deleted for good" in job.last_error) == ("dlq", True)


@pytest.mark.req("M-16", "M-15")
@pytest.mark.parametrize("everything", [False, True])
def test_deleted_for_good_is_only_what_the_mailbox_permits(
    connected: Mailbox, everything: bool
) -> None:
    arrived = received(connected, *ARRIVED)
    parameters = {"permanently": True}
    with firm_scope(connected.firm):
        if everything:
            store_grant(connected.account, granted(connected.account.address, [FULL_SCOPE]))
        never = irreversible_reason(connected.account, ActionType.DELETE, parameters)
    assert bool(never) is everything
    action = done(connected, arrived, "delete", **parameters)
    if everything:
        with pytest.raises(GmailNotFound):
            connected.gmail.get_message(arrived)
        with pytest.raises(NotUndoable, match="keeps nothing"):
            ask_undo(connected, action)
    else:
        assert connected.labels(arrived) == {"TRASH", "UNREAD"}
        undone(connected, action)
        assert connected.labels(arrived) == set(ARRIVED)


@pytest.mark.req("M-16")
def test_without_gmails_history_the_state_decides(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    mailbox.simulator.expire_history(mailbox.account.address)
    undone(mailbox, action)
    assert mailbox.labels(arrived) == set(ARRIVED)


@pytest.mark.req("M-16")
def test_a_hint_of_an_earlier_version_is_undone_by_state(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "trash")
    hint = dict(action.undo_hint or {})
    for new in ("changed", "history_id"):
        del hint[new]
    with firm_scope(mailbox.firm):
        Action.objects.filter(pk=action.pk).update(undo_hint=hint)
    undone(mailbox, action)
    assert mailbox.labels(arrived) == set(ARRIVED)


@pytest.mark.req("M-16", "T-02")
def test_an_action_of_another_mailbox_is_not_undone(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        job_id = enqueue(
            "undo.action",
            {"account_id": mailbox.account.pk, "original_action_id": uuid4()},
        ).job_id
    assert run_job(job_id).status == "canceled"


@pytest.mark.req("M-16")
def test_the_undo_waits_for_what_was_asked_for_before(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    before = ask(mailbox, arrived, "star")
    mailbox.simulator.order_fault(Fault(status=503), method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(before).status == "pending"
        undo = ask_undo(mailbox, action)
        job = run(undo)
        assert (job.status, job.attempts) == ("pending", 0)
        for _ in range(2):
            clock.tick(minutes=1)
            drain()
    assert (current(before).status, current(undo).status) == ("completed", "completed")
    assert mailbox.labels(arrived) == {"INBOX", "UNREAD", "STARRED"}


@pytest.mark.req("M-16", "M-24")
def test_a_paused_mailbox_lets_the_undo_wait(mailbox: Mailbox) -> None:
    from mail.services.mailboxes.modes import pause_mailbox, resume_writing

    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    pause_mailbox(mailbox.account)
    undo = ask_undo(mailbox, action)
    assert (run(undo).status, current(undo).status) == ("pending", "queued")
    resume_writing(mailbox.account)
    with frozen_time(database_now()) as clock:
        clock.tick(minutes=5)
        assert run(undo).status == "completed"


@pytest.mark.req("M-16", "M-24")
def test_a_mailbox_that_suggests_only_is_put_back_when_a_person_asks(mailbox: Mailbox) -> None:
    from mail.services.mailboxes.modes import suggest_only

    arrived = received(mailbox, *ARRIVED)
    action, before = done(mailbox, arrived, "archive"), done(mailbox, arrived, "star")
    asked_before = ask_undo(mailbox, before)
    suggest_only(mailbox.account)
    assert run(asked_before).status == "completed"
    undone(mailbox, action)
    assert mailbox.labels(arrived) == set(ARRIVED)


@pytest.mark.req("M-16")
def test_an_undo_names_who_asked_and_why(mailbox: Mailbox) -> None:
    from tenants.audit import SERVICE

    arrived = received(mailbox, *ARRIVED)
    action = done(mailbox, arrived, "archive")
    with firm_scope(mailbox.firm):
        undo = request_undo(action, by=SERVICE, reason="It was needed")
    (entry,) = audit_entries(action.pk)
    assert (entry.act, entry.reason) == ("action.undo", "It was needed")
    assert entry.after["undo_id"] == str(undo.pk)
