"""Short names for the tests of actions and undos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.mail.mail_kit import Mailbox, jobs, letter, only, stored

if TYPE_CHECKING:
    from mail.models import Action

ARRIVED = ("INBOX", "UNREAD")


def received(mailbox: Mailbox, *labels: str, **headers: str) -> str:
    """Let a message arrive with these labels, and store it; return Gmail's id."""
    number = len(mailbox.messages())
    arrived = mailbox.receive(letter(f"Message {number}", **headers), labels=labels or ARRIVED)
    store(mailbox, arrived)
    return arrived


def store(mailbox: Mailbox, arrived: str) -> None:
    """Store the message, and cancel the job that judges it: that would hold the thread's lock."""
    from jobs.queue import cancel
    from mail.services.syncing.ingest import ingest_message

    ingest_message(mailbox.account, mailbox.gmail, arrived)
    for job in jobs("classify"):
        cancel(job)


def ask(mailbox: Mailbox, arrived: str, action_type: str, **parameters: Any) -> Action:
    """Ask for an action on the message."""
    from mail.models import ActionType
    from mail.services.actions.actions import request_action
    from tenants.scope import firm_scope

    with firm_scope(mailbox.firm):
        return request_action(
            mailbox.message(arrived), ActionType(action_type), parameters, needs_approval=False
        )


def ask_undo(mailbox: Mailbox, action: Action) -> Action:
    """Ask for the action to be undone."""
    from mail.services.actions.undo import request_undo
    from tenants.scope import firm_scope

    with firm_scope(mailbox.firm):
        return request_undo(action)


def current(action: Action | UUID) -> Action:
    """Return the action as it is stored."""
    from mail.models import Action

    pk = action if isinstance(action, UUID) else action.pk
    found: Action = only(stored(Action), pk=pk)
    return found


def run(action: Action) -> Any:
    """Run one attempt of the action's own job; return the job as it is stored afterwards."""
    from jobs.testing import run_job

    job_id = current(action).job_id
    assert job_id is not None
    return run_job(job_id)


def done(mailbox: Mailbox, arrived: str, action_type: str, **parameters: Any) -> Action:
    """Ask for an action and run its job; return the action."""
    action = ask(mailbox, arrived, action_type, **parameters)
    job = run(action)
    assert job.status == "completed", job.last_error
    return current(action)


def undone(mailbox: Mailbox, action: Action) -> Action:
    """Ask for an undo and run its job; return the undo."""
    undo = ask_undo(mailbox, action)
    if current(undo).status == "queued":
        job = run(undo)
        assert job.status == "completed", job.last_error
    return current(undo)


def in_gmail(mailbox: Mailbox, arrived: str, *, add: str = "", remove: str = "") -> None:
    """Change a message's labels as its owner does."""
    mailbox.gmail.modify_message(
        arrived, add=[add] if add else [], remove=[remove] if remove else []
    )
