"""What people do with agents' timetables, and how due ones reach the queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.queue import EnqueueSpec
from jobs.registry.timetable import TimetableInvalid
from mail.errors import AgentScheduleInvalid
from mail.models import AgentProfile, AgentSchedule, Connection, MailAccount
from mail.models.agent_schedule import MAX_NAME_LENGTH, MAX_PROMPT_LENGTH
from mail.services import timetables
from mail.services.dates import enqueue_due_rows
from mail.services.operation import audit, on_locked_row, save_named
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor
from tenants.models import Firm, Membership
from tenants.scope import firm_or_all, firm_scope

INVOCATION_TYPE = "agent_invocation"
LEFT_FIRM = "The person it runs for is no longer a member of the firm"
PERSON_INACTIVE = "The person it runs for is inactive"
ONLY_DATE_PAST = "is past, and it is the only one: give one in the future"
PRIVATE_PROMPT = "(private: the timetable says it to readers of the mailbox)"
DEFAULTS: dict[str, Any] = {**timetables.DEFAULTS, "enabled": True}
SETTINGS = ("name", "prompt", "account_id", "profile_id", *DEFAULTS)


def create_agent_schedule(
    firm_id: int, *, by: Actor = SERVICE, user_id: int | None = None, **settings: Any
) -> AgentSchedule:
    """Store a timetable; the agent runs on behalf of the user `user_id`, or of nobody.

    Raises:
        AgentScheduleInvalid: a setting cannot be used.
    """
    with firm_scope(firm_id):
        if user_id is not None and not Membership.objects.filter(user_id=user_id).exists():
            raise AgentScheduleInvalid([fault("user", "is no member of the firm")])
        schedule = AgentSchedule(firm_id=firm_id, user_id=user_id)
        _set(schedule, {**DEFAULTS, **settings}, plans=True)
        save_named(schedule, AgentScheduleInvalid, "schedule")
        audit("agent_schedule.create", schedule, by, after=_settings(schedule))
    return schedule


@on_locked_row
def change_agent_schedule(
    schedule: AgentSchedule, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> AgentSchedule:
    """Change settings; the next run uses the new ones.

    Raises:
        AgentScheduleInvalid: a setting cannot be used.
        RowGone: the timetable is deleted.
    """
    before = {name: getattr(schedule, name) for name in SETTINGS}
    shown = _settings(schedule)
    changed = {name for name, value in settings.items() if value != before[name]}
    switched_on = "enabled" in changed and settings["enabled"]
    if switched_on:
        schedule.stopped = why_stopped(schedule)
        if schedule.stopped:
            raise AgentScheduleInvalid([fault("enabled", schedule.stopped)])
    plans = not changed.isdisjoint(timetables.DATES)
    _set(schedule, timetables.merged(before, settings, plans=plans), plans=plans)
    if switched_on and not plans:
        _pass_over(schedule)
    schedule.changed_at = timezone.now()
    save_named(schedule, AgentScheduleInvalid, "schedule")
    audit("agent_schedule.change", schedule, by, reason, before=shown, after=_settings(schedule))
    return schedule


@on_locked_row
def delete_agent_schedule(
    schedule: AgentSchedule, *, by: Actor = SERVICE, reason: str = ""
) -> None:
    """Delete a timetable; its runs stay.

    Raises:
        RowGone: the timetable is deleted already.
    """
    audit("agent_schedule.delete", schedule, by, reason, before=_settings(schedule))
    schedule.delete()


def enqueue_due_agents(checkpoint: Callable[[], None], firm: Firm | None = None) -> int:
    """Enqueue the runs that are due, as `enqueue_due_rows` does; return how many jobs.

    Runs in inactive mailboxes and of inactive profiles wait until these are active again. If the
    person of a timetable is inactive or has left the firm, it is switched off, and `stopped` says
    why.
    """
    _stop_deserted(firm)
    return enqueue_due_rows(_due, _specs, checkpoint=checkpoint, firm=firm)


def account_of_schedule(schedule_id: UUID) -> UUID | None:
    """Return the timetable's mailbox, None if that is gone. Must run in the firm's scope."""
    found = AgentSchedule.objects.filter(pk=schedule_id).values_list("account_id", flat=True)
    return found.first()


def why_stopped(schedule: AgentSchedule) -> str:
    """Return why the timetable's person can have nothing run; empty if they can or it has none."""
    if schedule.user is None:
        return ""
    if not Membership.objects.filter(firm_id=schedule.firm_id, user=schedule.user).exists():
        return LEFT_FIRM
    return "" if schedule.user.is_active else PERSON_INACTIVE


