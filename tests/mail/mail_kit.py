"""Short names for what the mail tests do often."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from jobs.engine.outcomes import Outcome
from jobs.states import LIVE
from mail.gmail.simulator.api import GmailSimulator
from mail.llm.base import Category, Classification, MailContext

if TYPE_CHECKING:
    from jobs.models import JobQueue
    from mail.gmail.client import GmailClient
    from mail.models import MailAccount, Message
    from tenants.models import Firm

OWNER = "owner@acme.example"
ANNA = "Anna Novak <anna@customer.example>"


def letter(
    subject: str = "Question",
    text: str = "Could you send me the price list, please?",
    *,
    sender: str = ANNA,
    to: str = OWNER,
    at: datetime | None = None,
    message_id: str = "",
    reply_to_id: str = "",
    **headers: str,
) -> bytes:
    """Return a message as bytes."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = subject
    mail["Date"] = format_datetime(at or datetime.now(UTC))
    if message_id:
        mail["Message-ID"] = message_id
    if reply_to_id:
        mail["In-Reply-To"] = mail["References"] = reply_to_id
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail.as_bytes()


@dataclass
class Mailbox:
    """One account and the local Gmail behind it."""

    firm: Firm
    account: MailAccount
    simulator: GmailSimulator

    @property
    def gmail(self) -> GmailClient:
        """The product's client of this mailbox."""
        from mail.services.mailboxes.credentials import gmail_of

        return gmail_of(self.account)

    def receive(
        self,
        raw: bytes | None = None,
        *,
        labels: Collection[str] = ("INBOX", "UNREAD"),
        at: datetime | None = None,
    ) -> str:
        """Let a message arrive; return Gmail's id."""
        raw = raw or letter()
        result = self.simulator.import_message(
            self.account.address, raw, labels=labels, internal_date=at
        )
        return result.gmail_message_id

    def receive_many(self, count: int, *, at: datetime | None = None) -> list[str]:
        """Let different messages arrive, each a thread of its own."""
        moment = at or datetime.now(UTC)
        return [
            self.receive(letter(f"Question {number}"), at=moment - timedelta(minutes=number))
            for number in range(count)
        ]

    def labels(self, gmail_message_id: str) -> set[str]:
        """Return the names of the labels a message carries in Gmail."""
        names = {label["id"]: label["name"] for label in self.gmail.list_labels()}
        message = self.gmail.get_message(gmail_message_id, fmt="minimal")
        return {names[label] for label in message.get("labelIds", [])}

    def reload(self) -> MailAccount:
        """Return the account as it stands in the table."""
        from tenants.scope import firm_scope

        with firm_scope(self.firm):
            self.account.refresh_from_db()
        return self.account

    def message(self, gmail_message_id: str) -> Message:
        """Return the stored message with its thread."""
        return only(self.messages(), gmail_message_id=gmail_message_id)

    def messages(self) -> list[Message]:
        """Return the stored messages."""
        from mail.models import Message

        return stored(Message, select_related=("thread",))

    def store_all(self) -> list[Message]:
        """Store everything that arrived, without running jobs; return the messages."""
        from mail.services.syncing.ingest import ingest_message

        page = self.gmail.list_messages("", max_results=500)
        for found in page.get("messages", []):
            ingest_message(self.account, self.gmail, found["id"])
        return self.messages()


@dataclass
class FixedClassifier:
    """Gives the verdict it is told to; counts how often it was asked."""

    category: Category = Category.NEEDS_RESPONSE
    asked: int = 0
    seen: MailContext | None = None
    source: str = "offline"
    labelled: bool = True

    def classify(self, mail: MailContext) -> Classification:
        """Return the verdict."""
        self.asked += 1
        self.seen = mail
        return Classification(
            category=self.category,
            confidence=0.8,
            rationale="told so",
            features=("told",),
            language="en",
            style="business",
            automated=False,
            labelled=self.labelled,
        )


def without_drafts(mailbox: Mailbox) -> None:
    """Switch drafts off, for tests of what comes before them."""
    from mail.models import ReplySettings
    from tenants.scope import firm_scope

    with firm_scope(mailbox.firm):
        ReplySettings.objects.create(firm=mailbox.firm, enabled=False)


def stored(model: type[Any], *, select_related: tuple[str, ...] = ()) -> list[Any]:
    """Return every row of a table, oldest first."""
    from tenants.scope import all_firms

    with all_firms("test"):
        rows = model.objects.order_by("pk")
        return list(rows.select_related(*select_related) if select_related else rows)


def only(rows: list[Any], **values: object) -> Any:
    """Return the one row with these values."""
    (found,) = [
        row for row in rows if all(getattr(row, key) == value for key, value in values.items())
    ]
    return found


def jobs(job_type: str | None = None, *, live: bool = True) -> list[JobQueue]:
    """Return the jobs in the queue, of one type or all."""
    from jobs.models import JobQueue

    return [
        job
        for job in stored(JobQueue)
        if job_type in (None, job.job_type) and (not live or job.status in LIVE)
    ]


def done_before_a_kill(job_type: str, *, refunded: bool = False) -> None:
    """Let the only job of a type do its work, and its worker die before the job's end is stored.

    The job waits for its next attempt, as a rescue leaves it: `refunded` if its handler had ended.
    """
    from jobs.engine.outcomes import Released, Retry
    from jobs.testing.run import claimed_now, performed, settled
    from tests.queue_kit import FAILURE

    (job,) = jobs(job_type)
    held = claimed_now(job.pk)
    performed(held)
    settled(held, Released("rescued", 60) if refunded else Retry(60, FAILURE, died=True))


def drain() -> list[Outcome]:
    """Run jobs one after another until nothing is runnable; return how each ended."""
    from jobs import testing

    return [one.outcome for one in testing.drain().ran]


def drain_later(hours: int = 1) -> None:
    """Run what is due in each of the next hours."""
    from jobs.testing import frozen_time

    with frozen_time() as clock:
        for _ in range(hours):
            clock.tick(hours=1)
            drain()
