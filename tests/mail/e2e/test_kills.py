"""Workers that are killed while they deliver reminders, send mail, and read documents."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.engine.clock import database_now
from jobs.models import Delivery
from jobs.queue import enqueue
from jobs.states import Channel, DeliveryStatus, Status
from mail.gmail.connect import local_gmail
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.models import Document, OutboundMessage, Reminder, ReminderStatus
from mail.services.actions.sweep import sweep_actions
from mail.services.mailboxes.accounts import open_account
from mail.services.reminders.delivery import enqueue_due_reminders
from mail.services.reminders.reminders import create_reminder
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.factories.tenants import new_member
from tests.mail.action_kit import received
from tests.mail.document_kit import WORD, docx, docx_with, pdf, with_attachments
from tests.mail.mail_kit import Mailbox, jobs, only, stored, without_drafts
from tests.mail.send_kit import at_once, check_sent_once, forward
from tests.support.post_office import AFTER, BEFORE, PostOffice
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
]

# Also the worker's threads, so this many mails are on their way when the worker is killed.
EACH = 3
DELIVERY = "reminder_delivery"
READER = b"mail.documents.child"
# A long time, because the machine may be busy with other work.
WAIT_SECONDS = 300
# Reading this takes long enough for the test to find the reader at work.
LONG_PDF = pdf(f"BT /F1 12 Tf ({WORD}) Tj ".encode() + b"(a) Tj " * 100_000 + b"ET")
EMPTY_PARAGRAPHS = 5 * 2**20

# The messages in `make chaos`, and how many workers are killed while they send these.
MESSAGES, KILLS = 60, 6

Start = Callable[..., WorkerProcess]


@pytest.fixture
def start(fleet: Fleet, tmp_path: Path) -> Start:
    """Return what starts a worker with everything that the service has."""

    def run(**environment: str) -> WorkerProcess:
        return fleet.start(
            *("--no-scheduler", "--concurrency", str(EACH)),
            lease_seconds=SHORT_LEASE_SECONDS,
            DJANGO_SETTINGS_MODULE="tests.support.mail_settings",
            VAR_DIR=str(tmp_path),
            **environment,
        )

    return run


@pytest.fixture
def post(tmp_path: Path) -> PostOffice:
    return PostOffice(tmp_path / "post").open()


def make_due(firm: Firm, person: object, titles: list[str]) -> None:
    """Store reminders that were due a minute ago, and enqueue their deliveries."""
    for title in titles:
        create_reminder(
            firm.pk,
            person.pk,
            title=title,
            due_at=database_now() + timedelta(days=1),  # type: ignore[attr-defined]  # a user
        )
    now = database_now()
    with firm_scope(firm):
        Reminder.objects.filter(title__in=titles).update(
            due_at=now - timedelta(minutes=1), planned_at=now - timedelta(hours=1)
        )
    assert enqueue_due_reminders(lambda: None) == len(titles)


@pytest.mark.req("U-03", "J-13")
@pytest.mark.parametrize("where", [BEFORE, AFTER])
def test_a_worker_is_killed_while_it_delivers_reminders(
    firm: Firm, post: PostOffice, start: Start, where: str
) -> None:
    """Each reminder is delivered once; if nobody can tell whether it was, the mail is repeated."""
    person = new_member(firm, Role.VIEWER)
    first = start()
    make_due(firm, person, [f"first {number}" for number in range(EACH)])
    wait_until(lambda: not jobs(DELIVERY), "the first reminders", timeout=WAIT_SECONDS)
    first.tell(signal.SIGTERM)
    assert first.wait_for_exit(WAIT_SECONDS) == 0
    post.stop(where)
    # This worker has run no delivery yet. Otherwise a thread could take two quick ones as its
    # batch, and both would count as begun.
    killed = start()
    make_due(firm, person, [f"second {number}" for number in range(2 * EACH)])
    wait_until(lambda: len(post.waiting) == EACH, "mails on their way")
    killed.kill()
    on_their_way = set(post.waiting)
    post.go_on(where)
    start()
    wait_until(lambda: not jobs(DELIVERY), "all reminders", timeout=WAIT_SECONDS)

    subjects: dict[str, set[str]] = {}
    for message_id, subject in post.taken:
        subjects.setdefault(subject.removeprefix("[Mailroom] Reminder: "), set()).add(message_id)
    # However often a reminder was sent, each mail of it had the same Message-ID.
    assert sorted(subjects) == sorted(one.title for one in stored(Reminder))
    assert {len(ids) for ids in subjects.values()} == {1}
    times = Counter(message_id for message_id, _ in post.taken)
    twice = {message_id for message_id, count in times.items() if count > 1}
    assert twice == (on_their_way if where == AFTER else set())
    assert max(times.values()) <= 2

    assert {one.status for one in stored(Reminder)} == {ReminderStatus.DELIVERED}
    deliveries = jobs(DELIVERY, live=False)
    assert len(deliveries) == 3 * EACH
    assert {job.status for job in deliveries} == {Status.COMPLETED}
    assert sorted(job.deaths for job in deliveries) == [0] * 2 * EACH + [1] * EACH
    kept = Counter(one.status for one in stored(Delivery) if one.channel == Channel.EMAIL)
    assert kept == {DeliveryStatus.DELIVERED: 3 * EACH, DeliveryStatus.SENDING: EACH}


@pytest.mark.req("M-18", "J-13")
def test_workers_are_killed_while_they_send(mailbox: Mailbox, start: Start, chaos: bool) -> None:
    """Each message is in the sent mail once; answers are lost, and the search lags."""
    if not chaos:
        pytest.skip("the kills at each step, in one process, are in tests/mail/services/sending")
    arrived = received(at_once(mailbox))
    messages = [forward(mailbox, arrived, "bob@partner.example") for _ in range(MESSAGES)]
    mailbox.simulator.delay_search(3600)
    for _ in range(KILLS):
        mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.send", times=2)
        goal = len(jobs("outbound.send")) - 2 * EACH
        worker = start()
        wait_until(
            lambda goal=goal: len(jobs("outbound.send")) <= goal,  # type: ignore[misc]
            "some of the messages",
            timeout=WAIT_SECONDS,
        )
        worker.kill()
    start()
    wait_until(lambda: not jobs("outbound.send"), "all messages", timeout=2 * WAIT_SECONDS)
    # A message may need a look if three workers died with it, because nobody knows whether the
    # message caused that.
    sweep_actions()
    assert len(stored(OutboundMessage)) == len(messages)
    assert check_sent_once(mailbox) <= 1 / MESSAGES
    assert mailbox.gmail.list_drafts().get("drafts", []) == []
    assert max(job.deaths for job in jobs("outbound.send", live=False)) >= 1


def freeze_reader(worker: WorkerProcess) -> Path:
    """Wait for the process that reads the long document for the worker, and freeze it."""
    reader = wait_until(lambda: _reader_of_long(worker), "a reader", timeout=WAIT_SECONDS)
    os.kill(int(reader.name), signal.SIGSTOP)
    return reader


def _reader_of_long(worker: WorkerProcess) -> Path | None:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (process / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
            is_reader = READER in (process / "cmdline").read_bytes()
            # The reader's standard input is the file.
            is_long = (process / "fd" / "0").stat().st_size == len(LONG_PDF)
            # The reader sets its limits after it has arranged to end with its parent.
            limits = (process / "limits").read_text("ascii")
            is_ready = re.search(r"Max file size +0 ", limits) is not None
            if int(stat[3]) == worker.session and is_reader and is_long and is_ready:
                return process
    return None


def attach(mailbox: Mailbox, *files: tuple[str, bytes]) -> None:
    """Let a message with these files arrive, and be stored."""
    without_drafts(mailbox)
    mailbox.receive(with_attachments(*files))
    mailbox.store_all()


@pytest.mark.req("U-06", "J-13")
def test_a_worker_is_killed_while_it_reads_documents(mailbox: Mailbox, start: Start) -> None:
    others = [(f"short {number}.pdf", pdf()) for number in range(EACH)]
    attach(mailbox, ("long.pdf", LONG_PDF), *others)
    first = start()
    reader = freeze_reader(first)
    first.kill()
    wait_until(lambda: not reader.exists(), "the end of its reader")
    assert only(stored(Document), size=len(LONG_PDF)).status == "scanned"
    start()
    wait_until(lambda: not jobs(), "every document", timeout=WAIT_SECONDS)

    documents = stored(Document)
    assert {(one.status, one.reason) for one in documents} == {("read", "")}
    assert all(WORD in one.text for one in documents)
    assert all(one.content is None for one in documents)
    for step in ("attachment.fetch", "malware_scan", "text_extract"):
        assert len(jobs(step, live=False)) == len(documents), step
    assert {job.status for job in jobs(live=False)} == {Status.COMPLETED}
    assert max(job.deaths for job in jobs("text_extract", live=False)) == 1


@pytest.mark.req("U-06", "W-02")
def test_a_hostile_document_harms_nobody_beside_it(
    mailbox: Mailbox, other_firm: Firm, start: Start, tmp_path: Path
) -> None:
    store = tmp_path / "gmail.sqlite3"
    neighbour = Mailbox(
        other_firm, open_account(other_firm, "ben@globex.example"), local_gmail(store)
    )
    bomb = docx_with((b"<w:body>", b"<w:body>" + b"<w:p/>" * EMPTY_PARAGRAPHS))
    attach(mailbox, ("endless.pdf", LONG_PDF), ("bomb.docx", bomb))
    # DOCUMENT_SECONDS is long enough for all the other jobs to finish first, on any machine.
    worker = start(DOCUMENT_SECONDS=str(WAIT_SECONDS), DOCUMENT_MEMORY_MB="256")
    # The frozen reader gets no further.
    reader = freeze_reader(worker)

    attach(neighbour, ("prices.docx", docx()))
    plain = [enqueue("noop", firm=one).job_id for one in (mailbox.firm, other_firm) * EACH]
    wait_until(
        lambda: not [job for job in jobs() if job.firm_id == other_firm.pk or job.pk in plain],
        "the neighbour's document and plain jobs",
        timeout=WAIT_SECONDS,
    )
    assert reader.exists()
    # Send the reader the alarm that it has set for the end of its time.
    for number in (signal.SIGALRM, signal.SIGCONT):
        os.kill(int(reader.name), number)
    wait_until(lambda: not jobs(), "the end of the hostile documents", timeout=WAIT_SECONDS)

    ends = {(one.firm_id, one.status, one.reason) for one in stored(Document)}
    assert ends == {
        (mailbox.firm.pk, "unreadable", "time"),
        (mailbox.firm.pk, "unreadable", "memory"),
        (other_firm.pk, "read", ""),
    }
    # One worker ran all jobs, each in its first attempt, and is alive.
    assert worker.alive
    assert len(worker.events("worker.started")) == 1
    over = jobs(live=False)
    assert {(job.status, job.attempts, job.deaths) for job in over} == {(Status.COMPLETED, 1, 0)}
