"""What the queue's admin pages share: labels, facts, ages by the database's time, links, masked JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from interfaces.admin.base import clipped, column
from interfaces.admin.operations import Answers, Operation, OperationRefused
from interfaces.moments import iso
from jobs import registry
from jobs.engine.clock import database_now
from jobs.engine.redaction import Redactor, canonical_json, redact_secrets, redact_values
from jobs.errors import (
    EditInvalid,
    EndpointInvalid,
    JobError,
    LimitInvalid,
    PayloadInvalid,
    ScheduleInvalid,
)
from jobs.queries.durations import since_in_words
from tenants.admin.base import access_in
from tenants.audit import Actor
from tenants.models import Firm, Role
from tenants.scope import Scope, current_scope

# Unfold's label variant, a colour, for each word that names a state.
LABELS: dict[str, str] = {
    **dict.fromkeys(("canceled", "discarded", "closed", "over", "paused", "stopped"), "default"),
    **dict.fromkeys(("nothing", "skipped"), "default"),
    **dict.fromkeys(("pending", "snoozed", "released", "sending"), "info"),
    **dict.fromkeys(("unknown_type", "invalid_payload"), "info"),
    **dict.fromkeys(("claimed", "processing", "running"), "primary"),
    **dict.fromkeys(("completed", "reprocessed", "live", "runs"), "success"),
    **dict.fromkeys(("delivered", "enabled"), "success"),
    **dict.fromkeys(("retried", "rescued", "exhausted", "stale"), "warning"),
    **dict.fromkeys(("escalated", "silent", "half open", "holds"), "warning"),
    **dict.fromkeys(("failed", "dlq", "dead_lettered", "fatal", "poison"), "danger"),
    **dict.fromkeys(("open", "dead", "fails", "canary failed", "refused"), "danger"),
    "disabled": "default",
}
ERROR_LENGTH = 200

# The last time that was read, and the scope it was read in.
_read: ContextVar[tuple[Scope, datetime] | None] = ContextVar("page_time", default=None)


@dataclass(frozen=True)
class Fact:
    """One line of the facts beside a row's page; shown if it has a value."""

    label: str
    value: object
    href: str = ""
    is_code: bool = False


def copyable(value: object) -> SafeString:
    """Return a text that a click copies, such as an id: whole, so that the search accepts it."""
    return format_html(
        '<button type="button" class="queue-copy queue-code" data-copy="{0}" title="Copy">{0}</button>',
        value,
    )


def age(moment: datetime | None) -> SafeString | str:
    """Return how long ago `moment` was; the exact time shows on hover."""
    if moment is None:
        return "-"
    return timed(moment, since_in_words(moment, page_time()))


def timed(moment: datetime, words: str) -> SafeString:
    """Return what `words` say of a time; the exact time shows on hover."""
    return format_html('<time datetime="{0}" title="{0}">{1}</time>', iso(moment), words)


def age_column(description: str, field: str) -> Callable[[Any, Any], Any]:
    """Return a list column with the age of a row's time."""
    return column(description, lambda row: age(getattr(row, field)))


def exact(moment: datetime | None) -> str | None:
    """Return the time to the second, in UTC."""
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def job_url(job_id: UUID | str | None) -> str:
    """Return the address of a job's page."""
    return "" if job_id is None else reverse("admin:jobs_jobqueue_change", args=[job_id])


def list_url(model: str, **filters: str) -> str:
    """Return the address of a list of the queue, with these filters."""
    address = reverse(f"admin:jobs_{model}_changelist")
    return f"{address}?{urlencode(filters)}" if filters else address


def link(url: str, text: object) -> SafeString:
    """Return a link."""
    return format_html('<a class="queue-link" href="{}">{}</a>', url, text)


def error_line(text: str) -> SafeString | str:
    """Return the first line of an error, cut to fit a list; the whole line shows on hover."""
    line = text.strip().partition("\n")[0][:ERROR_LENGTH]
    return clipped(line) if line else "-"


def firm_name(row: Any) -> str:
    """Return the name of the row's firm, its id if the firm is gone."""
    try:
        return str(row.firm.name)
    except Firm.DoesNotExist:
        return f"{row.firm_id} (gone)"


def payload_mask(request: HttpRequest, firm_id: int) -> Redactor:
    """Return the mask for this user: it hides secrets from operators, every value from viewers."""
    may_read = access_in(request).may(Role.OPERATOR, firm_id)
    return redact_secrets if may_read else redact_values


def pretty_json(value: object, mask: Redactor = redact_secrets) -> str:
    """Return JSON data, masked and indented."""
    return json.dumps(mask(value), ensure_ascii=False, indent=2, default=str)


def digest(shown: object) -> str:
    """Return a digest of what a form shows, by which its answer tells whether that has changed.

    It is keyed, so that nobody can find out a masked secret by the digests of guesses.
    """
    return salted_hmac("jobs.admin.digest", canonical_json(shown), algorithm="sha256").hexdigest()


def type_choices() -> list[tuple[str, str]]:
    """Return the registered types; reading them from the rows would read the whole history."""
    return [(declared.name, declared.name) for declared in registry.all_types()]


def page_time() -> datetime:
    """Return the database's time; a scope, such as that of a request, reads it once.

    A request has one scope in all its steps. Under ASGI, Django's signals cannot mark its beginning
    in a context variable, since each of their receivers runs in a copy of the context.
    """
    scope, known = current_scope(), _read.get()
    if known is not None and known[0] is scope:
        return known[1]
    now = database_now()
    _read.set(None if scope is None else (scope, now))
    return now


@dataclass(frozen=True, kw_only=True)
class QueueOperation(Operation):
    """An operation that calls `jobs.operations`."""

    def run(self, row: Any, answers: Answers, by: Actor) -> Any:
        """Perform the operation.

        Raises:
            OperationRefused: the queue refuses it; the error names the form's wrong field, if any.
        """
        try:
            return super().run(row, answers, by)
        except PayloadInvalid as error:
            raise _invalid("payload", *map(str, error.faults)) from error
        except (LimitInvalid, EditInvalid, EndpointInvalid) as error:
            fault = error.faults[0]
            raise _invalid(fault.field or None, f"{capfirst(fault.message)}.") from error
        except ScheduleInvalid as error:
            fields = {fault.field.partition(".")[0] for fault in error.faults}
            field = fields.pop() if len(fields) == 1 and fields <= set(answers) else None
            lines = [
                fault.message if fault.field == field else str(fault) for fault in error.faults
            ]
            raise _invalid(field, *lines) from error
        except JobError as error:
            raise OperationRefused(f"Nothing was done: {error}.") from error


def _invalid(field: str | None, *lines: str) -> OperationRefused:
    return OperationRefused(*lines, field=field, status=HTTPStatus.BAD_REQUEST)
