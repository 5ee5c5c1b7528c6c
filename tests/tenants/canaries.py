"""Fills a firm: a row in every firm-owned table, with the firm's slug in every text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models
from django.http import HttpResponseBase
from django.utils import timezone
from uuid_utils.compat import uuid7

from jobs.models import (
    AttemptLog,
    Batch,
    BatchMember,
    ConcurrencyLock,
    FanIn,
    JobHour,
    JobMinute,
    JobQueue,
    Schedule,
)
from mail.models import (
    AgentProfile,
    AgentRun,
    AgentSchedule,
    Direction,
    MailAccount,
    Message,
    Reminder,
    RoutingRule,
    Rule,
)
from tenants.models import Firm, FirmOwned
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory

Columns = dict[str, Any]

FIRM_OWNED: list[type[Any]] = [model for model in apps.get_models() if issubclass(model, FirmOwned)]
# Too long to stand in an id or a token by chance.
TELLING_COUNT = 1_777_000_777


@dataclass(frozen=True)
class Canaries:
    """One firm's rows by table; its slug is in every text of them."""

    firm: Firm
    rows: dict[type[Any], list[Any]] = field(default_factory=dict)

    def of(self, model: type[Any]) -> list[Any]:
        """Return the rows of a table; a table of no firm has none."""
        return [self.firm] if model is Firm else self.rows.get(model, [])

    def ids(self) -> list[str]:
        """Return the rows' UUIDs; ids that are numbers could appear in an answer by chance."""
        found = [row.pk for rows in self.rows.values() for row in rows]
        return [str(pk) for pk in found if isinstance(pk, UUID)]

    def traces_in(self, answer: HttpResponseBase, *asked: object) -> list[str]:
        """Return what an answer gives away of the firm, in its body or in its headers.

        Words that were `asked` for do not count, because an answer may repeat them.
        """
        headers = [f"{name}: {value}" for name, value in answer.items()]
        cookies = [str(cookie) for cookie in answer.cookies.values()]
        told = "\n".join([*headers, *cookies, answer.content.decode()])  # type: ignore[attr-defined]  # none of these answers is a stream
        for word in map(str, asked):
            for form in (word, escape(word), quote(word), quote_plus(word)):
                told = told.replace(form, "")
        told = told.lower()
        counts = [str(TELLING_COUNT), f"{TELLING_COUNT:,}"]
        return [trace for trace in (self.firm.slug, *self.ids(), *counts) if trace in told]

    def stored(self) -> dict[str, list[Columns]]:
        """Return all rows that the firm has now, by table."""
        with all_firms("test"):
            return {
                model._meta.label: list(
                    model.objects.filter(firm_id=self.firm.pk).order_by("pk").values()
                )
                for model in FIRM_OWNED
            }


def fill(firm: Firm, *, completed: int = 0) -> Canaries:
    """Give the firm a row in every table, and `completed` jobs in its counters."""
    found = Canaries(firm)
    member = UserFactory(
        username=f"{firm.slug}-member", email=f"member@{firm.slug}.example", first_name=firm.slug
    )
    special = _special(firm.slug, completed)
    with all_firms("test"):
        for model in FIRM_OWNED:
            known: dict[type[Any], list[Any]] = {
                Firm: [firm],
                get_user_model(): [member],
                **found.rows,
            }
            texts = _columns(model, firm.slug, known)
            found.rows[model] = [
                model.objects.create(**{**texts, **given}) for given in special.get(model, [{}])
            ]
            for row in found.rows[model]:
                row.refresh_from_db()
    return found


