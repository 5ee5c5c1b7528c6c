"""What an export consists of: the tables, and how a row is written and read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, time
from functools import cache
from math import isfinite
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.timezone import is_naive
from uuid_utils.compat import uuid7

from interfaces.stored_json import presentable
from jobs.engine.redaction import redact_secrets
from jobs.payload_validator import text_faults
from jobs.states import LIVE, Channel, RunOutcome, Status
from mail.documents.kinds import Unread
from mail.models import (
    ActionStatus,
    ApprovalStatus,
    Connection,
    DocumentStatus,
    DraftStatus,
    OutboundStatus,
    RunStatus,
)
from tenants.encryption import EncryptedTextField
from tenants.models import Firm, FirmOwned

FORMAT, VERSION = "mailroom-export", 1
IMPORTED = "Imported from another installation"
FIRM_FACTS = ("name", "slug", "weight", "running_cap", "retention_days")
# The models that no export contains, with the reason.
LEFT_OUT = {
    "tenants.ApiKey": "keys",
    "mail.MailCredential": "tokens",
    "mail.PushReceipt": "needed for an hour only",
    "mail.DataRequest": "about exports themselves",
    "mail.MessageIndex": "made anew from the messages",
    "mail.ExportPart": "about exports themselves",
    "mail.SuppressionList": "its key is a secret of this installation",
    "jobs.ConcurrencyLock": "belongs to jobs in flight",
    "jobs.Batch": "belongs to jobs in flight",
    "jobs.BatchMember": "belongs to jobs in flight",
    "jobs.FanIn": "belongs to jobs in flight",
    "jobs.FanInMember": "belongs to jobs in flight",
    "jobs.IdempotentRequest": "answers of the API, needed for a day only",
    "jobs.RateBucket": "state of this installation's workers",
    "jobs.CircuitBreaker": "state of this installation's workers",
    "jobs.FailureAlert": "state of this installation's alerts",
    "jobs.JobMinute": "figures of this installation",
    "jobs.JobMinuteDelta": "figures of this installation",
    "jobs.JobHour": "figures of this installation",
    "jobs.LatencyBucket": "figures of this installation",
    "jobs.FailingType": "figures of this installation",
}
# The statuses of a document that is not read yet.
UNDER_WAY = (DocumentStatus.WAITING, DocumentStatus.FETCHED, DocumentStatus.SCANNED)
# A row as JSON, by column.
Row = dict[str, Any]


@cache
def exported_models() -> dict[str, type[Any]]:
    """Return the models that an export contains, by their tables' names."""
    return {
        model._meta.db_table: model
        for model in apps.get_models()
        if issubclass(model, FirmOwned)
        and model._meta.managed
        and model._meta.label not in LEFT_OUT
    }


def columns_of(model: type[models.Model]) -> list[Any]:
    """Return the fields that are exported: no secrets, and nothing that the database computes."""
    return [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, EncryptedTextField | models.BinaryField) and not field.generated
    ]


def user_columns_of(model: type[models.Model]) -> list[str]:
    """Return the columns that name a user."""
    user = get_user_model()
    return [str(field.attname) for field in columns_of(model) if field.related_model is user]


def row_as_json(row: models.Model) -> str:
    """Return a row as a line of JSON."""
    values = {}
    for field in columns_of(type(row)):
        value = getattr(row, field.attname)
        is_json = isinstance(field, models.JSONField)
        values[field.attname] = redact_secrets(value) if is_json else value
    hide = _HIDDEN.get(row._meta.label)
    if hide is not None:
        hide(values)
    return json.dumps(values, default=_as_json)


def row_from_json(
    model: type[models.Model], values: Row, *, firm_id: int, users: dict[str, Any]
) -> Any:
    """Return an unsaved row of the firm, with unfinished work ended and users of this database.

    Raises:
        ValueError: a value does not fit its column.
        KeyError: a column is missing that tells what was unfinished.
    """
    of_users = user_columns_of(model)
    named = {name: values.get(name) for name in of_users}
    read = {name: None if key is None else users.get(str(key)) for name, key in named.items()}
    for field in columns_of(model):
        if field.attname in values and field.attname not in read:
            read[field.attname] = value_from_json(field, values[field.attname])
    change = _IMPORTED.get(model._meta.label)
    if change is not None:
        change(read, firm_id)
    return model(**read | {"firm_id": firm_id})


