"""Runs due schedules in a test."""

from __future__ import annotations

from jobs import registry
from jobs.schedules.defaults import store_default_schedules
from jobs.schedules.tick import tick


def run_schedules(job_type: str | None = None) -> int:
    """Run the schedules that are due by the queue's clock, as workers do; return the number of new jobs.

    With a type, only its schedules run, and those that its code declares are stored first, as when
    a worker starts: their first slot is the next one from now.

    Raises:
        UnknownJobType: there is no such type.
        AssertionError: a schedule leads to no job; the message says why.
    """
    if job_type is not None:
        registry.get(job_type)
        store_default_schedules([job_type])
    types = None if job_type is None else [job_type]
    jobs = 0
    while results := tick(types, _fail):
        failed = [f"{one.job_type}: {one.error}" for one in results if one.error]
        if failed:
            raise AssertionError("schedules lead to no job: " + "; ".join(failed))
        jobs += sum(one.jobs or 0 for one in results)
    return jobs


def _fail(zone: str) -> None:
    raise AssertionError(f"schedules lead to no job: there is no time zone {zone} here")
