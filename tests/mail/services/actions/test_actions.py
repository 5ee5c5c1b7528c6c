"""Actions in Gmail: every type, the undo hint, retries and refusals."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jobs.queue import cancel, enqueue
from mail.errors import ActionInvalid, RowGone
from mail.gmail.errors import GmailBadRequest, GmailConflict, GmailUnavailable
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import Action, ActionStatus, ActionType, EventType, MailEvent, MailLabel
from mail.services.actions.actions import complete_action, fail_action, request_action
from mail.services.actions.perform import perform_action
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, jobs, letter, only, stored

pytestmark = pytest.mark.django_db

ARRIVED = ("INBOX", "UNREAD")


def ask(
    mailbox: Mailbox,
    arrived: str,
    action_type: ActionType,
    parameters: dict[str, Any] | None = None,
) -> Action:
    with firm_scope(mailbox.firm):
        return request_action(mailbox.message(arrived), action_type, parameters)


def received(mailbox: Mailbox, *labels: str) -> str:
    arrived = mailbox.receive(letter(f"With {labels}"), labels=labels)
    mailbox.store_all()
    return arrived


def current(action: Action) -> Action:
    found: Action = only(stored(Action), pk=action.pk)
    return found


def perform(mailbox: Mailbox, action: Action) -> dict[str, Any]:
    return perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=uuid4())


@pytest.mark.req("M-15")
@pytest.mark.parametrize(
    ("action_type", "before", "after", "inverse", "add", "remove"),
    [
        ("archive", ARRIVED, {"UNREAD"}, "apply_label", ["INBOX"], []),
        ("mark_read", ARRIVED, {"INBOX"}, "mark_unread", ["UNREAD"], []),
        ("mark_unread", ("INBOX",), {"INBOX", "UNREAD"}, "mark_read", [], ["UNREAD"]),
        ("star", ("INBOX",), {"INBOX", "STARRED"}, "unstar", [], ["STARRED"]),
        ("unstar", ("INBOX", "STARRED"), {"INBOX"}, "star", ["STARRED"], []),
    ],
)
def test_an_action_changes_labels_and_notes_the_way_back(
    mailbox: Mailbox,
    action_type: str,
    before: tuple[str, ...],
    after: set[str],
    inverse: str,
    add: list[str],
    remove: list[str],
) -> None:
    arrived = received(mailbox, *before)
    action = ask(mailbox, arrived, ActionType(action_type))
    result = perform(mailbox, action)
    assert result == {"action_id": str(action.pk), "changed": True}
    assert mailbox.labels(arrived) == after
    assert set(mailbox.message(arrived).labels) == after
    done = current(action)
    assert done.status == ActionStatus.COMPLETED
    assert done.executed_at is not None
    assert done.pre_image == {"labels": sorted(before)}
    hint = done.undo_hint or {}
    assert hint["inverse_action"] == inverse
    assert hint["inverse_parameters"] == {"add_labels": add, "remove_labels": remove}
    assert hint["pre_labels"] == sorted(before)
    assert hint["pre_in_inbox"] is True
    event = only(stored(MailEvent), event_type=EventType.ACTION_COMPLETED)
    assert event.detail["action_id"] == str(action.pk)


@pytest.mark.req("M-15")
@pytest.mark.parametrize(
    ("action_type", "labels"),
    [
        ("archive", ("UNREAD",)),
        ("mark_read", ("INBOX",)),
        ("mark_unread", ARRIVED),
        ("star", ("INBOX", "STARRED")),
        ("unstar", ("INBOX",)),
    ],
)
def test_what_changed_nothing_has_nothing_to_take_back(
    mailbox: Mailbox, action_type: str, labels: tuple[str, ...]
) -> None:
    arrived = received(mailbox, *labels)
    action = ask(mailbox, arrived, ActionType(action_type))
    assert perform(mailbox, action)["changed"] is False
    hint = current(action).undo_hint or {}
    assert hint["inverse_action"] == "none"
    assert hint["inverse_parameters"] == {"add_labels": [], "remove_labels": []}


@pytest.mark.req("M-15")
def test_trash_and_restore_note_the_labels_they_cost(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.TRASH)
    perform(mailbox, action)
    hint = current(action).undo_hint or {}
    assert "TRASH" in mailbox.labels(arrived)
    assert hint["inverse_action"] == "restore"
    lost = {"INBOX", "UNREAD"} - mailbox.labels(arrived)
    assert hint["inverse_parameters"] == {"add_labels": sorted(lost), "remove_labels": []}
    restore = ask(mailbox, arrived, ActionType.RESTORE)
    perform(mailbox, restore)
    assert "TRASH" not in mailbox.labels(arrived)
    assert (current(restore).undo_hint or {})["inverse_action"] == "trash"


@pytest.mark.req("M-15")
def test_a_label_is_made_when_it_is_missing(mailbox: Mailbox) -> None:
    first, second = received(mailbox, "INBOX"), received(mailbox, "UNREAD")
    for arrived in (first, second):
        perform(
            mailbox, ask(mailbox, arrived, ActionType.APPLY_LABEL, {"label": "Projekty/Hřiště"})
        )
        assert "Projekty/Hřiště" in mailbox.labels(arrived)
    assert [label.name for label in stored(MailLabel)] == ["Projekty/Hřiště"]


@pytest.mark.req("M-15")
def test_a_label_is_found_by_id_and_by_name_in_any_case(mailbox: Mailbox) -> None:
    label_id = mailbox.gmail.create_label("Účty")["id"]
    by_id, by_name = received(mailbox, "INBOX"), received(mailbox, "UNREAD")
    perform(mailbox, ask(mailbox, by_id, ActionType.APPLY_LABEL, {"label": label_id}))
    perform(mailbox, ask(mailbox, by_name, ActionType.APPLY_LABEL, {"label": "ÚČTY"}))
    assert "Účty" in mailbox.labels(by_id) & mailbox.labels(by_name)


@pytest.mark.req("M-15")
def test_a_label_of_gmails_own_is_found_in_any_case(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    perform(mailbox, ask(mailbox, arrived, ActionType.APPLY_LABEL, {"label": "Starred"}))
    assert mailbox.labels(arrived) == {*ARRIVED, "STARRED"}


@pytest.mark.req("M-15")
def test_removing_a_label_nobody_has_changes_nothing(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "INBOX")
    action = ask(mailbox, arrived, ActionType.REMOVE_LABEL, {"label": "Never made"})
    assert perform(mailbox, action)["changed"] is False
    assert stored(MailLabel) == []


@pytest.mark.req("M-15")
def test_a_label_deleted_in_gmail_is_made_again(mailbox: Mailbox) -> None:
    first, second = received(mailbox, "INBOX"), received(mailbox, "UNREAD")
    perform(mailbox, ask(mailbox, first, ActionType.APPLY_LABEL, {"label": "Projects"}))
    (known,) = stored(MailLabel)
    users = mailbox.gmail._resources.labels
    mailbox.gmail._execute(users.delete(userId="me", id=known.gmail_label_id))
    perform(mailbox, ask(mailbox, second, ActionType.APPLY_LABEL, {"label": "Projects"}))
    assert mailbox.labels(second) == {"UNREAD", "Projects"}


@pytest.mark.req("M-15")
@pytest.mark.parametrize(("status", "reason"), [(400, "invalidArgument"), (409, "aborted")])
def test_a_label_that_gmail_refuses_to_make_fails_only_its_own_action(
    mailbox: Mailbox, status: int, reason: str
) -> None:
    arrived = received(mailbox, *ARRIVED)
    star = ask(mailbox, arrived, ActionType.STAR)
    refused = ask(mailbox, arrived, ActionType.APPLY_LABEL, {"label": "Projects"})
    refusal = Fault(status=status, reason=reason)
    mailbox.simulator.order_fault(refusal, method="labels.create", times=2)
    assert perform(mailbox, star)["changed"]
    assert mailbox.labels(arrived) == {*ARRIVED, "STARRED"}
    with pytest.raises((GmailBadRequest, GmailConflict)):
        perform(mailbox, refused)


@pytest.mark.req("M-15")
@pytest.mark.parametrize(
    ("action_type", "parameters"),
    [
        ("apply_label", {}),
        ("apply_label", {"label": ""}),
        ("apply_label", {"label": "   "}),
        ("remove_label", {"label": 7}),
        ("apply_label", {"label": "x" * 300}),
        ("apply_label", {"label": "SENT"}),
        ("remove_label", {"label": "draft"}),
        ("apply_label", {"label": "A", "color": "red"}),
        ("archive", {"label": "A"}),
        ("apply_label", {"label": "a\x00b"}),
        ("apply_label", {"label": "a\nb"}),
        ("remove_label", {"label": "\x1b[31m"}),
        ("forward", {"to": ["bob@partner.example"], "note": "a\x00b"}),
        ("forward", {"to": ["bob@partner.example"], "subject": "a\r\nBcc: eve@else.example"}),
        ("forward", {"to": ["bob@partner.example\r\nBcc: eve@else.example"]}),
        ("auto_reply", {"body": "\x00"}),
        ("auto_reply", {"body_html": "<p>\x00</p>"}),
        ("snooze", {"until": "2099-01-01\x0000:00:00Z"}),
    ],
)
def test_unusable_parameters_are_refused_before_anything_is_stored(
    mailbox: Mailbox, action_type: str, parameters: dict[str, Any]
) -> None:
    arrived = received(mailbox, "INBOX")
    with pytest.raises(ActionInvalid):
        ask(mailbox, arrived, ActionType(action_type), parameters)
    assert stored(Action) == []
    assert jobs("action.gmail") == []


@pytest.mark.req("M-15")
def test_the_id_of_a_label_that_is_gone_is_no_name_for_a_new_one(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "INBOX")
    action = ask(mailbox, arrived, ActionType.APPLY_LABEL, {"label": "Label_9876"})
    with pytest.raises(ActionInvalid, match="Label_9876"):
        perform(mailbox, action)


@pytest.mark.req("M-15")
def test_a_lost_answer_is_repeated_with_the_first_state_kept(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    job_id = uuid4()
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    with pytest.raises(GmailUnavailable):
        perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=job_id)
    assert current(action).status == ActionStatus.EXECUTING
    assert mailbox.labels(arrived) == {"UNREAD"}
    perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=job_id)
    done = current(action)
    assert done.status == ActionStatus.COMPLETED
    assert (done.undo_hint or {})["inverse_parameters"]["add_labels"] == ["INBOX"]


@pytest.mark.req("M-15")
def test_an_executing_action_belongs_to_its_job_alone(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    mailbox.simulator.order_fault(Fault(status=500), method="messages.modify")
    with pytest.raises(GmailUnavailable):
        perform(mailbox, action)
    assert perform(mailbox, action) == {"skipped": True, "reason": "The action is executing"}
    assert "INBOX" in mailbox.labels(arrived)


@pytest.mark.req("M-15")
@pytest.mark.parametrize(
    "status",
    [
        ActionStatus.COMPLETED,
        ActionStatus.CANCELED,
        ActionStatus.REJECTED,
        ActionStatus.APPROVED_PENDING,
    ],
)
def test_only_what_is_queued_is_executed(mailbox: Mailbox, status: ActionStatus) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    with firm_scope(mailbox.firm):
        Action.objects.update(status=status)
    assert perform(mailbox, action)["skipped"] is True
    assert current(action).status == status
    assert "INBOX" in mailbox.labels(arrived)


@pytest.mark.req("M-15")
def test_a_failed_action_can_be_tried_again_by_its_own_job(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    job_id = uuid4()
    mailbox.simulator.order_fault(Fault(status=500), method="messages.modify")
    with pytest.raises(GmailUnavailable):
        perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=job_id)
    fail_action(mailbox.firm.pk, action.pk, "Gmail was away")
    assert (current(action).status, current(action).error) == ("failed", "Gmail was away")
    assert perform(mailbox, action)["skipped"] is True
    perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=job_id)
    assert (current(action).status, current(action).error) == ("completed", "")


@pytest.mark.req("M-15")
def test_an_action_on_a_message_deleted_in_gmail_is_canceled(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    messages = mailbox.gmail._resources.messages
    mailbox.gmail._execute(messages.delete(userId="me", id=arrived))
    assert perform(mailbox, action)["skipped"] is True
    assert current(action).status == "canceled"


@pytest.mark.req("M-04", "M-15")
def test_an_action_does_not_bring_back_labels_that_a_sync_has_taken_away(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = received(mailbox, *ARRIVED)
    sync_mailbox(mailbox.account, mailbox.gmail)
    action = ask(mailbox, arrived, ActionType.STAR)

    def late(*arguments: Any) -> dict[str, Any]:
        # Between Gmail's answer and the store the person takes the star off again.
        mailbox.gmail.modify_message(arrived, remove=["STARRED"])
        sync_mailbox(mailbox.account, mailbox.gmail)
        return complete_action(*arguments)

    monkeypatch.setattr("mail.services.actions.change_labels.complete_action", late)
    perform(mailbox, action)
    assert "STARRED" not in mailbox.message(arrived).labels


@pytest.mark.req("M-15", "T-02")
def test_an_action_of_another_mailbox_is_not_found(mailbox: Mailbox) -> None:
    with pytest.raises(RowGone):
        perform_action(mailbox.account, mailbox.gmail, uuid4(), job_id=uuid4())


@pytest.mark.req("M-15")
@pytest.mark.parametrize("name", ["CATEGORY_PROMOTIONS", "category_promotions"])
def test_the_categories_of_gmail_are_labels_like_others(mailbox: Mailbox, name: str) -> None:
    arrived = received(mailbox, "INBOX", "CATEGORY_PROMOTIONS")
    perform(mailbox, ask(mailbox, arrived, ActionType.REMOVE_LABEL, {"label": name}))
    assert mailbox.labels(arrived) == {"INBOX"}
    perform(mailbox, ask(mailbox, arrived, ActionType.APPLY_LABEL, {"label": name}))
    assert mailbox.labels(arrived) == {"INBOX", "CATEGORY_PROMOTIONS"}


@pytest.mark.req("M-15", "M-16", "M-17", "J-20")
@pytest.mark.parametrize(
    ("job_type", "named"),
    [
        ("action.gmail", "action_id"),
        ("undo.action", "original_action_id"),
        ("unsnooze.gmail", "action_id"),
    ],
)
def test_a_job_that_anybody_enqueues_waits_for_its_thread(
    mailbox: Mailbox, job_type: str, named: str
) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, ActionType.ARCHIVE)
    message = mailbox.message(arrived)
    payload = {"account_id": mailbox.account.pk, named: action.pk}
    if job_type == "unsnooze.gmail":
        payload["message_id"] = message.pk
    for job in jobs(job_type):
        cancel(job)

    job = enqueue(job_type, payload, firm=mailbox.firm).job
    assert job.lock_key == f"gmail-thread:{message.thread_id}"

    unknown = enqueue(job_type, {**payload, named: uuid4()}, firm=mailbox.firm).job
    assert unknown.lock_key not in ("", job.lock_key)
