"""The scheduler: maintenance tasks of every worker, unless started with `--no-scheduler`."""

from __future__ import annotations

from jobs import registry
from jobs.execution.events import Event, emit
from jobs.schedules.defaults import store_default_schedules
from jobs.schedules.left import record_left
from jobs.schedules.tick import GRACE_SECONDS, SlotResult, tick

TICK_SECONDS = 1.0
NOTE_SECONDS = 60.0


class Scheduler:
    """Ticks, and stores the default schedules once."""

    def __init__(self) -> None:
        self._stored = False
        self._missing_zones: set[str] = set()

    def tick(self) -> None:
        """Run the schedules that are due, until none is."""
        while results := tick(on_missing_zone=self._tell_missing):
            for result in results:
                _report(result)

    def store_defaults(self) -> None:
        """Store the default schedules, unless that was done."""
        if not self._stored:
            store_default_schedules()
            self._stored = True

    def note_unknown(self) -> None:
        """Note on schedules of unknown types and in missing time zones why they do not run."""
        known = [declared.name for declared in registry.all_types()]
        record_left(known, GRACE_SECONDS)

    def _tell_missing(self, zone: str) -> None:
        if zone not in self._missing_zones:
            self._missing_zones.add(zone)
            emit(Event.SCHEDULE_ZONE_MISSING, time_zone=zone)


def _report(result: SlotResult) -> None:
    fields = {
        "schedule_id": result.schedule_id,
        "job_type": result.job_type,
        "slot": None if result.slot is None else result.slot.isoformat(),
    }
    if result.error:
        emit(Event.SCHEDULE_FAILED, **fields)
    elif result.jobs is None:
        emit(Event.SCHEDULE_SKIPPED, **fields)
    else:
        emit(Event.SCHEDULE_RAN, **fields, jobs=result.jobs)
