"""What is wrong with a schedule."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ValidationError

from interfaces.plain_json import is_text
from jobs import registry
from jobs.engine.redaction import redaction_faults
from jobs.errors import Fault, PayloadInvalid
from jobs.models import Schedule
from jobs.operations.deletion import by_hand_faults
from jobs.payload_validator import text_faults, validate_payload
from jobs.registry.timetable import TimetableInvalid
from jobs.schedules.groups import find_group, group_names

# The fields that each run fills in.
ENVELOPE = ("tenant_id", "correlation_id")
TEXTS = ("name", "job_type", "cron", "time_zone", "group_name")


def schedule_faults(row: Schedule) -> list[Fault]:
    """Return why the schedule could not run, by field."""
    if faults := _type_faults(row):
        return faults
    try:
        row.full_clean(
            exclude=["firm", "next_run_at", "payload"],
            validate_unique=False,
            validate_constraints=False,
        )
    except ValidationError as error:
        faults += [
            Fault(column, "invalid", " ".join(messages))
            for column, messages in error.message_dict.items()
        ]
    try:
        row.timetable()
    except TimetableInvalid as error:
        faults.append(Fault(error.field, "invalid", str(error)))
    return [
        *faults,
        *by_hand_faults(row.job_type),
        *text_faults("name", row.name),
        *_payload_faults(row),
    ]


def _type_faults(row: Schedule) -> list[Fault]:
    """Return which values are of a wrong type.

    The model's own checks turn 60.5, "60" and True into whole numbers, and anything into text.
    """
    faults = [
        Fault(name, "wrong_type", f"must be a string, not {type(value).__name__}")
        for name in TEXTS
        if not is_text(value := getattr(row, name)) and not (name == "cron" and value is None)
    ]
    seconds: object = row.interval_seconds
    if seconds is not None and type(seconds) is not int:
        faults.append(Fault("interval_seconds", "wrong_type", "must be a whole number"))
    if isinstance(row.priority, bool) or not isinstance(row.priority, int):
        faults.append(Fault("priority", "wrong_type", "must be a whole number"))
    if not isinstance(row.payload, Mapping):
        faults.append(Fault("payload", "wrong_type", "must be an object"))
    return faults


def _payload_faults(row: Schedule) -> list[Fault]:
    faults = [
        Fault(f"payload.{name}", "reserved", "is filled in by each run: leave it out")
        for name in ENVELOPE
        if name in row.payload
    ]
    faults += [
        Fault(f"payload.{fault.field}", fault.code, fault.message)
        for fault in redaction_faults(row.payload)
    ]
    group = find_group(row.group_name)
    if row.group_name and group is None:
        known = ", ".join(group_names()) or "none"
        faults.append(
            Fault("group_name", "unknown_group", f"unknown group; the registered ones are: {known}")
        )
    try:
        declared = registry.get(row.job_type)
        payload = {
            "version": declared.version,
            **row.payload,
            "tenant_id": row.firm_id,
            "correlation_id": "schedule",
        }
        validate_payload(row.job_type, payload, firm=row.firm_id)
    except PayloadInvalid as error:
        supplied = group.fields if group is not None else frozenset()
        faults += [
            Fault(
                fault.field if fault.field == "job_type" else f"payload.{fault.field}",
                fault.code,
                fault.message,
            )
            for fault in error.faults
            if not (fault.code == "missing" and fault.field in supplied)
        ]
    return faults
