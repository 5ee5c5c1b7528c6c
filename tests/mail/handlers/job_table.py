"""Every job type of the design, and how a job of the type is enqueued in a mailbox with mail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_django import Settings

from jobs.models import JobQueue
from jobs.operations.bulk import BulkSpec, start
from jobs.operations.endpoints import create_endpoint
from jobs.queries.bulk import Selection
from jobs.queue import enqueue
from jobs.states import BulkOperation, Category, Channel
from jobs.testing import frozen_time, run_job
from mail.labels import LabelKey
from mail.models import ActionType, MailThread, Message, OutboundMessage, RequestKind
from mail.services.agents.schedules import create_agent_schedule, enqueue_due_agents
from mail.services.approvals.approvals import ask_approval
from mail.services.deciding.requests import enqueue_classify
from mail.services.digests.delivery import enqueue_due_digests
from mail.services.drafting.requests import (
    enqueue_manual_draft,
    enqueue_rework,
    enqueue_sent_check,
)
from mail.services.exports.requests import request_data
from mail.services.queueing import request_backfill, request_label_sync
from mail.services.queueing import request_sync as ask_sync
from mail.services.reminders.delivery import enqueue_due_reminders
from mail.services.reminders.preferences import change_preference
from mail.services.reminders.reminders import create_reminder
from tenants.audit import SERVICE
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import firm_scope
from tests.factories.jobs import DeadLetterQueueFactory
from tests.mail.action_kit import ask, ask_undo, done, received
from tests.mail.agent_kit import PROFILE, make_profile
from tests.mail.document_kit import pdf, with_attachments
from tests.mail.draft_kit import QUESTION, asked, give_label, prepared
from tests.mail.mail_kit import Mailbox, jobs, letter, only
from tests.mail.send_kit import answer, at_once


@dataclass
class Office:
    """A mailbox, a person of its firm, and an address that takes webhooks."""

    mailbox: Mailbox
    person: Any
    webhook_url: str
    model_url: str
    settings: Settings

    def put(self, job_type: str, *, firm: Firm | None = None, **payload: Any) -> JobQueue:
        """Enqueue a job with these fields."""
        return enqueue(job_type, payload, firm=firm or self.mailbox.firm).job

    def put_for_system(self, job_type: str) -> JobQueue:
        """Enqueue a job of the system firm, as a schedule does."""
        return self.put(job_type, firm=Firm.objects.get(slug=SYSTEM_SLUG))

    def message(self) -> Message:
        """Let a message arrive, and store it; no job judges it."""
        return self.mailbox.message(received(self.mailbox))

    def with_model(self) -> None:
        """Configure a language model, because agents need one."""
        self.settings.LLM_PROVIDER, self.settings.LLM_MODEL = "openai", "model-1"
        self.settings.LLM_API_KEY, self.settings.LLM_BASE_URL = "sk-test", self.model_url

    def answerable(self) -> Message:
        """Let a question arrive, be judged, and get a draft."""
        return self.mailbox.message(asked(prepared(self.mailbox)))

    def scoped(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> JobQueue:
        """Ask for a job in the firm's scope."""
        with firm_scope(self.mailbox.firm):
            job: JobQueue = call(*arguments, **named).job
        return job

    def made(self, job_type: str) -> JobQueue:
        """Return the one live job of a type."""
        job: JobQueue = only(jobs(job_type))
        return job


ANNA = "anna@customer.example"


def _document(office: Office, job_type: str) -> JobQueue:
    office.mailbox.receive(with_attachments(("prices.pdf", pdf())))
    office.mailbox.store_all()
    for before in ("attachment.fetch", "malware_scan"):
        if before == job_type:
            break
        run_job(office.made(before))
    return office.made(job_type)


def _soon() -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


def _sync(office: Office, job_type: Any) -> JobQueue:
    return office.scoped(ask_sync, office.mailbox.account, job_type=job_type)


def _ingest(office: Office) -> JobQueue:
    box = office.mailbox
    return office.put("ingest.gmail", account_id=box.account.pk, gmail_message_id=box.receive())


def _manual_draft(office: Office) -> JobQueue:
    message = office.message()
    prepared(office.mailbox)
    give_label(office.mailbox, message.gmail_message_id, LabelKey.NEEDS_RESPONSE)
    return office.scoped(enqueue_manual_draft, message)


def _draft(office: Office) -> JobQueue:
    prepared(office.mailbox)
    office.mailbox.receive(letter("Price list", QUESTION))
    office.mailbox.store_all()
    run_job(office.made("classify"))
    return office.made("draft")


def _rework(office: Office) -> JobQueue:
    return office.scoped(enqueue_rework, office.answerable().thread)


def _cleanup(office: Office) -> JobQueue:
    message = office.answerable()
    return office.scoped(enqueue_sent_check, message.account_id, message.thread_id)


def _agent_process(office: Office) -> JobQueue:
    office.with_model()
    make_profile(office.mailbox)
    message = office.message()
    about = {"message_id": message.pk, "thread_id": message.thread_id}
    return office.put("agent_process", account_id=message.account_id, profile=PROFILE, **about)


