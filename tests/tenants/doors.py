"""Every address of the API and of the admin, from the OpenAPI schema and the admin's registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, reverse
from drf_spectacular.generators import SchemaGenerator

from jobs.models import (
    Batch,
    BulkRun,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    NotificationEndpoint,
    Pause,
    RateLimit,
    Schedule,
)
from mail.models import (
    Action,
    AgentSchedule,
    Approval,
    DataRequest,
    Decision,
    Direction,
    Document,
    Draft,
    MailAccount,
    MailLabel,
    MailThread,
    Message,
    NotificationPreference,
    OutboundMessage,
    Reminder,
    RoutingRule,
    Rule,
)
from tests.support.addresses import ID_IN_PATH, resource_of
from tests.tenants.canaries import FIRM_OWNED, Canaries

# Rows that serve every firm; only platform staff may operate on them.
OF_NO_FIRM = {"workers"}
# The model whose id an address of the API contains, by the resource that the address begins with.
RESOURCES: dict[str, type[Any]] = {
    "jobs": JobQueue,
    "dlq": DeadLetterQueue,
    "batches": Batch,
    "bulk-runs": BulkRun,
    "locks": ConcurrencyLock,
    "pauses": Pause,
    "rate-limits": RateLimit,
    "breakers": CircuitBreaker,
    "schedules": Schedule,
    "endpoints": NotificationEndpoint,
    "accounts": MailAccount,
    "directions": Direction,
    "decisions": Decision,
    "actions": Action,
    "rules": Rule,
    "labels": MailLabel,
    "routing-rules": RoutingRule,
    "approvals": Approval,
    "data-requests": DataRequest,
    "messages": Message,
    "threads": MailThread,
    "outbound": OutboundMessage,
    "documents": Document,
    "drafts": Draft,
    "reminders": Reminder,
    "notification-preferences": NotificationPreference,
    "agent-schedules": AgentSchedule,
}
# Django's own user pages are for superusers, who see every firm.
MODEL_ADMINS: list[Any] = [
    model_admin
    for model, model_admin in admin.site._registry.items()
    if model is not get_user_model()
]
# Signing out would end the session that sends the requests.
NOT_WALKED = {"logout"}


@dataclass(frozen=True)
class Ask:
    """One request; `asked` are the words of it that the answer may repeat."""

    method: str
    address: str
    data: dict[str, Any] = field(default_factory=dict)
    asked: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.method} {self.address} {self.data or ''}"

    def of(self, client: Client, **headers: str) -> HttpResponse:
        """Return the answer that this client gets; what is sent to the API is JSON."""
        if self.method == "post" and headers:
            body = json.dumps(self.data)
            answer: Any = client.post(
                self.address, body, content_type="application/json", headers=headers
            )
        else:
            answer = getattr(client, self.method)(self.address, self.data, headers=headers)
        found: HttpResponse = answer
        return found


def api_operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return path, method and description of every operation of the OpenAPI schema."""
    generator: Any = SchemaGenerator
    schema = generator().get_schema(request=None, public=True)
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def api_rows(rows: Canaries) -> Iterator[Ask]:
    """Return every operation on one row, for every row of the firm, with the schema's own body."""
    for path, method, operation in api_operations():
        if not ID_IN_PATH.search(path):
            continue
        resource = resource_of(path)
        if resource in OF_NO_FIRM:
            continue
        model = RESOURCES[resource]
        body: dict[str, Any] = {}
        if method == "post":
            body = _example(operation)
        for row in rows.of(model):
            yield Ask(method, ID_IN_PATH.sub(str(row.pk), path), body)


def _example(operation: dict[str, Any]) -> dict[str, Any]:
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    example: dict[str, Any] = next(iter(examples.values()))["value"]
    return example


def api_lists(rows: Canaries) -> Iterator[Ask]:
    """Return every operation that names no row: plain, and with parameters that name the firm."""
    aims = [rows.firm.slug, *(str(row.pk) for row in rows.of(JobQueue))]
    for path, method, operation in api_operations():
        if ID_IN_PATH.search(path):
            continue
        yield Ask(method, path)
        if method == "post":
            yield Ask(method, path, {**_example(operation), "firm": rows.firm.slug})
        for parameter in operation.get("parameters", ()):
            for aim in aims:
                yield Ask(method, path, {parameter["name"]: aim}, (aim,))


