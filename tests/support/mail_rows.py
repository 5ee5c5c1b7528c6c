"""A row of every resource of mail's API, as cheap as possible, for generated requests."""

from __future__ import annotations

import io
import zipfile
import zlib
from datetime import timedelta
from typing import Any

from django.utils import timezone

from mail.models import (
    Action,
    ActionLink,
    AgentProfile,
    AgentRun,
    AgentSchedule,
    Approval,
    Attachment,
    ContentGrant,
    DataRequest,
    Decision,
    Direction,
    Document,
    Draft,
    ExportPart,
    MailAccount,
    MailEvent,
    MailLabel,
    MailThread,
    Message,
    NotificationPreference,
    OutboundMessage,
    Reminder,
    RoutingRule,
    Rule,
)
from mail.services.approvals.approvals import asked_hash
from mail.services.sending.outbound import content_hash_of
from tenants.encryption import encrypt_field
from tenants.models import Firm
from tenants.scope import all_firms

PROFILE = "shop"
PERSON = {"name": "Anna Novak", "address": "anna@customer.example"}
# A firm's rows, by the resource with which their paths begin.
RowsByResource = dict[str, list[Any]]


def fill_mail(firm: Firm, owner: Any, readers: tuple[Any, ...] = ()) -> RowsByResource:
    """Give the firm rows in the states that operations need, in mailboxes of the owner's."""
    with all_firms("test"):
        accounts = _accounts(firm, owner, readers)
        common = {"firm": firm, "account": accounts[0]}
        rows = {"accounts": accounts} | _mail(common)
        rows |= _changes(common, rows["messages"][0])
        rows |= _settings(common, owner) | _of_people(firm, owner, rows["messages"][1])
        return rows


def _accounts(firm: Firm, owner: Any, readers: tuple[Any, ...]) -> list[MailAccount]:
    states = {"active": {"mode": "active"}, "paused": {"mode": "active", "paused_by": "switch"}}
    found = MailAccount.objects.bulk_create(
        MailAccount(firm=firm, owner=owner, address=f"{name}@{firm.slug}.example", **state)
        for name, state in {**states, "suggesting": {}}.items()
    )
    ContentGrant.objects.bulk_create(
        ContentGrant(firm=firm, account=account, user=user, kind="granted", granted_by="owner")
        for account in found
        for user in readers
    )
    return found


def _mail(common: dict[str, Any]) -> RowsByResource:
    """Store a question with two files and its answer, and the rows that were derived from them."""
    now = timezone.now()
    thread = MailThread.objects.create(
        **common, gmail_thread_id="t1", subject="Price list", classification="needs_response",
        message_count=2, last_message_at=now,
    )  # fmt: skip
    texts = {"subject": "Price list", "text": "How much?", "html": "<p>How <b>much</b>?</p>"}
    question, answer = Message.objects.bulk_create(
        Message(
            **common, **texts, thread=thread, gmail_message_id=f"m{number}", outgoing=bool(number),
            message_id=f"<{number}@customer.example>", sender_address=PERSON["address"], to=[PERSON],
            text_source="plain", labels=["INBOX"], headers=[["Subject", "Price list"]],
            internal_date=now - timedelta(hours=2 - number),
        )
        for number in range(2)
    )  # fmt: skip
    files = Attachment.objects.bulk_create(
        Attachment(firm=common["firm"], message=question, part_id=f"{number}", filename="list.pdf")
        for number in range(2)
    )
    of_question = {**common, "message": question}
    decisions = [
        Decision(**of_question, category="needs_response", **verdict)
        for verdict in (
            {"source": "offline", "confidence": 0.8, "explanations": {"labelled": False}},
            {"source": "person", "confidence": 1.0, "rationale": "The person said so."},
        )
    ]
    AgentRun.objects.create(
        **of_question, profile_name=PROFILE, status="completed", job_id=question.pk
    )
    MailEvent.objects.create(**of_question, thread=thread, event_type="ingested")
    states: list[dict[str, Any]] = [
        {"status": "read", "scan": "clean", "text": "It costs 5."},
        {"job_id": question.pk},
    ]
    documents = [
        Document(**of_question, attachment=file, **state)
        for file, state in zip(files, states, strict=True)
    ]
    drafts = [
        Draft(
            **of_question, thread=thread, origin="automatic", source="template", to=[PERSON],
            subject="Re: Price list", text="It costs 5.", content_hash="0" * 64, rfc822_id="<d@x>",
            status=status, gmail_draft_id=f"{status}-1",
        )
        for status in ("ready", "sent")
    ]  # fmt: skip
    return {
        "threads": [thread],
        "messages": [question, answer],
        "decisions": Decision.objects.bulk_create(decisions),
        "documents": Document.objects.bulk_create(documents),
        "drafts": Draft.objects.bulk_create(drafts),
    }


