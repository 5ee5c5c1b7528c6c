"""The queue's settings, read from Django's settings at each use, and their defaults."""

from __future__ import annotations

from typing import Any

from django.conf import settings

PAYLOAD_MAX_BYTES = 256 * 1024
PAYLOAD_MAX_DEPTH = 32
# Of a job, and of each of its steps.
RESULT_MAX_BYTES = 1024 * 1024
RESULT_MAX_DEPTH = 32


def _setting(name: str, default: Any) -> Any:
    return getattr(settings, name, default)


def lease_seconds() -> float:
    """Seconds without a heartbeat after which a worker's jobs are rescued."""
    return float(_setting("JOB_LEASE_SECONDS", 30.0))


def isolated_memory_mb() -> int:
    """Megabytes of address space of a process that runs one quarantined job."""
    return int(_setting("JOB_ISOLATED_MEMORY_MB", 2048))


def poll_seconds() -> float:
    """Seconds between two polls of an idle worker."""
    return float(_setting("JOB_POLL_SECONDS", 1.0))


def retention_days() -> int:
    """Days a finished job is kept."""
    return int(_setting("JOB_RETENTION_DAYS", 7))


def purge_interval_hours() -> int:
    """Hours from one purge of old jobs to the next."""
    return int(_setting("JOB_PURGE_INTERVAL_HOURS", 24))


def unknown_type_grace_seconds() -> int:
    """Seconds a job of an unknown type waits for a worker that knows it."""
    return int(_setting("JOB_UNKNOWN_TYPE_GRACE_SECONDS", 3600))


def worker_concurrency() -> int:
    """Handlers a worker runs at a time when `--concurrency` is not given."""
    return int(_setting("WORKER_CONCURRENCY", 3))


def listen_database_url() -> str:
    """The database that LISTEN connects to: empty for the main one, "off" for polling only."""
    return str(_setting("LISTEN_DATABASE_URL", ""))
