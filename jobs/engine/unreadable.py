"""Finds jobs whose payload this code cannot read."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from jobs import registry
from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, reading
from jobs.errors import PayloadInvalid
from jobs.models.ids import FIRST_ID
from jobs.payload_validator import parse_payload

CHUNK = 1000


@dataclass(frozen=True)
class Unreadable:
    """A job whose payload this code cannot read, and why."""

    job_id: UUID
    job_type: str
    version: str
    why: str


def unreadable_jobs() -> tuple[int, list[Unreadable]]:
    """Return how many live and dead-lettered jobs there are, and those that cannot be read."""
    checked, found = 0, []
    after: UUID | None = FIRST_ID
    while after is not None:
        start = after
        rows = reading(lambda: _chunk(start))  # noqa: B023 - called at once
        checked += len(rows)
        for job_id, job_type, version, payload, firm_id in rows:
            why = _fault(job_type, payload, firm_id)
            if why:
                found.append(Unreadable(job_id, job_type, version, why))
        after = rows[-1][0] if len(rows) == CHUNK else None
    return checked, found


def _chunk(after: UUID) -> list[tuple[UUID, str, str, str, int]]:
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
    return [(dialect.read_uuid(row[0]), *row[1:]) for row in rows]


def _fault(job_type: str, payload: str, firm_id: int) -> str:
    declared = registry.find(job_type)
    if declared is None:
        return "unknown type"
    try:
        parse_payload(declared, payload, firm_id)
    except PayloadInvalid as error:
        return "; ".join(f"{fault.field}: {fault.code}" for fault in error.faults)
    return ""
