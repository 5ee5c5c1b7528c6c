"""`ctx` in a test: it sees a cancel that comes while the handler runs."""

from __future__ import annotations

from jobs.engine.current_job import in_event_loop
from jobs.engine.transactions import reading
from jobs.execution.context import JobContext
from jobs.models import JobQueue


class WatchingContext(JobContext):
    """Asks at every call what a worker's heartbeat would tell."""

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel was requested; on an event loop, as of the last awaited call."""
        if not in_event_loop():
            self._watch()
        return super().is_cancelled

    def _checkpoint(self, twin: str) -> None:
        self._refuse_in_loop(f"{twin}(…)")
        self._watch()
        super()._checkpoint(twin)

    def _watch(self) -> None:
        rows = JobQueue.objects.unscoped("the test kit looks for a cancel")
        requested = rows.filter(pk=self.job_id, cancel_requested_at__isnull=False)
        if reading(requested.exists):
            self._signals.cancel_requested = True
