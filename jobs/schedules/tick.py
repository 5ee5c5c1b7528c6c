"""Runs schedules: turns a slot into jobs, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from django.db import DatabaseError, transaction

from jobs import registry
from jobs.engine.enqueue import EnqueueSpec, enqueue_for_firms
from jobs.engine.redaction import redact
from jobs.engine.transactions import goes_on_after, in_transaction
from jobs.errors import Fault, PayloadInvalid
from jobs.models import Schedule
from jobs.schedules.cron import TimetableInvalid, timetable_of
from jobs.schedules.groups import Member, Reach, find_group
from jobs.schedules.slots import anything_due, move_on, take_due
from jobs.states import MissedRuns, ScheduleTarget
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import all_firms

# A slot no later than this runs even where missed runs are skipped.
GRACE_SECONDS = 60.0
# Schedules in one transaction, and members of a group in one batch of jobs.
BATCH = 20
PAGE = 500
MAX_ERROR_LENGTH = 1000


@dataclass(frozen=True)
class Fired:
    """What came of one due schedule: its slot and how many jobs it led to (None: skipped)."""

    schedule_id: str
    job_type: str
    slot: datetime | None
    jobs: int | None = None
    error: str = ""


def tick() -> list[Fired]:
    """Enqueue what is due now, at most a batch of schedules; any number of workers may do so.

    The jobs of a slot and the schedule's move to its next one are one transaction.

    Raises:
        DatabaseError: nothing happened; the next tick will find the same.
    """
    known = [declared.name for declared in registry.all_types()]
    if not known or not anything_due(known):
        return []
    return in_transaction(lambda: [_run(row, now) for row, now in take_due(known, BATCH)])


def slot_key(schedule: Schedule, slot: datetime) -> str:
    """Return the name of a slot: the correlation id of its jobs, and the start of their keys."""
    return f"schedule:{schedule.pk}:{slot.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def enqueue_run(schedule: Schedule, key: str, *, correlation_id: str | None) -> int:
    """Enqueue one run of the schedule for each of its members; return how many jobs that made.

    Raises:
        PayloadInvalid: the type refuses the payload of a member.
        ValueError: the group is unknown here, or names another firm's members.
    """
    if not isinstance(schedule.payload, Mapping):
        fault = Fault("payload", "wrong_type", "must be an object")
        raise PayloadInvalid(schedule.job_type, [fault])
    made = 0
    with all_firms("a schedule of the system firm reaches every firm"):
        members = _members(schedule)
        while page := list(islice(members, PAGE)):
            results = enqueue_for_firms(
                [
                    (member.firm_id, _spec(schedule, member, key, correlation_id))
                    for member in _of_active_firms(page)
                ]
            )
            made += sum(result.created for result in results)
    return made


def _run(schedule: Schedule, now: datetime) -> Fired:
    """Run or skip what is due of one schedule, and move it on."""
    try:
        timetable = timetable_of(schedule)
        slot = timetable.latest(schedule.next_run_at, now)
        following = timetable.first_after(now, anchor=slot)
    except TimetableInvalid as invalid:
        # Nobody can tell when it is due again: it stands until somebody mends it.
        move_on(schedule, None, ran=False, error=f"{invalid.field}: {invalid}")
        return Fired(str(schedule.pk), schedule.job_type, None, error=str(invalid))
    late = (now - slot).total_seconds()
    if schedule.missed_runs == MissedRuns.SKIP and late > GRACE_SECONDS:
        move_on(schedule, following, ran=False, error=None)
        return Fired(str(schedule.pk), schedule.job_type, slot)
    jobs, error = _enqueue_slot(schedule, slot)
    if not move_on(schedule, following, ran=not error, error=error):
        raise RuntimeError(f"schedule {schedule.pk} was moved by somebody who did not lock it")
    return Fired(str(schedule.pk), schedule.job_type, slot, jobs, error)


def _enqueue_slot(schedule: Schedule, slot: datetime) -> tuple[int, str]:
    """Return how many jobs the slot led to, and why it led to none."""
    key = slot_key(schedule, slot)
    try:
        with transaction.atomic():
            return enqueue_run(schedule, key, correlation_id=key), ""
    except Exception as error:
        # A group's own code may fail in any way, and the other schedules must run all the same.
        if isinstance(error, DatabaseError) and not goes_on_after(error):
            raise
        return 0, redact(f"{type(error).__name__}: {error}", MAX_ERROR_LENGTH)


def _members(schedule: Schedule) -> Iterator[Member]:
    own = None if schedule.firm.is_system else schedule.firm_id
    match ScheduleTarget(schedule.target):
        case ScheduleTarget.FIRM:
            yield Member(schedule.firm_id, key="")
        case ScheduleTarget.EVERY_FIRM:
            yield from _firms() if own is None else ()
        case ScheduleTarget.EVERY_MEMBER:
            group = find_group(schedule.group_name)
            if group is None:
                raise ValueError(f"no group {schedule.group_name!r} is registered here")
            for member in group.resolver(Reach(own, schedule.job_type, schedule.payload)):
                if own is not None and member.firm_id != own:
                    raise ValueError(f"group {group.name} named a member of another firm")
                yield member


def _firms() -> Iterator[Member]:
    """Return every firm but the system firm, in pages."""
    last = 0
    firms = Firm.objects.exclude(slug=SYSTEM_SLUG).order_by("pk")
    while ids := list(firms.filter(pk__gt=last).values_list("pk", flat=True)[:PAGE]):
        yield from (Member(pk, key=str(pk)) for pk in ids)
        last = ids[-1]


def _of_active_firms(page: list[Member]) -> list[Member]:
    firms = {member.firm_id for member in page}
    active = set(Firm.objects.filter(pk__in=firms, active=True).values_list("pk", flat=True))
    return [member for member in page if member.firm_id in active]


def _spec(schedule: Schedule, member: Member, key: str, correlation_id: str | None) -> EnqueueSpec:
    own_key = f"{key}:{member.key}" if member.key else key
    return EnqueueSpec(
        schedule.job_type,
        {**schedule.payload, **member.payload},
        priority=schedule.priority,
        idempotency_key=member.idempotency_key or own_key,
        correlation_id=correlation_id,
    )
