"""Random histories of a mailbox, its notifications and its syncs: one step at a time.

The owner's steps always succeed. Mailroom's may meet faults, too few quota units and deaths; a step
that fails leaves its job where it was, as the queue would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from mail.errors import MailboxWaits
from mail.gmail.errors import GmailError
from mail.gmail.push import Notification
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.gmail.simulator.quota import Quota
from tests.mail.mail_kit import Mailbox, letter, stored

if TYPE_CHECKING:
    from tenants.models import Firm

Step = tuple[Any, ...]

ARRIVE_IN = ("INBOX", "SENT", "SPAM", "STARRED", "DRAFT")
LABELS = ("INBOX", "UNREAD", "STARRED", "TRASH", "SPAM", "IMPORTANT")
WORK = ("sync", "scan", "ingest", "backfill", "work")
DELIVERIES = ("once", "twice", "shuffled", "lost", "again")
METHODS = ("history.list", "messages.list", "messages.get", "labels.list", "getProfile")
FAULTS = {
    "401": Fault(401),
    "403": Fault(403, "userRateLimitExceeded"),
    "429": Fault(429, retry_after=1),
    "500": Fault(500),
    "503": Fault(503),
    "timeout": LOST_REQUEST,
    "lost answer": LOST_ANSWER,
}
TOPIC = "projects/acme/topics/mirror"


class PowerCut(Exception):
    """A worker died."""


@dataclass
class World:
    """A mailbox, the account that mirrors it, and what has happened to both."""

    mailbox: Mailbox
    cursors: list[int] = field(default_factory=list)
    pushed: list[Notification] = field(default_factory=list)

    @classmethod
    def of(cls, firm: Firm, mailbox: Mailbox) -> World:
        """Return a mailbox of the firm's that is new and watched."""
        from mail.services.mailboxes.accounts import open_account

        account = open_account(firm, f"{uuid4().hex}@acme.example")
        fresh = Mailbox(firm, account, mailbox.simulator)
        fresh.simulator.subscribe(TOPIC, "", audience="a", service_account="s")
        fresh.gmail.watch(TOPIC, [])
        return cls(fresh)

    def play(self, step: Step) -> None:
        """Do what the step says, and note the cursor."""
        if not self._happens_in_gmail(step):
            self._is_done_by_mailroom(step)
        cursor = self.mailbox.reload().history_cursor
        if cursor is not None:
            self.cursors.append(cursor)

    def _happens_in_gmail(self, step: Step) -> bool:
        match step:
            case "receive", label:
                self.mailbox.receive(letter(f"Letter {uuid4()}"), labels=(label,))
            case ("add" | "remove") as what, which, label:
                if one := self._chosen(which):
                    self.mailbox.gmail.modify_message(one, **{what: [label]})
            case "delete", which:
                if one := self._chosen(which):
                    delete(self.mailbox, one)
            case ("expire",):
                self.mailbox.simulator.expire_history(self.mailbox.account.address)
            case _:
                return False
        return True

    def _is_done_by_mailroom(self, step: Step) -> None:
        match step:
            case "push", how, seed:
                self._push(how, seed)
            case "crash", where:
                self._crash(where)
            case "fault", what, kind, method, times:
                address = self.mailbox.account.address
                self.mailbox.simulator.order_fault(
                    FAULTS[kind], method=method, address=address, times=times
                )
                self._try(what)
                self.mailbox.simulator.clear_faults()
            case "quota", what, units:
                self.mailbox.simulator.order_quota(Quota(user_units=units, seconds=10**9))
                self._try(what)
                self.mailbox.simulator.order_quota(None)
            case (what,):
                self._try(what)

    def settle(self) -> None:
        """Do what is left, as the next scheduled sync would."""
        for what in ("work", "sync", "ingest", "sync"):
            self.play((what,))

    def check(self) -> None:
        """Check that the store equals the mailbox, and that the cursor never went back."""
        check_equal(self.mailbox)
        assert self.cursors == sorted(self.cursors)

    def _try(self, what: str) -> None:
        # As the queue does, a later step may try a failed step again.
        with suppress(GmailError, MailboxWaits):
            self._do()[what]()

    def _do(self) -> dict[str, Callable[[], Any]]:
        from mail.services.syncing.sync import sync_mailbox

        account, gmail = self.mailbox.account, self.mailbox.gmail
        return {
            "sync": lambda: sync_mailbox(account, gmail),
            "scan": lambda: sync_mailbox(account, gmail, force_full=True),
            "ingest": lambda: run_ingests(self.mailbox),
            "backfill": self._backfill,
            "work": self._work,
        }

    def _backfill(self) -> None:
        from mail.services.queueing import request_backfill
        from tenants.scope import firm_scope

        with firm_scope(self.mailbox.firm):
            request_backfill(self.mailbox.account)

    def _work(self) -> None:
        """Run the syncs and the pages of backfills that wait."""
        from mail.services.syncing.sync import backfill_page, sync_mailbox

        account, gmail = self.mailbox.account, self.mailbox.gmail
        while waiting := waiting_jobs(self.mailbox, "sync", "backfill.gmail"):
            for job_id, job_type, payload in waiting:
                if job_type == "sync":
                    sync_mailbox(account, gmail, force_full=payload["force_full"])
                else:
                    names = ("query", "page_token", "history_id")
                    backfill_page(account, gmail, **{name: payload[name] for name in names})
                complete(job_id)

    def _push(self, how: str, seed: int) -> None:
        from mail.services.syncing.push import take_notification

        waiting = [
            Notification(address, history_id, f"{address}:{history_id}"[-64:])
            for address, history_id in self.mailbox.simulator.waiting_pushes()
        ]
        self.mailbox.simulator.deliver_pushes(lose=True)
        pushes = {"lost": [], "twice": waiting * 2, "again": self.pushed}.get(how, waiting)
        if how in ("shuffled", "again"):
            pushes = Random(seed).sample(pushes, len(pushes))
        for notification in pushes[:20]:
            take_notification(notification)
        self.pushed = (self.pushed + waiting)[-20:]
        assert len(waiting_jobs(self.mailbox, "sync")) <= 1

    def _chosen(self, which: int) -> str | None:
        """Return Gmail's id of one of the messages that are no drafts."""
        drafts = self.mailbox.gmail.list_messages(
            "", max_results=500, label_id="DRAFT", everywhere=True
        )
        page = self.mailbox.gmail.list_messages("", max_results=500, everywhere=True)
        hidden = {one["id"] for one in drafts.get("messages", [])}
        there = sorted({one["id"] for one in page.get("messages", [])} - hidden)
        return there[which % len(there)] if there else None

    def _crash(self, where: str) -> None:
        """Let a worker die before it commits the cursor's move, or the end of a job."""
        if where == "sync":
            with dying_before_the_cursor_moves(), pytest.raises(PowerCut):
                self._do()["sync"]()
        else:
            run_ingests(self.mailbox, dies=True)


