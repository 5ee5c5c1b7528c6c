"""What people do with their reminders: make, change, cancel, delete."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, QuerySet, When
from django.utils import timezone

from mail.errors import ReminderInvalid, WrongState
from mail.models import Reminder, ReminderStatus
from mail.models.reminder import MAX_BODY_LENGTH, MAX_TITLE_LENGTH
from mail.services import timetables
from mail.services.operation import audit, on_locked_row
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor
from tenants.models import Membership
from tenants.scope import firm_scope

DEFAULTS: dict[str, Any] = {"body": "", **timetables.DEFAULTS}
SETTINGS = ("title", *DEFAULTS)


def create_reminder(
    firm_id: int, user_id: int, *, by: Actor = SERVICE, **settings: Any
) -> Reminder:
    """Store a reminder of a person; without `due_at` it is first due by its timetable.

    Raises:
        ReminderInvalid: a setting cannot be used.
    """
    with firm_scope(firm_id):
        if not Membership.objects.filter(user_id=user_id).exists():
            raise ReminderInvalid([fault("firm", "the person is no member of it")])
        reminder = Reminder(firm_id=firm_id, user_id=user_id)
        _set(reminder, {**DEFAULTS, **settings}, plans=True)
        reminder.save()
        _audit("reminder.create", reminder, by)
    return reminder


@on_locked_row
def change_reminder(
    reminder: Reminder, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> Reminder:
    """Change settings; new dates replace the old ones, even those that are enqueued already.

    Raises:
        ReminderInvalid: a setting cannot be used.
        RowGone: it is deleted.
        WrongState: it is canceled, or withdrawn.
    """
    if reminder.status in (ReminderStatus.CANCELED, ReminderStatus.WITHDRAWN):
        raise WrongState(f"The reminder is {reminder.status}.")
    before = {name: getattr(reminder, name) for name in SETTINGS}
    changed = {name for name, value in settings.items() if value != before[name]}
    plans = not changed.isdisjoint(timetables.DATES)
    _set(reminder, timetables.merged(before, settings, plans=plans), plans=plans)
    reminder.changed_at = timezone.now()
    reminder.save()
    _audit("reminder.change", reminder, by, reason, changed=sorted(changed))
    return reminder


@on_locked_row
def cancel_reminder(reminder: Reminder, *, by: Actor = SERVICE, reason: str = "") -> Reminder:
    """Cancel the reminder; dates that are enqueued already are skipped.

    Raises:
        RowGone: it is deleted.
        WrongState: it has no further dates.
    """
    if reminder.status != ReminderStatus.ACTIVE:
        raise WrongState("The reminder has no further deliveries.")
    reminder.status, reminder.due_at = ReminderStatus.CANCELED, None
    reminder.changed_at = timezone.now()
    reminder.save()
    _audit("reminder.cancel", reminder, by, reason)
    return reminder


@on_locked_row
def delete_reminder(reminder: Reminder, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete the reminder; dates that are enqueued already are skipped.

    Raises:
        RowGone: it is deleted.
    """
    _audit("reminder.delete", reminder, by, reason)
    reminder.delete()


def with_readability(rows: QuerySet[Any], user_id: Any) -> QuerySet[Any]:
    """Annotate each row with whether the user may read its text, as `is_readable`."""
    own = Case(When(user_id=user_id, then=True), default=False)
    marked: QuerySet[Any] = rows.annotate(is_readable=own)
    return marked


def _set(reminder: Reminder, settings: dict[str, Any], *, plans: bool) -> None:
    faults: list[dict[str, str]] = []
    title = " ".join(str(settings.get("title") or "").split())
    body = str(settings["body"] or "").strip()
    if not 0 < len(title) <= MAX_TITLE_LENGTH or not title.isprintable():
        text = f"must be one line of 1 to {MAX_TITLE_LENGTH} characters"
        faults.append(fault("title", text))
    if len(body) > MAX_BODY_LENGTH or "\0" in body:
        faults.append(fault("body", f"must have at most {MAX_BODY_LENGTH} characters"))
    for name, value in {**settings, "title": title, "body": body}.items():
        setattr(reminder, name, value)
    if plans:
        faults += timetables.plan(reminder)
        reminder.status, reminder.planned_at = ReminderStatus.ACTIVE, timezone.now()
    if faults:
        raise ReminderInvalid(faults)


def _audit(
    operation: str,
    reminder: Reminder,
    by: Actor,
    reason: str = "",
    *,
    changed: list[str] | None = None,
) -> None:
    """Record who did it, without the reminder's text, which only its person may read."""
    due_at = None if reminder.due_at is None else reminder.due_at.isoformat()
    after = {"status": str(reminder.status), "due_at": due_at}
    audit(
        operation,
        reminder,
        by,
        reason,
        after=after if changed is None else {**after, "changed": changed},
    )
