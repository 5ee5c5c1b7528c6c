"""What schemathesis needs to ask this API, for the suite and the soak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zlib import crc32

import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import override_settings
from schemathesis.checks import CHECKS, load_all_checks

from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import SYSTEM_SLUG, Firm, Role
from tests.factories.jobs import WorkerFactory
from tests.factories.tenants import UserFactory, new_member
from tests.jobs.api.conftest import FirmRows
from tests.support.addresses import resource_of
from tests.support.bounds import unbounded
from tests.support.mail_rows import PROFILE, RowsByResource, fill_mail

load_all_checks()
# The API may refuse what the schema allows, such as an invented cursor, or a payload that does not
# fit its job's type.
NOT_HELD: Any = CHECKS.get_by_names(["positive_data_acceptance"])

schema = schemathesis.openapi.from_wsgi("/api/v1/schema/?format=json", get_wsgi_application())


# Values that the schema cannot describe, and that are hardly ever generated.
_LATER = ["2030-01-01T09:00:00Z", "2030-03-31T02:30:00+02:00"]
PLAUSIBLE: dict[str, list[Any]] = {
    "actions": [
        [{"action": "star", "parameters": {}}],
        [{"action": "apply_label", "parameters": {"label": "Prices"}}],
        [{"action": "forward", "parameters": {"to": "ben@example.org"}}],
    ],
    "at": _LATER,
    "conditions": [
        {"type": "subject_contains", "value": "price"},
        {"op": "not", "children": [{"type": "label_present", "label": "Label_1"}]},
    ],
    "cron": ["0 9 * * MON-FRI", "30 2 31 * *"],
    "due_at": _LATER,
    "expires_at": _LATER,
    "filter": [{}],
    "job_type": ["noop", "draft", "sync.gmail"],
    "match": [{"all": True}, {"sender_domain": "example.org"}, {"header_match": {"X-Shop": "."}}],
    "scope_ref": ["example.org", "ann@example.org"],
    "time_zone": ["Europe/Vienna", "Pacific/Apia"],
}


@dataclass(frozen=True)
class Targets:
    """Ids and names that exist: `ids` by resource, `fields` by the name of the field."""

    ids: dict[str, list[str]]
    fields: dict[str, list[str]]


def targets_of(queue: FirmRows, owner: Any, readers: tuple[Any, ...] = ()) -> Targets:
    """Give the firm rows of mail, in mailboxes of the owner's; return what requests can ask for."""
    rows: RowsByResource = {
        **_queue_rows(queue),
        **fill_mail(queue.firm, owner, readers),
    }
    ids = {resource: [str(row.pk) for row in found] for resource, found in rows.items()}
    fields = {f"{one}_id": ids[f"{one}s"] for one in ("account", "message", "thread", "job")}
    names = {"firm": [queue.firm.slug], "profile": [PROFILE], "endpoint": ids["endpoints"]}
    return Targets(ids, {**fields, **names})


def _queue_rows(rows: FirmRows) -> RowsByResource:
    worker = WorkerFactory(job_types=["noop"], running=[str(rows.dead.pk)])
    return {
        "jobs": [rows.dead, rows.waiting],
        "dlq": [rows.dead_letter],
        "locks": [rows.lock],
        "pauses": [rows.pause],
        "rate-limits": [rows.rate_limit],
        "breakers": [rows.breaker],
        "batches": [rows.batch],
        "bulk-runs": [rows.bulk_run],
        "endpoints": [rows.endpoint],
        "schedules": [rows.schedule, rows.paused_schedule],
        "workers": [worker],
    }


def aim(case: schemathesis.Case[Any], targets: Targets) -> None:
    """Replace every other generated id by one that exists, because the others only lead to 404."""
    ids = targets.ids.get(resource_of(case.path), [])
    for name, made_up in case.path_parameters.items():
        with suppress(ValueError):
            UUID(str(made_up))
            case.path_parameters[name] = _aimed(made_up, ids)
    # What the schema forbids is not replaced, because it has to be refused.
    if case.meta is None or case.meta.generation.mode.is_positive:
        fields = {**PLAUSIBLE, **targets.fields, "ids": ids}
        for part in (case.query, case.body):
            if isinstance(part, dict):
                part.update(_aimed_below(part, fields))


def _aimed_below(part: Any, fields: dict[str, list[Any]]) -> Any:
    """Return the same structure, with the values of known fields replaced at any depth."""
    if isinstance(part, list):
        return [_aimed_below(one, fields) for one in part]
    if not isinstance(part, dict):
        return part
    aimed = {name: _aimed_below(one, fields) for name, one in part.items()}
    for name in aimed.keys() & fields.keys():
        one = aimed[name]
        each = name == "ids" and isinstance(one, list)
        aimed[name] = (
            [_aimed(id_, fields[name]) for id_ in one] if each else _aimed(one, fields[name])
        )
    return aimed


def _aimed(made_up: Any, existing: list[Any]) -> Any:
    """Return an existing value for every other generated one; the same one each time."""
    if not existing or made_up is None:
        return made_up
    number = crc32(repr(made_up).encode(errors="replace"))
    return existing[number // 2 % len(existing)] if number % 2 else made_up


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep requests in this transaction, without bounds, with every setting that they need."""
    topic = "projects/mailroom/topics/gmail"
    with one_connection(), unbounded(), override_settings(GMAIL_PUBSUB_TOPIC=topic):
        yield


@contextmanager
def undone() -> Iterator[None]:
    """Undo what is done inside the block, so that each request finds the same rows."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def issued(firm: Firm, role: Role | None) -> tuple[Any, str]:
    """Return a new member and their API key; without a role, staff with a key to every firm."""
    if role is None:
        staff = UserFactory(username=f"staff-{firm.slug}", platform_staff=True)
        every = Firm.objects.get(slug=SYSTEM_SLUG)
        return staff, keys.issue(staff, every, Role.ADMIN, lifetime=None, by=SERVICE)[0]
    user = new_member(firm, role, f"fuzzing-{role}")
    return user, keys.issue(user, firm, role, lifetime=None, by=SERVICE)[0]


@contextmanager
def one_connection() -> Iterator[None]:
    """Keep the connection, and so the transaction around the requests, from one to the next."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)
