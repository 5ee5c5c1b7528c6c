"""Works under load for a long time, with a kill per minute: `python -m tests.soak.queue`.

Jobs of many firms are enqueued all the time, some with lock keys, some for later; each minute one
of the workers is killed. The first worker is spared, so that anything that grows can be seen in it.
Prints connections, threads, memory, files and backlog every minute. The exit code is 1 if any of
these but the backlog has grown, or a job was lost. Keeps the figures as JSON under var/bench/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from random import Random
from statistics import median

import psutil

from tests.benchmarks.harness import empty_database, keep

MINUTES = 30
JOB_TYPE = "noop"
PROCESSES = 3
FIRMS = 20
JOBS_PER_SECOND = 200
LEASE_SECONDS = 10
SAMPLE_SECONDS = 60.0
# How much larger than in the first third a figure may be in the last; less is noise, not growth.
TOLERANCE = 1.15
DRAIN_SECONDS = 180.0


@dataclass(frozen=True)
class Sample:
    """The figures at one moment; threads, memory and files are those of the spared worker."""

    minute: int
    connections: int
    threads: int
    memory_mb: float
    files: int
    waiting: int
    completed: int


def main() -> int:
    """Run; return 0 if nothing grew and every job was completed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.queue")
    parser.add_argument("--minutes", type=int, default=MINUTES)
    minutes: int = parser.parse_args().minutes
    with empty_database() as vendor:
        samples, added, completed = _soak(minutes)
        faults = _growth(samples)
        if completed != added:
            faults.append(f"{added:,} jobs were stored and {completed:,} completed")
        keep("soak", vendor, {"samples": [asdict(one) for one in samples], "faults": faults})
    for fault in faults:
        _write(fault)
    return 1 if faults else 0


def _soak(minutes: int) -> tuple[list[Sample], int, int]:
    from tests.factories.tenants import FirmFactory

    firms = [FirmFactory(name=f"Firm {n}", slug=f"firm-{n}").pk for n in range(FIRMS)]
    rng = Random(5)
    samples: list[Sample] = []
    added = 0
    with _workers() as parent:
        spared = _children(parent)[0]
        end = time.monotonic() + minutes * SAMPLE_SECONDS
        next_sample = time.monotonic() + SAMPLE_SECONDS
        while time.monotonic() < end:
            second = time.monotonic()
            added += _add(firms, rng)
            if time.monotonic() >= next_sample:
                next_sample += SAMPLE_SECONDS
                samples.append(_look(len(samples) + 1, parent, spared))
                _write(str(samples[-1]))
                rng.choice([one for one in _children(parent) if one != spared]).kill()
            time.sleep(max(second + 1 - time.monotonic(), 0))
        completed = _wait_until_completed(added)
    return samples, added, completed


@contextmanager
def _workers() -> Iterator[psutil.Process]:
    """Start workers under a supervisor, as in production, and stop them at the end."""
    from tests.support.databases import database_url

    environment = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "JOB_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    with subprocess.Popen(
        [sys.executable, "manage.py", "runworker", "--processes", str(PROCESSES)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        parent = psutil.Process(process.pid)
        try:
            while len(_children(parent)) < PROCESSES:
                time.sleep(0.1)
            yield parent
        finally:
            process.terminate()


def _children(parent: psutil.Process) -> list[psutil.Process]:
    """Return the worker processes; the supervisor's other child is its sidecar."""
    from jobs.models import Worker

    pids = set(Worker.objects.values_list("pid", flat=True))
    workers = [child for child in parent.children() if child.pid in pids]
    return sorted(workers, key=lambda child: child.create_time())


def _add(firms: Sequence[int], rng: Random) -> int:
    """Store the jobs that come within a second."""
    from jobs.engine.enqueue import enqueue_for_firms
    from jobs.queue import EnqueueSpec

    specs = []
    for _ in range(JOBS_PER_SECOND):
        kind = rng.random()
        spec = EnqueueSpec(
            JOB_TYPE,
            lock_key=f"key-{rng.randrange(50)}" if kind < 0.1 else None,
            delay=rng.uniform(0, 20) if kind > 0.9 else None,
        )
        specs.append((rng.choice(firms), spec))
    return len(enqueue_for_firms(specs))


def _look(minute: int, parent: psutil.Process, spared: psutil.Process) -> Sample:
    statuses = _statuses()
    return Sample(
        minute=minute,
        connections=_connections(),
        threads=spared.num_threads(),
        memory_mb=round(spared.memory_info().rss / 2**20, 1),
        files=spared.num_fds(),
        waiting=sum(count for status, count in statuses.items() if status != "completed"),
        completed=statuses.get("completed", 0),
    )


def _statuses() -> dict[str, int]:
    """Count the jobs that were added, by status; the workers' schedules add others."""
    from django.db.models import Count

    from jobs.models import JobQueue
    from tenants.scope import all_firms

    with all_firms("counting jobs"):
        return dict(
            JobQueue.objects.filter(job_type=JOB_TYPE)
            .order_by()
            .values_list("status")
            .annotate(Count("pk"))
            .iterator()
        )


def _connections() -> int:
    """Return how many connections the database serves; on SQLite 0."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def _wait_until_completed(added: int) -> int:
    deadline = time.monotonic() + DRAIN_SECONDS
    while (completed := _statuses().get("completed", 0)) < added and time.monotonic() < deadline:
        time.sleep(1)
    return completed


def _growth(samples: Sequence[Sample]) -> list[str]:
    """Return each figure that has grown from the first third to the last, as text."""
    third = max(len(samples) // 3, 1)
    found = []
    for name in ("connections", "threads", "memory_mb", "files"):
        first = median(getattr(one, name) for one in samples[:third])
        last = median(getattr(one, name) for one in samples[-third:])
        if last > first * TOLERANCE:
            found.append(f"{name} grew from {first:g} to {last:g}")
    return found


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
