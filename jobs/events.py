"""What the queue tells the world: a closed list of events, and one way to emit them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from jobs import telemetry


class Event(StrEnum):
    """The name of each event, as it stands in the log."""

    ATTEMPT_FINISHED = "job.attempt_finished"
    ATTEMPT_STALE = "job.attempt_stale"
    HANDLER_STUCK = "job.handler_stuck"
    JOBS_RESCUED = "jobs.rescued"
    JOBS_RELEASED = "jobs.released"
    WORKER_STARTED = "worker.started"
    WORKER_STOPPING = "worker.stopping"
    WORKER_STOPPED = "worker.stopped"
    WORKER_BROKEN = "worker.broken"
    WORKER_MARKED_DEAD = "worker.marked_dead"
    DATABASE_AWAY = "worker.database_away"
    DATABASE_BACK = "worker.database_back"
    MAINTENANCE_FAILED = "worker.maintenance_failed"


PROBLEMS = frozenset(
    {
        Event.ATTEMPT_STALE,
        Event.HANDLER_STUCK,
        Event.WORKER_BROKEN,
        Event.WORKER_MARKED_DEAD,
        Event.DATABASE_AWAY,
        Event.MAINTENANCE_FAILED,
    }
)


def emit(event: Event, **fields: Any) -> None:
    """Tell every subscriber. Fields are ids, names, counts and seconds: never payload or text."""
    telemetry.log(event.value, fields, problem=event in PROBLEMS)
    if event is Event.ATTEMPT_FINISHED:
        telemetry.measure_attempt(fields)
    elif event is Event.JOBS_RESCUED:
        telemetry.measure_rescue(fields)
