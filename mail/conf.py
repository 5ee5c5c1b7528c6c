"""The mail app's settings: read from Django's settings at use, with the defaults in one place."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def gmail_simulator_store() -> Path:
    """The file the local Gmail keeps its mailboxes in; every process uses the same one."""
    return Path(settings.GMAIL_SIMULATOR_STORE)


def sync_full_days() -> int:
    """How many days back a full scan looks at least."""
    return int(getattr(settings, "SYNC_FULL_DAYS", 10))


def sync_fallback_interval_seconds() -> int:
    """How many seconds lie between two scheduled syncs of a mailbox."""
    return int(getattr(settings, "SYNC_FALLBACK_INTERVAL_MINUTES", 15)) * 60


def sync_full_interval_seconds() -> int:
    """How many seconds lie between two scheduled full scans of a mailbox."""
    return int(getattr(settings, "SYNC_FULL_INTERVAL_HOURS", 1)) * 3600


def demo_worker_log() -> Path:
    """Where the demo keeps what its worker logs."""
    return Path(settings.VAR_DIR) / "demo-worker.log"
