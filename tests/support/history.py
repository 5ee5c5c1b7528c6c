"""Records every change of a job's status or token by a trigger, so that no write is missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from jobs.engine import dialects
from jobs.states import Status

CREATE = {
    "postgresql": (
        """CREATE TABLE test_transition (id bigserial PRIMARY KEY, job_id uuid, was text,
            became text, old_token bigint, new_token bigint)""",
        """CREATE FUNCTION test_note_transition() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO test_transition (job_id, was, became, old_token, new_token)
                VALUES (OLD.job_id, OLD.status, NEW.status, OLD.lease_token, NEW.lease_token);
                RETURN NULL;
            END $$""",
        """CREATE TRIGGER test_note AFTER UPDATE ON jobs_jobqueue FOR EACH ROW
            WHEN (OLD.status <> NEW.status OR OLD.lease_token <> NEW.lease_token)
            EXECUTE FUNCTION test_note_transition()""",
    ),
    "sqlite": (
        """CREATE TABLE test_transition (id integer PRIMARY KEY, job_id text, was text,
            became text, old_token integer, new_token integer)""",
        """CREATE TRIGGER test_note AFTER UPDATE ON jobs_jobqueue
            WHEN OLD.status <> NEW.status OR OLD.lease_token <> NEW.lease_token
            BEGIN
                INSERT INTO test_transition (job_id, was, became, old_token, new_token)
                VALUES (OLD.job_id, OLD.status, NEW.status, OLD.lease_token, NEW.lease_token);
            END""",
    ),
}
DROP = {
    "postgresql": (
        "DROP TRIGGER IF EXISTS test_note ON jobs_jobqueue",
        "DROP FUNCTION IF EXISTS test_note_transition",
        "DROP TABLE IF EXISTS test_transition",
    ),
    "sqlite": ("DROP TRIGGER IF EXISTS test_note", "DROP TABLE IF EXISTS test_transition"),
}


@dataclass(frozen=True)
class Transition:
    """One change of a job's row."""

    job_id: UUID
    was: Status
    became: Status
    old_token: int
    new_token: int

    @property
    def is_claim(self) -> bool:
        """Whether a worker claimed the job."""
        return self.became is Status.CLAIMED and self.was is not Status.CLAIMED


@contextmanager
def recorded_history() -> Iterator[None]:
    """Record the transitions inside the block."""
    _execute(DROP)
    _execute(CREATE)
    try:
        yield
    finally:
        _execute(DROP)


def transitions(job_id: UUID | None = None) -> list[Transition]:
    """Return the recorded transitions, of one job if given, oldest first."""
    read_uuid = dialects.current().read_uuid
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job_id, was, became, old_token, new_token FROM test_transition ORDER BY id"
        )
        recorded = [
            Transition(read_uuid(row[0]), Status(row[1]), Status(row[2]), row[3], row[4])
            for row in cursor.fetchall()
        ]
    return [one for one in recorded if job_id in (None, one.job_id)]


def _execute(statements: dict[str, tuple[str, ...]]) -> None:
    with connection.cursor() as cursor:
        for statement in statements[connection.vendor]:
            cursor.execute(statement)