def _agent_schedule(office: Office) -> None:
    office.with_model()
    box = office.mailbox
    create_agent_schedule(
        box.firm.pk,
        name="Morning",
        prompt="What waits for me?",
        account_id=box.account.pk,
        profile_id=make_profile(box).pk,
        due_at=_soon(),
        interval_seconds=3600,
    )


def _reminder(office: Office) -> None:
    create_reminder(office.mailbox.firm.pk, office.person.pk, title="Call Anna", due_at=_soon())


def _agent_invocation(office: Office) -> JobQueue:
    _agent_schedule(office)
    with frozen_time(_soon()):
        enqueue_due_agents(lambda: None)
    return office.made("agent_invocation")


def _agents_due(office: Office) -> JobQueue:
    _agent_schedule(office)
    return office.put_for_system("agents.enqueue_due")


def _reminder_delivery(office: Office) -> JobQueue:
    _reminder(office)
    with frozen_time(_soon()):
        enqueue_due_reminders(lambda: None)
    return office.made("reminder_delivery")


def _reminders_due(office: Office) -> JobQueue:
    _reminder(office)
    return office.put_for_system("reminders.enqueue_due")


def _digest(office: Office) -> None:
    box = office.mailbox
    office.message()
    with firm_scope(box.firm):
        MailThread.objects.update(classification="action_required")
        type(box.account).objects.update(owner=office.person)
    now = datetime.now(UTC)
    change_preference(
        box.firm.pk, office.person.pk, digest_at=now.time().replace(second=0, microsecond=0)
    )


def _digest_delivery(office: Office) -> JobQueue:
    _digest(office)
    with frozen_time(_soon() + timedelta(days=1)):
        enqueue_due_digests(lambda: None)
    return office.made("digest_delivery")


def _digests_due(office: Office) -> JobQueue:
    _digest(office)
    return office.put_for_system("digests.enqueue_due")


def _action(office: Office) -> JobQueue:
    ask(office.mailbox, office.message().gmail_message_id, ActionType.MARK_READ)
    return office.made("action.gmail")


def _undo(office: Office) -> JobQueue:
    box = office.mailbox
    ask_undo(box, done(box, office.message().gmail_message_id, ActionType.MARK_READ))
    return office.made("undo.action")


def _unsnooze(office: Office) -> JobQueue:
    arrived = office.message().gmail_message_id
    done(office.mailbox, arrived, ActionType.SNOOZE, amount=1, units="hours")
    return office.made("unsnooze.gmail")


def _answer(office: Office, **more: Any) -> OutboundMessage:
    return answer(at_once(office.mailbox), office.message().gmail_message_id, **more)


def _send(office: Office) -> JobQueue:
    _answer(office)
    return office.made("outbound.send")


def _approval(office: Office) -> JobQueue:
    outbound = _answer(office, needs_approval=True)
    with firm_scope(office.mailbox.firm):
        ask_approval(outbound=outbound, reasons=["dangerous"])
    return office.made("approval.notify")


def _webhook(office: Office) -> JobQueue:
    endpoint = create_endpoint(
        "On call", Channel.WEBHOOK, office.webhook_url, firm=office.mailbox.firm
    )
    return office.put("webhook_send", endpoint_id=endpoint.pk, event="test", data={"n": 1})


def _request(kind: RequestKind, subject: str) -> Callable[[Office], JobQueue]:
    def ask_for(office: Office) -> JobQueue:
        office.message()
        request_data(office.mailbox.firm, kind, subject=subject, reason="asked for", by=SERVICE)
        return office.made(kind.value)

    return ask_for


def _bulk(office: Office) -> JobQueue:
    row = DeadLetterQueueFactory(original_job__firm=office.mailbox.firm)
    spec = BulkSpec(
        operation=BulkOperation.DISCARD,
        selection=Selection(ids=[row.pk]),
        firm=office.mailbox.firm,
        reason="of no use",
    )
    with firm_scope(office.mailbox.firm):
        start(spec)
    return office.made("dlq_bulk")


@dataclass(frozen=True)
class Row:
    """A job type of the table: its category, retries and lock key, and how a job is enqueued."""

    job_type: str
    category: Category
    enqueue: Callable[[Office], JobQueue]
    lock: str = ""
    once_only: bool = False
    max_attempts: int = 5
    base_delay_seconds: float = 5


# Templates of lock keys: the ids are those of the job's mailbox and thread.
SYNC_LOCK = "gmail-sync:{account_id}"
THREAD_LOCK = "gmail-thread:{thread_id}"
# The queue's own types keep its defaults.
BY_DEFAULT = {"max_attempts": 3, "base_delay_seconds": 60}
PATIENT = {"max_attempts": 10, "base_delay_seconds": 30}
SOON = {"max_attempts": 10, "base_delay_seconds": 1}