def _special(slug: str, completed: int) -> dict[type[Any], list[Columns]]:
    """Return columns without which pages could not show the rows: timetables, people, headers."""
    now = timezone.now()
    people = [{"name": f"{slug} person", "address": f"person@{slug}.example"}]
    dead = {"status": "dlq", "ready": False, "attempts": 1, "completed_at": now}
    return {
        JobQueue: [dead, {"live_key": f"{slug} second"}],
        ConcurrencyLock: [{"expires_at": now + timedelta(hours=1)}],
        JobMinute: [{"completed": completed}],
        Batch: [{"callbacks": {"settled": _link(slug)}}],
        BatchMember: [{"state": "failed"}],
        FanIn: [{"rest": [_link(slug)]}],
        AttemptLog: [{"lines": [[now.isoformat(), f"{slug} noted"]]}],
        JobHour: [{"completed": completed}],
        Schedule: [{"cron": "0 3 * * *", "interval_seconds": None, "time_zone": "UTC"}],
        Reminder: [{"cron": "0 3 * * *", "time_zone": "UTC"}],
        AgentSchedule: [{"cron": "0 3 * * *", "time_zone": "UTC"}],
        # Shared, because only readers of a mailbox see its labels.
        MailAccount: [{"shared": True}],
        RoutingRule: [
            {
                "account": None,
                "match": {"subject_contains": f"{slug} order"},
                "route": "agent",
                "profile": f"{slug} shop",
            }
        ],
        Rule: [
            {
                "account": None,
                "scope": "sender",
                "scope_ref": f"ann@{slug}.example",
                "conditions": {"type": "subject_contains", "value": f"{slug} subject"},
                "category": "fyi",
                "actions": [{"action": "apply_label", "parameters": {"label": f"{slug} clients"}}],
            }
        ],
        AgentProfile: [{"tools": ["escalate"], "recipients": [f"*@{slug}.example"]}],
        AgentRun: [
            {
                "steps": [
                    {
                        "text": f"{slug} step",
                        "calls": [
                            {
                                "call_id": "1",
                                "tool": "escalate",
                                "arguments": {"reason": f"{slug} reason"},
                                "result": {"status": f"{slug} result"},
                            }
                        ],
                    }
                ]
            }
        ],
        Direction: [{"account": None, "scope": "domain", "scope_ref": f"{slug}.example"}],
        Message: [
            {
                "to": people,
                "cc": people,
                "headers": [["Subject", f"{slug} header"]],
                "labels": [f"{slug} label"],
            }
        ],
    }


def _link(slug: str) -> Columns:
    """Return a later job of a chain, as a fan-in keeps it."""
    return {
        "user_id": None,
        "category": "sync",
        "job_type": f"{slug} next",
        "payload_version": "1.0",
        "payload": json.dumps({"text": f"{slug} payload"}),
        "correlation_id": f"{slug} next",
        "priority": 2,
        "max_attempts": 3,
        "delay": 0.0,
        "lock_key": None,
        "lock_limit": 1,
        "limit_key": None,
        "limit_units": 1,
        "idempotency_key": None,
        "once_only": False,
        "unique_for": None,
    }


def _columns(model: type[Any], slug: str, known: dict[type[Any], list[Any]]) -> Columns:
    """Return a row's columns: the slug in every text, the rest left to its default or made up."""
    columns = {}
    for column in model._meta.local_concrete_fields:
        has_default = column.has_default() or column.has_db_default() or column.null
        if column.primary_key:
            continue
        if column.is_relation:
            # A relation to a table that is not filled yet stays empty.
            columns[column.name] = next(iter(known.get(column.related_model, ())), None)
        elif isinstance(column, models.JSONField):
            columns[column.name] = {"text": f"{slug} {column.name}"}
        elif column.choices or not isinstance(column, models.CharField | models.TextField):
            if not has_default:
                columns[column.name] = _made_up(column)
        else:
            text = f"{slug} {model._meta.model_name} {column.name}"
            columns[column.name] = text[: column.max_length]
    return columns


def _made_up(column: Any) -> object:
    if column.choices:
        return column.choices[0][0]
    if isinstance(column, models.DateTimeField):
        return timezone.now()
    if isinstance(column, models.BinaryField):
        return b"bytes"
    return uuid7() if isinstance(column, models.UUIDField) else 1