def _patterns(model_admin: Any, *, of_a_row: bool) -> Iterator[URLPattern]:
    """Return the model's addresses that have a name: those below a row, or the others."""
    for pattern in model_admin.get_urls():
        if pattern.name and ("object_id" in str(pattern.pattern)) is of_a_row:
            yield pattern


def admin_rows(rows: Canaries) -> Iterator[Ask]:
    """Return a GET and a POST of every admin address below each row of the firm."""
    for model_admin in MODEL_ADMINS:
        for pattern in _patterns(model_admin, of_a_row=True):
            for row in rows.of(model_admin.model):
                address = reverse(f"admin:{pattern.name}", args=[row.pk])
                yield Ask("get", address)
                yield Ask("post", address, _answers(model_admin, pattern, row))


def _answers(model_admin: Any, pattern: URLPattern, row: Any) -> dict[str, str]:
    """Return the form that somebody who has seen the row would send to an operation's page."""
    seen = [
        operation.seen(row)
        for operation in getattr(model_admin, "operations", ())
        if str(pattern.name).endswith(f"_{operation.name}")
    ]
    return {"reason": "because", "note": "", "payload": "{}", "seen": "".join(seen)}


def admin_lists() -> Iterator[Ask]:
    """Return every admin address that takes no row: the site's own pages and each model's."""
    for pattern in admin.site.get_urls():
        if not isinstance(pattern, URLPattern) or not pattern.name:
            continue
        if pattern.name == "app_list":
            labels = {model_admin.opts.app_label for model_admin in MODEL_ADMINS}
            yield from (Ask("get", reverse("admin:app_list", args=[label])) for label in labels)
        elif pattern.name not in NOT_WALKED and not re.search(r"<", str(pattern.pattern)):
            yield Ask("get", reverse(f"admin:{pattern.name}"))
    for model_admin in MODEL_ADMINS:
        for pattern in _patterns(model_admin, of_a_row=False):
            yield Ask("get", _list_address(pattern))


def _list_address(pattern: URLPattern) -> str:
    """Return an address that takes no row, and a job type where it takes one."""
    return reverse(f"admin:{pattern.name}", args=["noop"] if "<" in str(pattern.pattern) else [])


def admin_aimed(rows: Canaries) -> Iterator[Ask]:
    """Return every way to ask the admin's lists for the firm's rows, and to act on many of them."""
    slug, number = rows.firm.slug, str(rows.firm.pk)
    yield Ask("get", reverse("admin:search"), {"s": slug}, (slug,))
    for model_admin in MODEL_ADMINS:
        ids = [str(row.pk) for row in rows.of(model_admin.model)]
        name = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}"
        for pattern in _patterns(model_admin, of_a_row=False):
            address = _list_address(pattern)
            yield Ask("post", address, {"ids": " ".join(ids), "reason": "because"}, tuple(ids))
        changelist = reverse(f"{name}_changelist")
        for query in ({"q": slug}, {"firm": slug}, {"firm__id__exact": number}):
            yield Ask("get", changelist, query, (slug,) if slug in query.values() else ())
        for row_id in ids:
            yield Ask("get", changelist, {"q": row_id}, (row_id,))
        for operation in getattr(model_admin, "bulk_operations", ()):
            yield Ask("post", changelist, {"action": operation.name, "_selected_action": ids})
    yield from _autocompletes(slug)


def _autocompletes(term: str) -> Iterator[Ask]:
    """Return the questions that a form's autocompleting field would ask."""
    for model_admin in MODEL_ADMINS:
        for column in model_admin.model._meta.local_fields:
            if isinstance(column, models.ForeignKey):
                source = {
                    "app_label": model_admin.opts.app_label,
                    "model_name": model_admin.opts.model_name,
                    "field_name": column.name,
                }
                yield Ask("get", reverse("admin:autocomplete"), {**source, "term": term})


def view_on_site(row: Any) -> Ask:
    """Return the admin's way from any row to its page outside the admin."""
    kind = ContentType.objects.get_for_model(row)
    return Ask("get", reverse("admin:view_on_site", args=[kind.pk, row.pk]))


def all_rows(rows: Canaries) -> list[Any]:
    """Return one row of each of the firm's tables, whether or not the admin registers the table."""
    return [rows.of(model)[0] for model in FIRM_OWNED]