TABLE = [
    Row("ingest.gmail", Category.INGESTION, _ingest),
    Row(
        "backfill.gmail",
        Category.INGESTION,
        lambda office: office.scoped(request_backfill, office.mailbox.account),
        SYNC_LOCK,
    ),
    Row(
        "email_processing",
        Category.INGESTION,
        lambda office: office.put("email_processing", connection_id=office.mailbox.account.pk),
    ),
    Row("sync", Category.SYNC, lambda office: _sync(office, "sync"), SYNC_LOCK),
    Row(
        "history.sync.gmail",
        Category.SYNC,
        lambda office: _sync(office, "history.sync.gmail"),
        SYNC_LOCK,
    ),
    Row(
        "labels.sync.gmail",
        Category.SYNC,
        lambda office: office.scoped(request_label_sync, office.mailbox.account),
        SYNC_LOCK,
    ),
    Row(
        "watch.renew.gmail",
        Category.SYNC,
        lambda office: office.put("watch.renew.gmail", account_id=office.mailbox.account.pk),
        SYNC_LOCK,
    ),
    Row(
        "classify",
        Category.ORCHESTRATION,
        lambda office: office.scoped(enqueue_classify, office.message()),
        THREAD_LOCK,
    ),
    Row("draft", Category.ORCHESTRATION, _draft, THREAD_LOCK),
    Row("rework", Category.ORCHESTRATION, _rework, THREAD_LOCK),
    Row("manual_draft", Category.ORCHESTRATION, _manual_draft, THREAD_LOCK),
    Row("cleanup", Category.ORCHESTRATION, _cleanup, THREAD_LOCK),
    Row("agent_process", Category.ORCHESTRATION, _agent_process, THREAD_LOCK),
    # This type is about no thread, so it locks the agent schedule.
    Row("agent_invocation", Category.ORCHESTRATION, _agent_invocation, "agent:{id}"),
    Row("action.gmail", Category.ORCHESTRATION, _action, THREAD_LOCK),
    Row("undo.action", Category.ORCHESTRATION, _undo, THREAD_LOCK),
    Row("unsnooze.gmail", Category.ORCHESTRATION, _unsnooze, THREAD_LOCK),
    Row("outbound.send", Category.NOTIFICATIONS, _send, THREAD_LOCK, once_only=True),
    Row("approval.notify", Category.NOTIFICATIONS, _approval, base_delay_seconds=60),
    Row(
        "digest_delivery",
        Category.NOTIFICATIONS,
        _digest_delivery,
        once_only=True,
        base_delay_seconds=30,
    ),
    Row(
        "reminder_delivery",
        Category.NOTIFICATIONS,
        _reminder_delivery,
        once_only=True,
        base_delay_seconds=30,
    ),
    Row(
        "email_send",
        Category.NOTIFICATIONS,
        lambda office: office.put("email_send", to=["ada@acme.example"], subject="S", body="B"),
        **PATIENT,
    ),
    Row("webhook_send", Category.NOTIFICATIONS, _webhook, **PATIENT),
    Row(
        "follow_ups.find",
        Category.RECURRENCE,
        lambda office: office.put_for_system("follow_ups.find"),
        **BY_DEFAULT,
    ),
    Row("digests.enqueue_due", Category.RECURRENCE, _digests_due, **BY_DEFAULT),
    Row("reminders.enqueue_due", Category.RECURRENCE, _reminders_due, **BY_DEFAULT),
    Row("agents.enqueue_due", Category.RECURRENCE, _agents_due, **BY_DEFAULT),
    Row(
        "attachment.fetch", Category.DOCUMENTS, lambda office: _document(office, "attachment.fetch")
    ),
    Row(
        "malware_scan",
        Category.DOCUMENTS,
        lambda office: _document(office, "malware_scan"),
        **PATIENT,
    ),
    Row(
        "text_extract",
        Category.DOCUMENTS,
        lambda office: _document(office, "text_extract"),
        **BY_DEFAULT,
    ),
    Row(
        "message.index",
        Category.DOCUMENTS,
        lambda office: office.put("message.index", message_ids=[office.message().pk]),
        **BY_DEFAULT,
    ),
    Row("firm_export", Category.EXPORT, _request(RequestKind.FIRM_EXPORT, ""), **SOON),
    Row("gdpr_export", Category.EXPORT, _request(RequestKind.GDPR_EXPORT, ANNA), **SOON),
    Row("erase_subject", Category.EXPORT, _request(RequestKind.ERASE_SUBJECT, ANNA), **SOON),
    Row("noop", Category.MAINTENANCE, lambda office: office.put("noop"), **BY_DEFAULT),
    Row(
        "purge_jobs",
        Category.MAINTENANCE,
        lambda office: office.put_for_system("purge_jobs"),
        **BY_DEFAULT,
    ),
    Row(
        "dlq_age_alert",
        Category.MAINTENANCE,
        lambda office: office.put_for_system("dlq_age_alert"),
        **BY_DEFAULT,
    ),
    Row("dlq_bulk", Category.MAINTENANCE, _bulk, **SOON),
]
