"""Each action and its undo, with each error of Gmail's, and killed at each point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import Cancel, Fatal, Retryable, Snooze
from mail.errors import NotUndoable
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.job_handlers.action import (
    ActionPayload,
    UndoPayload,
    WakePayload,
    action,
    undo,
    unsnooze,
)
from mail.models import Action, EventType, MailAccount, MailEvent
from tenants.scope import firm_scope
from tests.mail.action_kit import ARRIVED, ask, ask_undo, current, received
from tests.mail.interrupted import Killed, Steps, watched
from tests.mail.mail_kit import Mailbox, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-15", "M-16")]

MOST_ATTEMPTS = 6


@dataclass(frozen=True)
class Row:
    """An action, its message's labels, and the requests to Gmail of the action and of its undo."""

    action_type: str
    call: str = "messages.modify"
    back: str = "messages.modify"
    labels: tuple[str, ...] = ARRIVED
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.action_type + "-for-good" * bool(self.parameters.get("permanently"))


SNOOZE = Row("snooze", parameters={"amount": 2, "units": "hours"})
ROWS = [
    Row("archive"),
    Row("apply_label", parameters={"label": "Projects"}),
    Row("remove_label", labels=("INBOX", "STARRED"), parameters={"label": "STARRED"}),
    Row("mark_read"),
    Row("mark_unread", labels=("INBOX",)),
    Row("star"),
    Row("unstar", labels=("INBOX", "STARRED")),
    Row("trash", "messages.trash", "messages.untrash", labels=("INBOX", "UNREAD", "STARRED")),
    Row("restore", "messages.untrash", "messages.trash", labels=("TRASH", "UNREAD")),
    Row("delete", "messages.trash", "messages.untrash"),
    SNOOZE,
    Row("delete", "messages.delete", parameters={"permanently": True}),
]
# What Gmail answers, how the attempt ends, and the action's status after it.
FAULTS = {
    "404": (Fault(status=404), "over", "canceled"),
    "401": (Fault(status=401), "again", "executing"),
    "403-rate": (Fault(status=403, reason="userRateLimitExceeded"), "again", "executing"),
    "403-permission": (Fault(status=403, reason="insufficientPermissions"), "over", "failed"),
    "429": (Fault(status=429, retry_after=30), "again", "executing"),
    "503": (Fault(status=503), "again", "executing"),
    "timeout-before": (LOST_REQUEST, "again", "executing"),
    "timeout-after": (LOST_ANSWER, "again", "executing"),
}


@dataclass
class Subject:
    """One message, the action on it, and the attempts that workers make."""

    mailbox: Mailbox
    row: Row
    arrived: str
    action: Action
    undo: Action | None = None

    @classmethod
    def of(cls, mailbox: Mailbox, row: Row, arrived: str = "") -> Subject:
        """Ask for the row's action on this message, which was restored, or on a new message."""
        arrived = arrived or received(mailbox, *row.labels)
        return cls(mailbox, row, arrived, ask(mailbox, arrived, row.action_type, **row.parameters))

    def attempt(self, steps: Steps | None = None) -> str:
        """Make an attempt at the undo, if there is one, else at the action; say how it ended."""
        row = current(self.undo or self.action)
        context: Any = SimpleNamespace(job_id=row.job_id, is_last_attempt=False)
        if self.undo is None:
            payload = ActionPayload(**self._envelope, action_id=row.pk)
            return _ended(steps, lambda: action(payload, context))
        undoing = UndoPayload(**self._envelope, original_action_id=self.action.pk)
        return _ended(steps, lambda: undo(undoing, context))

    def wake(self, steps: Steps | None = None) -> str:
        """Make an attempt at ending the snooze; say how it ended."""
        payload = WakePayload(
            **self._envelope,
            message_id=self.action.message_id,
            action_id=self.action.pk,
            snooze_label_id=(current(self.action).undo_hint or {})["snooze_label_id"],
        )
        context: Any = SimpleNamespace()
        return _ended(steps, lambda: unsnooze(payload, context))

    @property
    def _envelope(self) -> dict[str, Any]:
        account = self.mailbox.account
        return {"tenant_id": account.firm_id, "account_id": account.pk}

    def finish(self) -> None:
        """Make attempts until the action or undo is over."""
        for _ in range(MOST_ATTEMPTS):
            with firm_scope(self.mailbox.firm):
                # `held_until` is a time of Python's clock, which `frozen_time` does not move.
                MailAccount.objects.update(held_until=None)
            if self.attempt() == "over":
                return
        raise AssertionError(f"{self.row} goes round and round")

    def ask_undo(self) -> None:
        """Ask for the action to be taken back."""
        self.undo = ask_undo(self.mailbox, current(self.action))

    @property
    def labels(self) -> set[str]:
        """The message's labels in Gmail."""
        return self.mailbox.labels(self.arrived)

    @property
    def status(self) -> str:
        """The status of the undo, if there is one, else of the action."""
        return current(self.undo or self.action).status

    def check_done(self) -> bool:
        """Check that the action was done; say whether it can be taken back."""
        assert self.status == "completed", self.row
        if not self.row.parameters.get("permanently"):
            assert self.labels != set(self.row.labels), self.row
            return True
        assert self.arrived not in ids(self.mailbox)
        with pytest.raises(NotUndoable):
            ask_undo(self.mailbox, current(self.action))
        return False

    def check_undone(self) -> None:
        """Check that the message has exactly the labels that it had."""
        assert self.status == "completed", self.row
        assert self.labels == set(self.row.labels), self.row