def _changes(common: dict[str, Any], message: Message) -> RowsByResource:
    """Store actions that were done or are to be, and approvals that a person is asked for."""
    of_message = {**common, "message": message}
    hint = {"action": "star", "inverse_action": "restore_labels", "inverse_parameters": {}}
    done, nothing, undone, undo, waiting = Action.objects.bulk_create(
        Action(**of_message, action_type=kind, status=status, parameters=parameters, undo_hint=hint)
        for kind, status, parameters, hint in (
            ("star", "completed", {}, hint),
            ("archive", "completed", {}, {**hint, "inverse_action": "none"}),
            ("snooze", "completed", {"until": "2030-01-01T09:00:00Z"}, hint),
            ("undo", "executing", {}, None),
            ("delete", "approved_pending", {}, None),
        )
    )
    ActionLink.objects.create(firm=common["firm"], cause=undo, effect=undone, relation="undo_of")
    outbound = [_outbound(of_message, status) for status in ("queued", "unknown", "failed")]
    asked = _outbound(of_message, "approved_pending")
    OutboundMessage.objects.bulk_create([*outbound, asked])
    soon = timezone.now() + timedelta(days=1)
    approvals = [
        Approval(
            **of_message, action=action, outbound=sent, reasons=["dangerous"], expires_at=soon,
            content_hash=asked_hash(action, sent),
        )
        for action, sent in ((waiting, None), (None, asked))
    ]  # fmt: skip
    return {
        "actions": [done, nothing, undone, undo, waiting],
        "outbound": [*outbound, asked],
        "approvals": Approval.objects.bulk_create(approvals),
    }


def _outbound(of_message: dict[str, Any], status: str) -> OutboundMessage:
    row = OutboundMessage(
        **of_message, kind="reply", sender=PERSON, to=[PERSON], subject="Re: Price list",
        text="It costs 5.", status=status, releases=int(status != "approved_pending"),
    )  # fmt: skip
    row.content_hash = content_hash_of(row)
    return row


def _settings(common: dict[str, Any], owner: Any) -> RowsByResource:
    """Store labels, rules, directions and agents, for one mailbox and for all."""
    firm, of_all = common["firm"], {"firm": common["firm"]}
    profile = AgentProfile.objects.create(firm=firm, name=PROFILE, instructions="Sell.")
    conditions = {"type": "subject_contains", "value": "price"}
    star = [{"action": "star", "parameters": {}}]
    labels = [
        MailLabel(**common, gmail_label_id="Label_1", name="Prices"),
        MailLabel(**common, gmail_label_id="Label_2", name="Mailroom", key="parent"),
    ]
    rules = [
        Rule(**of_all, name="Prices", conditions=conditions, actions=star, tried_at=timezone.now()),
        Rule(
            **common, scope="account", name="On", conditions=conditions, actions=star, enabled=True,
            enabled_by=owner,
        ),
    ]  # fmt: skip
    routing = [
        RoutingRule(**of_all, name="All", match={"all": True}, route="pipeline", enabled_by=owner),
        RoutingRule(**common, name="Shop", match={"all": True}, route="agent", profile=PROFILE),
    ]
    directions = [
        Direction(**of_all, text="Our bank never advertises."),
        Direction(**common, scope="account", kind="llm_rule", text="Be brief."),
    ]
    schedules = [
        AgentSchedule(**common, name=name, profile=profile, user=user, prompt="What waits?", **when)
        for name, user, when in (
            ("Morning", owner, {"cron": "0 7 * * *", "due_at": timezone.now()}),
            ("Hourly", None, {"interval_seconds": 3600, "enabled": False}),
        )
    ]
    return {
        "labels": MailLabel.objects.bulk_create(labels),
        "rules": Rule.objects.bulk_create(rules),
        "routing-rules": RoutingRule.objects.bulk_create(routing),
        "directions": Direction.objects.bulk_create(directions),
        "agent-schedules": AgentSchedule.objects.bulk_create(schedules),
    }


def _of_people(firm: Firm, owner: Any, answer: Message) -> RowsByResource:
    """Store the owner's reminders, and the data requests of the firm."""
    now = timezone.now()
    mine = {"firm": firm, "user": owner, "planned_at": now}
    reminders = [
        Reminder(**mine, title="Call Anna", cron="0 9 * * *", due_at=now + timedelta(days=1)),
        Reminder(**mine, title="Nobody answered", message=answer, due_at=now + timedelta(days=1)),
        Reminder(**mine, title="Over", status="canceled"),
    ]
    preference = NotificationPreference(firm=firm, user=owner, time_zone="Europe/Vienna")
    encrypt_field(preference, "discord_webhook", "")
    preference.save()
    return {
        "reminders": Reminder.objects.bulk_create(reminders),
        "notification-preferences": [preference],
        "data-requests": _data_requests(firm),
    }


def _data_requests(firm: Firm) -> list[DataRequest]:
    about = {"about_firm_id": firm.pk, "about_firm": firm.slug, "requested_by_name": "owner"}
    rows = [
        DataRequest(firm=firm, kind=kind, status=status, parts=parts, **about)
        for kind, status, parts in (
            ("firm_export", "ready", 2),
            ("gdpr_export", "running", 0),
            ("erase_subject", "done", 0),
        )
    ]
    for row in rows:
        encrypt_field(row, "subject", "")
    DataRequest.objects.bulk_create(rows)
    files = io.BytesIO()
    with zipfile.ZipFile(files, "w") as archive:
        archive.writestr("mail/1.eml", "Subject: Price list")
    parts = (("tables/mail.jsonl", b"{}\n"), ("", files.getvalue()))
    ExportPart.objects.bulk_create(
        ExportPart(
            firm=firm, request=rows[0], number=number, name=name, content=zlib.compress(content)
        )
        for number, (name, content) in enumerate(parts)
    )
    return rows
