"""Warns of long transactions, whose old snapshots keep dead rows from being removed."""

from __future__ import annotations

from jobs.doctor.snapshots import holders, is_pinned
from jobs.engine.clock import database_now
from jobs.execution.events import Event, emit
from jobs.models import Worker
from jobs.worker.state import SharedState


class LongTransactionWatch:
    """Logs each alert once; of all live workers only the eldest does."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._known: frozenset[str] = frozenset()

    def check(self) -> None:
        """Read which transactions hold an old snapshot, and log those that are new."""
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
