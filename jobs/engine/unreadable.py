"""Finds jobs whose payload this code cannot read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from jobs import registry
from jobs.engine import dialects
from jobs.engine.batches import EVENTS
from jobs.engine.dialects import Column
from jobs.engine.fan_in_rows import fan_in_columns_sql, job_from_json, read_fan_in
from jobs.engine.new_job import NewJob
from jobs.engine.transactions import fetch, reading
from jobs.errors import PayloadInvalid
from jobs.models.base import FIRST_ID
from jobs.payload_validator import parse_payload

CHUNK = 1000


@dataclass(frozen=True)
class Unreadable:
    """A job whose payload this code cannot read, and why.

    A job that is still to be enqueued has the id of the job that it follows.
    """

    job_id: UUID
    job_type: str
    version: str
    why: str


class _Stored(NamedTuple):
    job_id: UUID
    job_type: str
    payload_version: str
    payload: str
    firm_id: int
    addition: str = ""


# Each row's key, in the order of which the rows are read, and its jobs.
_Rows = list[tuple[UUID, list[_Stored]]]


def unreadable_jobs() -> tuple[int, list[Unreadable]]:
    """Return how many live and dead-lettered jobs there are, and those that cannot be read.

    Jobs that are still to be enqueued count, too: those of chains, fan-ins and batches. Each is
    named by the job it follows.
    """
    checked, found = 0, []
    for read in (_jobs, _following_jobs, _callbacks):
        after: UUID | None = FIRST_ID
        while after is not None:
            start = after
            rows = reading(lambda: read(start))  # noqa: B023 - called at once
            for stored in (one for _, several in rows for one in several):
                checked += 1
                if why := _fault(stored):
                    version = stored.payload_version
                    found.append(Unreadable(stored.job_id, stored.job_type, version, why))
            after = rows[-1][0] if len(rows) == CHUNK else None
    return checked, found


def _jobs(after: UUID) -> _Rows:
    dialect = dialects.current()
    rows = fetch(
        f"""
        SELECT job_id, job_type, payload_version, {dialect.json_text_sql("payload")}, firm_id
        FROM jobs_jobqueue
        WHERE job_id > %s AND status IN ('pending', 'claimed', 'processing', 'dlq')
        ORDER BY job_id LIMIT %s
        """,
        [dialect.value(Column.UUID, after), CHUNK],
    )
    jobs = [_Stored(dialect.read_uuid(row[0]), *row[1:]) for row in rows]
    return [(stored.job_id, [stored]) for stored in jobs]


def _following_jobs(after: UUID) -> _Rows:
    dialect = dialects.current()
    rows = fetch(
        f"""
        SELECT {fan_in_columns_sql()} FROM jobs_fanin f
        WHERE f.fired_at IS NULL AND f.id > %s ORDER BY f.id LIMIT %s
        """,
        [dialect.value(Column.UUID, after), CHUNK],
    )
    return [
        (fan_in_id, [_later(job, then.parent_id, "it") for job in (then, *rest)])
        for fan_in_id, then, rest in map(read_fan_in, rows)
    ]


def _callbacks(after: UUID) -> _Rows:
    dialect = dialects.current()
    # Not by the id alone: PostgreSQL would read the members of all batches in this order.
    order = "ORDER BY m.state, m.id"
    first = f"SELECT m.job_id FROM jobs_batchmember m WHERE m.batch_id = b.id {order} LIMIT 1"
    open_events = ", ".join(f"b.{event}_at IS NULL" for event in EVENTS)
    rows = fetch(
        f"""
        SELECT b.id, b.firm_id, ({first}), {dialect.json_text_sql("b.callbacks")}, {open_events}
        FROM jobs_batch b WHERE b.completed_at IS NULL AND b.id > %s ORDER BY b.id LIMIT %s
        """,
        [dialect.value(Column.UUID, after), CHUNK],
    )
    return [
        (
            dialect.read_uuid(batch_id),
            [
                _later(job_from_json(kept[event], firm_id), dialect.read_uuid(job_id), "its batch")
                for kept in [json.loads(callbacks)]
                for event, is_open in zip(EVENTS, are_open, strict=True)
                if is_open and event in kept
            ],
        )
        for batch_id, firm_id, job_id, callbacks, *are_open in rows
    ]


def _later(job: NewJob, follows: Any, what: str) -> _Stored:
    """Return a job that is still to be enqueued, under the id of the job that it follows."""
    version = job.payload_version
    return _Stored(follows, job.job_type, version, job.payload, job.firm_id, f", follows {what}")


def _fault(stored: _Stored) -> str:
    declared = registry.find(stored.job_type)
    if declared is None:
        return f"unknown type{stored.addition}"
    try:
        parse_payload(declared, stored.payload, stored.firm_id)
    except PayloadInvalid as error:
        faults = "; ".join(f"{fault.field}: {fault.code}" for fault in error.faults)
        return f"{faults}{stored.addition}"
    return ""