def _stop_deserted(firm: Firm | None) -> None:
    """Switch off the timetables that are due on behalf of people who left."""
    with firm_or_all(firm, "agents' schedules of people who left"):
        due = AgentSchedule.objects.filter(
            ~_has_person(), due_at__lte=database_now(), enabled=True, firm__active=True
        )
        found = list(due.order_by("pk").values_list("firm_id", "pk"))
    for firm_id, pk in found:
        with firm_scope(firm_id):
            rows = AgentSchedule.objects.select_for_update(
                of=("self",), no_key=True
            ).select_related("user")
            locked = rows.filter(pk=pk, enabled=True).first()
            reason = "" if locked is None else why_stopped(locked)
            if locked is None or not reason:
                continue
            locked.enabled, locked.stopped, locked.changed_at = False, reason, timezone.now()
            locked.save(update_fields=["enabled", "stopped", "changed_at"])
            audit("agent_schedule.stop", locked, SERVICE, reason, after=_settings(locked))


def _has_person() -> Q:
    member = Membership.objects.filter(user_id=OuterRef("user_id"), firm_id=OuterRef("firm_id"))
    return Q(user=None) | (Q(user__is_active=True) & Q(Exists(member)))


def _due(now: datetime) -> QuerySet[AgentSchedule]:
    mailbox = Q(account__active=True, account__connection=Connection.CONNECTED)
    owner = Q(account__owner=None) | Q(account__owner__is_active=True)
    found: QuerySet[AgentSchedule] = AgentSchedule.objects.filter(
        _has_person() & mailbox & owner, due_at__lte=now, enabled=True, profile__enabled=True
    )
    return found.select_related("account", "profile", "user")


def _specs(schedule: AgentSchedule, due_at: datetime) -> list[EnqueueSpec]:
    moment = due_at.astimezone(UTC)
    payload: dict[str, Any] = {
        "id": schedule.pk,
        "account_id": schedule.account_id,
        "user_id": schedule.user_id,
        "agent_name": schedule.profile.name,
        # The whole firm may see jobs, but not this mailbox.
        "prompt": schedule.prompt if schedule.account.shared else PRIVATE_PROMPT,
        "config": {"due_at": moment.isoformat()},
    }
    key = f"{INVOCATION_TYPE}:{schedule.pk}:{moment:%Y%m%dT%H%M%S.%fZ}"
    return [EnqueueSpec(INVOCATION_TYPE, payload, user=schedule.user, idempotency_key=key)]


def _set(schedule: AgentSchedule, settings: dict[str, Any], *, plans: bool) -> None:
    faults: list[dict[str, str]] = []
    for name, most in (("name", MAX_NAME_LENGTH), ("prompt", MAX_PROMPT_LENGTH)):
        settings[name] = str(settings.get(name) or "").strip()
        if not 0 < len(settings[name]) <= most or "\0" in settings[name]:
            faults.append(fault(name, f"must have 1 to {most} characters"))
    if not MailAccount.objects.filter(pk=settings.get("account_id")).exists():
        faults.append(fault("account_id", "is no mailbox of the firm"))
    if not AgentProfile.objects.filter(pk=settings.get("profile_id")).exists():
        faults.append(fault("profile_id", "is no agent profile of the firm"))
    for name, value in settings.items():
        setattr(schedule, name, value)
    if plans:
        faults += timetables.plan(schedule)
    if faults:
        raise AgentScheduleInvalid(faults)


def _pass_over(schedule: AgentSchedule) -> None:
    """Leave out the dates that came while it was switched off: the next one is to come."""
    now = database_now()
    if schedule.due_at is None or schedule.due_at > now:
        return
    try:
        timetable = schedule.timetable
        if timetable is None:
            raise AgentScheduleInvalid([fault("due_at", ONLY_DATE_PAST)])
        schedule.due_at = timetable.first_after(now, anchor=schedule.due_at)
    except TimetableInvalid as error:
        raise AgentScheduleInvalid([fault(error.field, str(error))]) from error


def _settings(schedule: AgentSchedule) -> dict[str, Any]:
    shown = {name: getattr(schedule, name) for name in SETTINGS}
    due_at = schedule.due_at
    return {
        **shown,
        "account_id": str(schedule.account_id),
        "profile_id": str(schedule.profile_id),
        "due_at": None if due_at is None else due_at.isoformat(),
    }
