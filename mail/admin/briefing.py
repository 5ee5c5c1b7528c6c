"""The briefing of a mailbox as a page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from jobs.admin.base import age
from mail.admin.base import CATEGORY_LABELS, subject_line
from mail.models import (
    CATEGORY_CHOICES,
    Approval,
    Draft,
    MailAccount,
    MailThread,
    OutboundMessage,
    Rule,
)
from mail.services.mailboxes.briefing import Part, briefing_of

Line = dict[str, Any]


def briefing_page(request: HttpRequest, account: MailAccount) -> TemplateResponse:
    """Return the briefing's page, for a reader of the mailbox. Must run in the firm's scope."""
    briefing = briefing_of(account)
    context = {
        **admin.site.each_context(request),
        "title": "Briefing",
        "subtitle": account.address,
        "opts": MailAccount._meta,
        "account": account,
        "days": briefing.days,
        "categories": [
            (
                name,
                CATEGORY_LABELS[value],
                briefing.categories[value],
                _threads(category=value, briefing=account.pk),
            )
            for value, name in CATEGORY_CHOICES
        ],
        "parts": [
            _part("Waits for you", briefing.for_you, _thread, "Nothing waits for you."),
            _part("Approvals", briefing.approvals, _approval, "Nothing waits for approval."),
            _part(
                "Sent or not?",
                briefing.in_doubt,
                _outbound,
                "Of every message it is known whether it was sent.",
            ),
            _part("Drafts in Gmail", briefing.drafts, _draft, "No draft waits in Gmail."),
            _part("Nobody answered", briefing.follow_ups, _thread, _why_no_follow_up(account)),
            _part("Waits for others", briefing.for_others, _thread, "You wait for nobody."),
            _part("Proposed rules", briefing.proposed_rules, _rule, "No rule is proposed."),
        ],
    }
    return TemplateResponse(request, "admin/mail/mailaccount/briefing.html", context)


def _why_no_follow_up(account: MailAccount) -> str:
    days = account.follow_up_days
    if days is None:
        return "Not looked for: the follow-ups of this mailbox are off."
    return f"No question of yours has waited for an answer for {days} day{'s' if days > 1 else ''}."


def _part(heading: str, part: Part, line: Any, empty: str) -> dict[str, Any]:
    return {
        "heading": heading,
        "count": part.count,
        "lines": [line(row) for row in part.first],
        "more": part.count - len(part.first),
        "empty": empty,
    }


def _thread(thread: MailThread) -> Line:
    return _line(
        "mailthread", thread.pk, subject_line(thread.subject),
        label=thread.get_classification_display(), tone=CATEGORY_LABELS[thread.classification],
        at=thread.last_message_at,
    )  # fmt: skip


def _draft(draft: Draft) -> Line:
    label = "edited" if draft.edited else ""
    text = subject_line(draft.subject)
    return _line("draft", draft.pk, text, label=label, tone="warning", at=draft.written_at)


def _approval(approval: Approval) -> Line:
    about = approval.message.subject if approval.message is not None else ""
    text = f"{approval.subject}: {subject_line(about)}" if about else approval.subject
    until = f"ends {approval.expires_at:%Y-%m-%d %H:%M} UTC"
    return _line("approval", approval.pk, text, label=until, tone="warning", at=approval.created_at)


def _outbound(outbound: OutboundMessage) -> Line:
    label, text = outbound.get_status_display().lower(), subject_line(outbound.subject)
    return _line(
        "outboundmessage", outbound.pk, text, label=label, tone="danger", at=outbound.created_at
    )


def _rule(rule: Rule) -> Line:
    label = rule.get_category_display()
    tone = CATEGORY_LABELS[rule.category]
    return _line("rule", rule.pk, rule.name, label=label, tone=tone, at=rule.changed_at)


def _line(model: str, pk: Any, text: str, *, label: str, tone: str, at: Any) -> Line:
    href = reverse(f"admin:mail_{model}_change", args=[pk])
    return {"href": href, "text": text, "label": label, "tone": tone, "at": age(at)}


def _threads(**filters: object) -> str:
    return f"{reverse('admin:mail_mailthread_changelist')}?{urlencode(filters)}"
