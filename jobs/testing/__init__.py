"""The test kit for code that uses the queue; docs/testing.md shows each part.

It runs jobs synchronously, through the same claim, executor and settle as a worker, in any kind of
test: inside a TestCase's transaction or on committed rows, on either database.
"""

from jobs.testing.clock import Clock, frozen_time
from jobs.testing.enqueued import assert_enqueued, assert_not_enqueued, enqueued
from jobs.testing.idempotent import assert_idempotent
from jobs.testing.run import DrainReport, NotRunnable, Ran, drain, run_job
from jobs.testing.schedules import run_schedules

__all__ = [
    "Clock",
    "DrainReport",
    "NotRunnable",
    "Ran",
    "assert_enqueued",
    "assert_idempotent",
    "assert_not_enqueued",
    "drain",
    "enqueued",
    "frozen_time",
    "run_job",
    "run_schedules",
]
