"""Rows of fan-ins: the job to enqueue is kept validated, with those that follow it in a chain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.new_job import NewJob
from jobs.engine.transactions import run
from jobs.models import JobQueue
from jobs.states import CountedBy

# What a row keeps of the job; `parent_id` is the job that requested it.
JOB_COLUMNS = (
    "firm_id",
    "parent_id",
    "user_id",
    "category",
    "job_type",
    "payload_version",
    "payload",
    "correlation_id",
    "priority",
    "max_attempts",
    "delay",
    "lock_key",
    "lock_limit",
    "lock_counted_by",
    "limit_key",
    "limit_units",
    "idempotency_key",
    "once_only",
    "unique_for",
)


def store_fan_in(
    then: NewJob, name: str, *, only_completed: bool = False, rest: Sequence[NewJob] = ()
) -> UUID:
    """Store a fan-in without members and return its id; `rest` follows `then` in a chain."""
    dialect = dialects.current()
    fan_in_id: UUID = uuid7()
    kept = {column: getattr(then, column) for column in JOB_COLUMNS}
    kept["parent_id"] = dialect.value(Column.UUID, then.parent_id)
    kept["user_id"] = _user_field().get_db_prep_value(then.user_id, connection)
    chain = json.dumps([job_to_json(job) for job in rest])
    casts = {"payload": dialect.json_cast}
    values = ", ".join(f"%s{casts.get(column, '')}" for column in JOB_COLUMNS)
    run(
        f"""
        INSERT INTO jobs_fanin (id, name, created_at, only_completed, rest, {", ".join(JOB_COLUMNS)})
        VALUES (%s, %s, {dialect.now_sql()}, %s, %s{dialect.json_cast}, {values})
        """,
        [dialect.value(Column.UUID, fan_in_id), name, only_completed, chain, *kept.values()],
    )
    return fan_in_id


def delete_fan_in(parent_id: UUID, firm_id: int, name: str) -> None:
    """Delete the fan-in of this name that the job requested, if there is one, with its members."""
    found = (
        "SELECT f.id FROM jobs_fanin f WHERE f.firm_id = %s AND f.parent_id = %s AND f.name = %s"
    )
    params = [firm_id, dialects.current().value(Column.UUID, parent_id), name]
    run(f"DELETE FROM jobs_faninmember WHERE fan_in_id IN ({found})", params)
    run(f"DELETE FROM jobs_fanin WHERE id IN ({found})", params)


def fan_in_columns_sql() -> str:
    """Return the columns of `jobs_fanin f` that `read_fan_in` reads."""
    text = dialects.current().json_text_sql
    columns = (text("f.payload") if one == "payload" else f"f.{one}" for one in JOB_COLUMNS)
    return ", ".join(["f.id", text("f.rest"), *columns])


def read_fan_in(row: Sequence[object]) -> tuple[UUID, NewJob, list[NewJob]]:
    """Return the fan-in's id, the job to enqueue, and the jobs that follow it."""
    dialect = dialects.current()
    fan_in_id, rest, *kept = row
    values = dict(zip(JOB_COLUMNS, kept, strict=True))
    values["parent_id"] = dialect.read_uuid(values["parent_id"]) if values["parent_id"] else None
    then = _new_job(values)
    return (
        dialect.read_uuid(fan_in_id),
        then,
        [job_from_json(one, then.firm_id) for one in json.loads(str(rest))],
    )


def job_to_json(job: NewJob) -> dict[str, object]:
    """Return what a row keeps of a job that is enqueued later."""
    left_out = ("firm_id", "parent_id")
    values = {name: getattr(job, name) for name in JOB_COLUMNS if name not in left_out}
    if job.lock_counted_by == CountedBy.FIRM:
        # Workers of the previous version refuse names that they do not know.
        del values["lock_counted_by"]
    return {**values, "user_id": None if job.user_id is None else str(job.user_id)}


def job_from_json(kept: dict[str, object], firm_id: int) -> NewJob:
    """Return the job, with an id of its own."""
    return _new_job({"firm_id": firm_id, **kept})


def _new_job(values: dict[str, object]) -> NewJob:
    values["user_id"] = _user_field().to_python(values["user_id"])
    values["once_only"] = bool(values["once_only"])
    return NewJob(job_id=uuid7(), **values)  # type: ignore[arg-type]  # rows are untyped


def _user_field() -> Any:
    return JobQueue._meta.get_field("user").target_field