@contextmanager
def dying_before_the_cursor_moves() -> Iterator[None]:
    """Let every sync die after a page was applied."""

    def die(*_: object) -> None:
        raise PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mail.services.syncing.sync._advance_cursor", die)
        patch.setattr("mail.services.syncing.sync._seed_cursor", die)
        yield


def random_step(random: Random) -> Step:
    """Return a step; the owner's are the most frequent."""
    kind = random.randrange(20)
    if kind < 5:
        return "receive", random.choice(ARRIVE_IN)
    if kind < 9:
        return random.choice(("add", "remove")), random.randrange(1000), random.choice(LABELS)
    if kind < 10:
        return "delete", random.randrange(1000)
    if kind < 13:
        return "push", random.choice(DELIVERIES), random.randrange(1000)
    if kind < 17:
        return (random.choice(WORK),)
    if kind < 18:
        what, method = random.choice(WORK), random.choice(METHODS)
        return "fault", what, random.choice(sorted(FAULTS)), method, random.randint(1, 3)
    if kind < 19:
        return "quota", random.choice(WORK), random.randint(0, 40)
    return random.choice((("crash", "sync"), ("crash", "ingest"), ("expire",)))


def waiting_jobs(mailbox: Mailbox, *job_types: str) -> list[tuple[Any, str, dict[str, Any]]]:
    """Return id, type and payload of the mailbox's pending jobs of these types."""
    from jobs.models import JobQueue
    from tenants.scope import all_firms

    with all_firms("test"):
        jobs = JobQueue.objects.filter(
            job_type__in=job_types,
            status="pending",
            payload__account_id=str(mailbox.account.pk),
        )
        return [(job.pk, job.job_type, job.payload) for job in jobs.order_by("pk")]


def complete(job_id: Any) -> None:
    """Mark the job as completed."""
    from jobs.models import JobQueue
    from tenants.scope import all_firms

    with all_firms("test"):
        JobQueue.objects.filter(pk=job_id).update(status="completed", ready=False, live_key=None)


def run_ingests(mailbox: Mailbox, *, dies: bool = False) -> None:
    """Run the waiting ingest jobs only; with `dies`, leave these jobs waiting after their work."""
    from mail.services.syncing.ingest import ingest_message, ingest_page

    for job_id, _, payload in waiting_jobs(mailbox, "ingest.gmail", "ingest.page.gmail"):
        if "gmail_message_ids" in payload:
            ingest_page(mailbox.account, mailbox.gmail, payload["gmail_message_ids"])
        else:
            ingest_message(mailbox.account, mailbox.gmail, payload["gmail_message_id"])
        if not dies:
            complete(job_id)


def delete(mailbox: Mailbox, gmail_message_id: str) -> None:
    """Delete a message for good."""
    messages = mailbox.gmail._resources.messages
    mailbox.gmail._execute(messages.delete(userId="me", id=gmail_message_id))


def in_gmail(mailbox: Mailbox) -> dict[str, set[str]]:
    """Return the labels of all messages in Gmail, spam and trash too."""
    page = mailbox.gmail.list_messages("", max_results=500, everywhere=True)
    return {
        one["id"]: set(mailbox.gmail.get_message(one["id"], fmt="minimal").get("labelIds", []))
        for one in page.get("messages", [])
    }


def in_store(mailbox: Mailbox) -> dict[str, set[str]]:
    """Return the labels of all messages that are stored, each of them once."""
    messages = [one for one in mailbox.messages() if one.account_id == mailbox.account.pk]
    found = {message.gmail_message_id: set(message.labels) for message in messages}
    assert len(found) == len(messages)
    return found


def check_equal(mailbox: Mailbox) -> None:
    """Check that inbox and sent mail are stored, and that each stored message is as in Gmail."""
    from mail.models import MailThread

    gmail, store = in_gmail(mailbox), in_store(mailbox)
    hidden = {"TRASH", "SPAM"}
    read = {"INBOX", "SENT"}
    wanted = {one for one, labels in gmail.items() if labels & read and not labels & hidden}
    assert wanted <= store.keys()
    assert store == {one: gmail.get(one) for one in store}
    threads = [one for one in stored(MailThread) if one.account_id == mailbox.account.pk]
    assert all(thread.message_count for thread in threads)
    assert sum(thread.message_count for thread in threads) == len(store)
