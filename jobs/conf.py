"""The queue's settings, read from Django's settings at each use, and their defaults."""

from __future__ import annotations

from typing import Any

from django.conf import settings

PAYLOAD_MAX_BYTES = 256 * 1024
PAYLOAD_MAX_DEPTH = 32
# The limits of a job's result, and of the result of each of its steps.
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
    """The database URL for LISTEN: empty for the main database, "off" for polling only."""
    return str(_setting("LISTEN_DATABASE_URL", ""))


def site_url() -> str:
    """The web process's public URL, without a trailing slash; empty if it is not set."""
    return str(_setting("SITE_URL", ""))


def webhook_private_hosts() -> frozenset[str]:
    """Hosts, or host:port, that webhooks may be sent to although their addresses are private."""
    return frozenset(_setting("WEBHOOK_PRIVATE_HOSTS", ()))


def alert_interval_seconds() -> int:
    """Seconds from one search for new failures to the next."""
    return int(_setting("ALERT_INTERVAL_SECONDS", 60))


def alert_quiet_minutes() -> int:
    """Minutes during which one failure is alerted to only once."""
    return int(_setting("ALERT_QUIET_MINUTES", 240))


def alert_unreviewed_hours() -> int:
    """Hours until unreviewed dead letters are alerted to; the alert is repeated after as many."""
    return int(_setting("ALERT_UNREVIEWED_HOURS", 24))


def alert_age_interval_minutes() -> int:
    """Minutes from one search for unreviewed dead letters to the next."""
    return int(_setting("ALERT_AGE_INTERVAL_MINUTES", 15))


def attempt_hooks() -> tuple[str, ...]:
    """The paths of the hooks around an attempt (`jobs.execution.hooks`), the outermost first."""
    return tuple(_setting("JOB_ATTEMPT_HOOKS", ()))
