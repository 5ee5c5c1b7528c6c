"""`manage.py check_jobs`: can this code read every waiting job? Run it before a deploy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from interfaces.commands import EXIT_REFUSED, JsonCommand
from jobs.engine.unreadable import Unreadable, unreadable_jobs
from jobs.management.tables import id_column


class Command(JsonCommand):
    """Exits 1 when a live or dead-lettered job could not be run by this code."""

    help = "Check that this code can read every live and dead-lettered payload."

    def handle(self, *_: Any, json: bool, **__: Any) -> None:
        """Check every such job; list those that cannot be read, in a table by cause."""
        checked, found = unreadable_jobs()
        if json:
            self.emit({"checked": checked, "unreadable": [_row(one) for one in found]})
        elif found:
            self.table("", ["Jobs", "Type", "Version", id_column("Oldest"), "Why"], _causes(found))
        if found:
            # Not a refusal, which would print a second JSON object on stdout.
            message = f"{len(found)} of {checked} jobs cannot be read by this code"
            raise CommandError(message, returncode=EXIT_REFUSED)
        if not json:
            self.stdout.write(f"All {checked} live and dead-lettered jobs can be read.")


def _causes(found: Sequence[Unreadable]) -> list[tuple[object, ...]]:
    """Return a line for each cause, because a new version may refuse thousands of jobs for one."""
    oldest: dict[tuple[str, str, str], UUID] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        cause = (one.job_type, one.version, one.why)
        oldest.setdefault(cause, one.job_id)
        counts[cause] += 1
    return [
        (count, job_type, version, oldest[job_type, version, why], why)
        for (job_type, version, why), count in counts.most_common()
    ]


def _row(one: Unreadable) -> dict[str, str]:
    return {
        "job_id": str(one.job_id),
        "job_type": one.job_type,
        "payload_version": one.version,
        "why": one.why,
    }