def value_from_json(field: Any, value: object) -> Any:
    """Return a value as the column takes it.

    Raises:
        ValueError: the column takes no such value.
    """
    column, target = field.attname, field.target_field if field.is_relation else field
    if value is None:
        if not field.null:
            raise ValueError(f"{column} must not be null")
        return None
    if isinstance(field, models.JSONField):
        return presentable(value)
    if isinstance(target, models.CharField | models.TextField):
        if not isinstance(value, str) or next(text_faults(column, value), None):
            raise ValueError(f"{column} is no text")
        if field.max_length and len(value) > field.max_length:
            raise ValueError(f"{column} is longer than {field.max_length} characters")
        return value
    try:
        found = target.to_python(value)
        target.run_validators(found)
        if isinstance(found, datetime):
            found.astimezone(UTC)
    except (ValidationError, TypeError, OverflowError, ValueError) as error:
        raise ValueError(f"{column} is no {type(target).__name__}") from error
    endless = isinstance(found, float) and not isfinite(found)
    if endless or (isinstance(found, datetime) and is_naive(found)):
        raise ValueError(f"{column} is no {type(target).__name__}")
    return found


def facts_of(firm: Firm) -> Row:
    """Return a firm's own settings."""
    return {name: getattr(firm, name) for name in FIRM_FACTS}


def _as_json(value: object) -> str:
    if isinstance(value, datetime | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} in a table has no form in an export")


def _hide_webhook(row: Row) -> None:
    """Leave out a webhook's path, which may be a secret."""
    if row["channel"] != Channel.EMAIL:
        parts = urlsplit(row["target"])
        row["target"], row["enabled"] = f"{parts.scheme}://{parts.netloc}", False


def _end_job(row: Row, firm_id: int) -> None:
    if row["status"] in LIVE:
        row.update(status=Status.CANCELED.value, completed_at=timezone.now(), last_error=IMPORTED)
    row.update(
        ready=False, waiting=False, admitted=False, live_key=None, worker_id=None, lease_token=0
    )
    if isinstance(row["payload"], dict):
        row["payload"] = {**row["payload"], "tenant_id": firm_id}


def _copy_entry(row: Row, _: int) -> None:
    """Give the entry a new id of the same time, so that a deleted firm's audit log here stays."""
    if entry_id := row.get("id"):
        moment = entry_id.int >> 80 << 80
        row["id"] = UUID(int=moment | (uuid7().int & (1 << 80) - 1))


def _end_schedule_run(row: Row, _: int) -> None:
    if row["outcome"] is None:
        row.update(outcome=RunOutcome.CANCELED.value, finished_at=timezone.now())


def _disconnect(row: Row, _: int) -> None:
    row.update(connection=Connection.NEEDS_REAUTH.value, history_cursor=None, watch_expires_at=None)


def _end_action(row: Row, _: int) -> None:
    if row["status"] in (
        ActionStatus.QUEUED,
        ActionStatus.EXECUTING,
        ActionStatus.APPROVED_PENDING,
    ):
        row.update(status=ActionStatus.CANCELED.value, error=IMPORTED)


def _end_approval(row: Row, _: int) -> None:
    if row["status"] == ApprovalStatus.PENDING:
        row["status"] = ApprovalStatus.CANCELED.value


def _end_outbound(row: Row, _: int) -> None:
    sent_before = bool(row.get("gmail_draft_id") or row.get("in_doubt"))
    queued = row["status"] == OutboundStatus.QUEUED
    if row["status"] == OutboundStatus.SENDING or (queued and sent_before):
        # The message may have been sent, so a person decides what became of it.
        row.update(status=OutboundStatus.UNKNOWN.value, error=IMPORTED)
    elif queued or row["status"] == OutboundStatus.APPROVED_PENDING:
        row.update(status=OutboundStatus.CANCELED.value, error=IMPORTED)


def _end_run(row: Row, _: int) -> None:
    if row["status"] == RunStatus.RUNNING:
        row.update(status=RunStatus.ERROR.value, error=IMPORTED)


def _end_draft(row: Row, _: int) -> None:
    """Cancel the draft, because the imported mailbox does not have it in Gmail."""
    if row["status"] in (DraftStatus.WRITING, DraftStatus.READY):
        row.update(status=DraftStatus.CANCELED.value, gmail_draft_id="", gmail_message_id="")


def _end_document(row: Row, _: int) -> None:
    """End the reading, because the export has no bytes, and the imported mailbox no attachment."""
    if row["status"] in UNDER_WAY:
        row.update(status=DocumentStatus.UNREADABLE.value, reason=Unread.IMPORTED.value)


# By the model's label: what a row loses when it is exported, and how it changes when imported.
_HIDDEN: dict[str, Callable[[Row], None]] = {"jobs.NotificationEndpoint": _hide_webhook}
_IMPORTED: dict[str, Callable[[Row, int], None]] = {
    "tenants.AuditEntry": _copy_entry,
    "jobs.JobQueue": _end_job,
    "jobs.ScheduleRun": _end_schedule_run,
    "mail.MailAccount": _disconnect,
    "mail.Action": _end_action,
    "mail.Approval": _end_approval,
    "mail.OutboundMessage": _end_outbound,
    "mail.AgentRun": _end_run,
    "mail.Draft": _end_draft,
    "mail.Document": _end_document,
}
