"""Short names for what the tests of the admin's acts do all the time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tenants.models import AuditEntry
from tenants.scope import all_firms


def act_url(row: Any, act: str) -> str:
    """Return the address of an act on a row."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{act}", args=[row.pk])


def submit(client: Client, row: Any, act: str, **answers: Any) -> Any:
    """Open the act's page, fill it in and send it, as a person would."""
    shown = client.get(act_url(row, act))
    assert shown.status_code == 200, shown.content
    blank = {name: field.value() or "" for name, field in _fields(shown)}
    sent = {"seen": shown.context["seen"], **blank, **answers}
    return client.post(act_url(row, act), sent)


def _fields(shown: Any) -> list[tuple[str, Any]]:
    return [(field.name, field) for field in shown.context["form"]]


def told(response: HttpResponse) -> str:
    """Return the messages that an answer leaves for the next page."""
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def now(row: Any) -> Any:
    """Return the row as it stands in the table, None when it is gone."""
    with all_firms("test"):
        return type(row).objects.filter(pk=row.pk).first()


def acts_on(row_id: UUID) -> list[AuditEntry]:
    """Return what the audit log says was done to a row, oldest first."""
    with all_firms("test"):
        return list(AuditEntry.objects.filter(target_id=str(row_id)).order_by("id"))
