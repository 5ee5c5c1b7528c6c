"""Short names for the tests of drafts."""

from __future__ import annotations

import base64
import email.policy
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any

import pytest

from jobs.states import LIVE
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import Draft, MailThread
from mail.services.drafting import write_draft
from mail.services.drafting.task import DraftTask
from mail.services.mailboxes.accounts import own_addresses
from mail.services.queueing import request_sync
from mail.services.syncing.labels import ensure_own_labels
from tenants.scope import firm_scope
from tests.mail.mail_kit import OWNER, Mailbox, drain, jobs, letter, stored
from tests.mail.send_kit import written

QUESTION = "Could you send me the price list, please?"
MARK = "✂️"


def synced(mailbox: Mailbox) -> None:
    """Sync, and run everything that follows."""
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()


def prepared(mailbox: Mailbox) -> Mailbox:
    """Give the mailbox its labels and its first cursor."""
    ensure_own_labels(mailbox.account, mailbox.gmail)
    synced(mailbox)
    return mailbox


def asked(mailbox: Mailbox, text: str = QUESTION, **more: Any) -> str:
    """Let a question arrive, sync, and run what follows; return Gmail's id of the question."""
    more.setdefault("message_id", "<q1@customer.example>")
    arrived = mailbox.receive(letter("Price list", text, **more))
    synced(mailbox)
    return arrived


def in_gmail(mailbox: Mailbox) -> list[EmailMessage]:
    """Return the drafts in Gmail, newest first, parsed by the standard library."""
    return [written(mailbox, one["message"]["id"]) for one in listed(mailbox)]


def listed(mailbox: Mailbox) -> list[Any]:
    """Return the drafts in Gmail, newest first."""
    return list(mailbox.gmail.list_drafts().get("drafts", []))


def edit(mailbox: Mailbox, text: str, number: int = 0) -> None:
    """Change a draft's text as the person does in Gmail."""
    change_draft(mailbox, lambda mail: mail.set_content(text), number)


def change_draft(
    mailbox: Mailbox, change: Callable[[EmailMessage], object], number: int = 0
) -> None:
    """Change anything in a draft as the person does in Gmail."""
    one = listed(mailbox)[number]
    mail = written(mailbox, one["message"]["id"])
    changed = EmailMessage(policy=email.policy.SMTP)
    for name in ("From", "To", "Subject", "In-Reply-To", "References"):
        if mail[name]:
            changed[name] = str(mail[name])
    changed.set_content(mail.get_content())
    change(changed)
    raw = base64.urlsafe_b64encode(changed.as_bytes()).decode()
    drafts = mailbox.gmail._resources.drafts
    body = {"message": {"raw": raw}}
    mailbox.gmail._execute(drafts.update(userId="me", id=one["id"], body=body))


def order(mailbox: Mailbox, instruction: str) -> None:
    """Write an order above the marker of the thread's draft."""
    body = in_gmail(mailbox)[0].get_content()
    edit(mailbox, f"{instruction}\n{body}")


def give_label(mailbox: Mailbox, gmail_message_id: str, key: LabelKey) -> None:
    """Put one of Mailroom's labels on a message as the person does."""
    labels = {one["name"]: one["id"] for one in mailbox.gmail.list_labels()}
    mailbox.gmail.modify_message(gmail_message_id, add=[labels[LABEL_NAMES[key]]])


def state_labels(mailbox: Mailbox, gmail_message_id: str) -> set[LabelKey]:
    """Return Mailroom's labels on a message in Gmail."""
    names = mailbox.labels(gmail_message_id)
    return {key for key, name in LABEL_NAMES.items() if name in names}


def the_thread() -> MailThread:
    """Return the only thread."""
    (thread,) = stored(MailThread)
    found: MailThread = thread
    return found


def versions() -> list[tuple[str, str, int]]:
    """Return origin, status and rework count of each version, oldest first."""
    return [(row.origin, row.status, row.rework_count) for row in stored(Draft)]


def finished(job_type: str) -> list[Any]:
    """Return the results of a type's settled jobs, oldest first."""
    return [job.result for job in jobs(job_type, live=False) if job.status not in LIVE]


def answer_by_hand(mailbox: Mailbox, text: str = "Here it is.") -> str:
    """Let the person answer without the draft; return Gmail's id."""
    assert OWNER in own_addresses(mailbox.account)
    raw = letter("Re: Price list", text, sender=OWNER, to="anna@customer.example",
                 reply_to_id="<q1@customer.example>")  # fmt: skip
    return mailbox.receive(raw, labels=("SENT",))


def begin_draft(mailbox: Mailbox, gmail_message_id: str, text: str) -> None:
    """Let the person begin a draft of their own in the message's thread."""
    mail = EmailMessage(policy=email.policy.SMTP)
    mail["From"], mail["To"] = OWNER, "anna@customer.example"
    mail["Subject"] = "Re: Price list"
    mail["In-Reply-To"] = mail["References"] = "<q1@customer.example>"
    mail.set_content(text)
    thread = mailbox.gmail.get_message(gmail_message_id, fmt="minimal")["threadId"]
    mailbox.gmail.create_draft(mail.as_bytes(), thread)


def while_composing(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> None:
    """Let something happen once, after the next draft is composed and before it is written."""
    compose = write_draft.compose_draft

    def slow(task: DraftTask) -> Draft:
        monkeypatch.setattr(write_draft, "compose_draft", compose)
        composed = compose(task)
        step()
        return composed

    monkeypatch.setattr(write_draft, "compose_draft", slow)


def draft_by_hand(mailbox: Mailbox, gmail_message_id: str) -> dict[str, Any]:
    """Run a manual draft of the message's thread; return the result."""
    from jobs.testing import run_job
    from mail.services.drafting.requests import enqueue_manual_draft

    with firm_scope(mailbox.firm):
        requested = enqueue_manual_draft(mailbox.message(gmail_message_id))
    result: dict[str, Any] = run_job(requested.job).result
    return result


def rule(mailbox: Mailbox, *, category: str) -> None:
    """Store an enabled rule that gives all mail this category. Must run in the firm's scope."""
    from mail.models import Rule

    tree = {"op": "not", "children": [{"type": "sender_domain", "value": "nowhere.example"}]}
    Rule.objects.create(
        firm=mailbox.firm, name="All", category=category, conditions=tree, enabled=True
    )
