"""Helpers for the tests of the admin's operations."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tenants.models import AuditEntry
from tenants.scope import all_firms


def operation_url(row: Any, operation: str) -> str:
    """Return the address of an operation on a row."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{operation}", args=[row.pk])


def submit(client: Client, row: Any, operation: str, **answers: Any) -> Any:
    """Open the operation's page, fill in its form and send it."""
    shown = client.get(operation_url(row, operation))
    assert shown.status_code == 200, shown.content
    blank = {name: field.value() or "" for name, field in _fields(shown)}
    sent = {"seen": shown.context["seen"], **blank, **answers}
    return client.post(operation_url(row, operation), sent)


def _fields(shown: Any) -> list[tuple[str, Any]]:
    return [(field.name, field) for field in shown.context["form"]]


def messages_of(response: HttpResponse) -> str:
    """Return the messages that a response leaves for the next page."""
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def now(row: Any) -> Any:
    """Return the row as it is stored; None if it is gone."""
    with all_firms("test"):
        return type(row).objects.filter(pk=row.pk).first()


def audit_entries(row_id: UUID) -> list[AuditEntry]:
    """Return the audit log's entries about a row, oldest first."""
    with all_firms("test"):
        return list(AuditEntry.objects.filter(target_id=str(row_id)).order_by("id"))


def title(page: HttpResponse) -> str:
    """Return the title of the page."""
    return re.search("<title>(.*?)</title>", page.content.decode(), re.DOTALL)[1]  # type: ignore[index]


def crumbs(page: HttpResponse) -> list[str]:
    """Return the names of the breadcrumbs; the last one is the page's own."""
    found = re.findall(r'class="queue-crumb [^>]*>(.*?)</', page.content.decode(), re.DOTALL)
    return [name.strip() for name in found]