def _ended(steps: Steps | None, work: Callable[[], object]) -> str:
    try:
        with watched(steps or Steps()):
            work()
    except (Killed, Retryable, Snooze):
        return "again"
    except (Fatal, Cancel):
        pass
    return "over"


def ids(mailbox: Mailbox) -> set[str]:
    page = mailbox.gmail.list_messages("", max_results=500, everywhere=True)
    return {one["id"] for one in page.get("messages", [])}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_action_under_the_error_and_undone_under_it(mailbox: Mailbox, fault: str) -> None:
    ordered, end, status = FAULTS[fault]
    undone: dict[tuple[str, ...], str] = {}
    for row in ROWS:
        subject = Subject.of(mailbox, row, undone.get(row.labels, ""))
        mailbox.simulator.order_fault(ordered, method=row.call)
        assert (subject.attempt(), subject.status) == (end, status), row
        if status == "executing":
            subject.finish()
        else:
            # The canceled action has changed nothing, so the person asks for another one.
            assert subject.labels == set(row.labels), row
            subject.action = ask(mailbox, subject.arrived, row.action_type, **row.parameters)
            subject.finish()
        if not subject.check_done():
            continue
        subject.ask_undo()
        mailbox.simulator.order_fault(ordered, method=row.back)
        assert subject.attempt() == end, row
        if status == "executing":
            subject.finish()
        else:
            assert subject.status == "failed", row
            # A failed undo can be asked for again.
            subject.ask_undo()
            subject.finish()
        subject.check_undone()
        undone[row.labels] = subject.arrived


def only_some(row: Row, some: set[str], chaos: bool) -> None:
    """Skip an action whose requests to Gmail are like another's, except in `make chaos`."""
    if not chaos and str(row) not in some:
        pytest.skip("its requests to Gmail are like another action's")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_killed_at_each_point_it_is_done_once_and_undone_exactly(
    mailbox: Mailbox, row: Row, chaos: bool
) -> None:
    """The suite kills at each request to Gmail; `make chaos` also before each SQL statement."""
    only_some(row, {"archive", "trash", "restore", "snooze", "delete-for-good"}, chaos)
    at, killed, undone = 0, True, ""
    while killed:
        killed = False
        subject = Subject.of(mailbox, row, undone)
        for which in ("action", "undo"):
            if subject.attempt(Steps(at=at, only_requests=not chaos)) == "again":
                killed = True
                subject.finish()
            if which == "undo":
                subject.check_undone()
                undone = subject.arrived
            elif subject.check_done():
                subject.ask_undo()
            else:
                break
        at += 1
    assert at > 2


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_overtaken_at_any_request_it_is_done_once_and_undone_exactly(
    mailbox: Mailbox, row: Row, chaos: bool
) -> None:
    """A worker stands still, another one does its work, and then the first goes on."""
    only_some(row, {"archive", "snooze"}, chaos)
    at, stood, undone = 0, True, ""
    while stood:
        stood = False
        subject = Subject.of(mailbox, row, undone)
        for which in ("action", "undo"):
            steps = Steps(at=at, act=subject.finish, only_requests=True)
            subject.attempt(steps)
            stood |= steps.acted
            if which == "undo":
                subject.check_undone()
                undone = subject.arrived
            elif subject.check_done():
                subject.ask_undo()
            else:
                break
        at += 1
    completed = [one for one in stored(MailEvent) if one.event_type == EventType.ACTION_COMPLETED]
    assert len(completed) == at
    assert at > 2


@pytest.mark.req("M-17")
def test_a_wake_killed_at_each_point_brings_the_message_back_once(
    mailbox: Mailbox, chaos: bool
) -> None:
    at, killed = 0, True
    while killed:
        subject = Subject.of(mailbox, SNOOZE)
        subject.finish()
        killed = subject.wake(Steps(at=at, only_requests=not chaos)) == "again"
        if killed:
            subject.wake()
        assert subject.labels == set(ARRIVED)
        at += 1
    assert {one.wake_at for one in stored(Action)} == {None}
    assert len([one for one in stored(MailEvent) if one.event_type == EventType.UNSNOOZED]) == at
    assert at > 2
