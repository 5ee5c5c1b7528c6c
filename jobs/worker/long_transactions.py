"""Watches for old snapshots, and says so once of each."""

from __future__ import annotations

from jobs.doctor.snapshots import holders, is_pinned
from jobs.engine.database_time import database_now
from jobs.execution.events import Event, emit
from jobs.models import Worker
from jobs.worker.state import WorkerState


class SnapshotWatch:
    """Tells of every snapshot that has become an alert; of all live workers the eldest speaks."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._known: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look who holds an old snapshot, and tell of those who are new among them."""
        pinned = {holder.name: holder for holder in holders() if is_pinned(holder)}
        fresh = [holder for name, holder in pinned.items() if name not in self._known]
        if fresh and self._is_eldest():
            for holder in fresh:
                emit(
                    Event.SNAPSHOT_PINNED,
                    holder=holder.name,
                    held_s=round(holder.seconds),
                    mend=holder.mend,
                )
        self._known = frozenset(pinned)

    def _is_eldest(self) -> bool:
        live = Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=database_now())
        return live.order_by("pk").values_list("pk", flat=True).first() == self._state.worker_id
