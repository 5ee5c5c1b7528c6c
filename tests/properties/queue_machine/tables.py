"""The queue's tables as values that can be compared, from the database or from the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.models.base import unpack_ids
from jobs.models.history import COUNTED
from tests.properties.queue_machine.state import Seconds, State

# The moment at which the model's clock starts.
START = datetime(2030, 1, 1, tzinfo=UTC)

EMPTIED = (
    "jobs_deadletterqueue",
    "jobs_concurrencylock",
    "jobs_attempt",
    "jobs_jobminute",
    "jobs_jobminutedelta",
    "jobs_idempotencykey",
    "jobs_worker",
    "jobs_jobqueue",
)


class JobRow(NamedTuple):
    """The columns of a job that the model predicts."""

    status: str
    attempts: int
    deaths: int
    series: int
    priority: int
    ready: bool
    waiting: bool
    live_key: str | None
    lock_key: str | None
    scheduled: Seconds | None
    completed: Seconds | None
    token: int
    worker: UUID | None
    cancel_requested: bool


@dataclass(frozen=True)
class Tables:
    """The tables of the queue, as far as the model predicts them."""

    jobs: dict[UUID, JobRow]
    # The job that holds each slot, by firm, lock key and slot.
    locks: dict[tuple[int, str, int], UUID]
    # Reason and resolution, by job and series.
    letters: dict[tuple[UUID, int], tuple[str, str]]
    # How often each attempt ended so: job, series, number and end.
    history: Counter[tuple[UUID, int, int, str]]
    # By firm, category, minute and what is counted.
    counters: dict[tuple[int, str, int, str], int]
    workers: dict[UUID, tuple[Seconds | None, frozenset[str], bool]]
    once_keys: dict[tuple[int, str], UUID]
    # The fencing tokens of the locks, which the model does not have.
    fences: frozenset[int] = field(default=frozenset(), metadata={"predicted": False})

    def differences(self, other: Tables) -> list[str]:
        """Return where the tables differ, as lines for the message of a failure."""
        return [
            f"{table.name} {place}: {mine.get(place)}, {theirs.get(place)}"
            for table in fields(self)
            if table.metadata.get("predicted", True)
            for mine, theirs in [(getattr(self, table.name), getattr(other, table.name))]
            for place in sorted({*mine, *theirs}, key=repr)
            if mine.get(place) != theirs.get(place)
        ]


def expected(state: State) -> Tables:
    """Return the tables that the model predicts."""
    return Tables(
        jobs={
            job.job_id: JobRow(
                status=job.status.value,
                attempts=job.attempts,
                deaths=job.deaths,
                series=job.series,
                priority=job.priority,
                ready=job.ready,
                waiting=job.live and not job.ready,
                live_key=job.key if job.live else None,
                lock_key=job.lock_key,
                scheduled=job.scheduled,
                completed=job.completed,
                token=job.token,
                worker=job.worker,
                cancel_requested=job.cancel_requested,
            )
            for job in state.jobs.values()
        },
        locks={
            (job.firm_id, job.lock_key, job.slot): job.job_id
            for job in state.jobs.values()
            if job.lock_key is not None and job.slot is not None
        },
        letters={
            place: (letter.reason.value, letter.resolution.value if letter.resolution else "")
            for place, letter in state.letters.items()
        },
        history=Counter(
            (one.job_id, one.series, one.number, one.end.value) for one in state.history
        ),
        counters=dict(state.counters),
        workers={
            worker_id: (worker.lease_until, frozenset(map(str, worker.running)), worker.dead)
            for worker_id, worker in state.workers.items()
        },
        once_keys=dict(state.once_keys),
    )


def read() -> Tables:
    """Return the tables of the database."""
    return reading(_read)


def _read() -> Tables:
    locks = fetch(
        "SELECT firm_id, lock_key, slot, holder_id, fencing_token FROM jobs_concurrencylock", []
    )
    return Tables(
        jobs=_jobs(),
        locks={tuple(row[:3]): UUID(row[3].removeprefix("job:")) for row in locks},
        fences=frozenset(row[4] for row in locks),
        letters={
            (_uuid(job_id), series): (reason, resolution)
            for job_id, series, reason, resolution in fetch(
                "SELECT original_job_id, job_series, reason, resolution FROM jobs_deadletterqueue",
                [],
            )
        },
        history=Counter(
            (_uuid(job_id), series, number, end)
            for job_id, series, number, end in fetch(
                'SELECT job_id, series, number, "end" FROM jobs_attempt', []
            )
        ),
        counters=_counters(),
        workers=_workers(),
        once_keys={
            (firm_id, key): _uuid(job_id)
            for firm_id, key, job_id in fetch(
                "SELECT firm_id, key, job_id FROM jobs_idempotencykey", []
            )
        },
    )


def _jobs() -> dict[UUID, JobRow]:
    rows = fetch(
        """
        SELECT job_id, status, attempts, deaths, series, priority, ready, waiting, live_key,
            lock_key, scheduled_at, completed_at, lease_token, worker_id,
            cancel_requested_at IS NOT NULL
        FROM jobs_jobqueue
        """,
        [],
    )
    return {
        _uuid(row[0]): JobRow(
            status=row[1],
            attempts=row[2],
            deaths=row[3],
            series=row[4],
            priority=row[5],
            ready=bool(row[6]),
            waiting=bool(row[7]),
            live_key=row[8],
            lock_key=row[9],
            scheduled=_seconds(row[10]),
            completed=_seconds(row[11]),
            token=row[12],
            worker=_uuid(row[13]),
            cancel_requested=bool(row[14]),
        )
        for row in rows
    }


def _counters() -> dict[tuple[int, str, int, str], int]:
    counters = f"firm_id, category, minute, {', '.join(COUNTED)}"
    rows = fetch(
        f"SELECT {counters} FROM jobs_jobminute UNION ALL SELECT {counters} FROM jobs_jobminutedelta",
        [],
    )
    found: Counter[tuple[int, str, int, str]] = Counter()
    for row in rows:
        for word, number in zip(COUNTED, row[3:], strict=True):
            if number:
                found[row[0], row[1], (_seconds(row[2]) or 0) // 60, word] += number
    return dict(found)


def _workers() -> dict[UUID, tuple[Seconds | None, frozenset[str], bool]]:
    rows = fetch("SELECT id, lease_expires_at, running, dead_at IS NOT NULL FROM jobs_worker", [])
    return {
        _uuid(row[0]): (_seconds(row[1]), frozenset(map(str, unpack_ids(row[2]))), bool(row[3]))
        for row in rows
    }


def letter_id(job_id: UUID, series: int) -> UUID:
    """Return the id of the dead letter of this job and series."""
    ids = reading(
        lambda: {
            (_uuid(row[1]), row[2]): _uuid(row[0])
            for row in fetch("SELECT id, original_job_id, job_series FROM jobs_deadletterqueue", [])
        }
    )
    found: UUID = ids[job_id, series]
    return found


def wipe() -> None:
    """Empty all tables of the queue."""
    in_transaction(lambda: [run(f"DELETE FROM {table}", []) for table in EMPTIED])


def moment(seconds: Seconds) -> datetime:
    """Return the time at which the model's clock shows `seconds`."""
    return START + timedelta(seconds=seconds)


def _seconds(value: Any) -> Seconds | None:
    found = dialects.current().read_time(value)
    return None if found is None else round((found - START).total_seconds())


def _uuid(value: Any) -> Any:
    return dialects.current().read_uuid(value)
