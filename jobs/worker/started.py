"""The claims whose handlers were started and are not settled yet: what the worker's row names."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from jobs.engine.claim import Claim
from jobs.engine.lease import note_running
from jobs.worker.database import AWAY, Outage
from jobs.worker.state import WorkerState


class Started:
    """Keeps the list, and writes it down before what is new on it starts."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        # By lease token, of which every claim has its own.
        self._claims: dict[int, Claim] = {}
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        # The lease tokens of the list as it was last written.
        self._noted: frozenset[int] = frozenset()

    def add(self, claims: Sequence[Claim]) -> None:
        """Put claims on the list."""
        with self._changing:
            self._claims.update((claim.lease_token, claim) for claim in claims)

    def forget(self, claims: Sequence[Claim]) -> None:
        """Drop settled claims from the list."""
        with self._changing:
            for claim in claims:
                self._claims.pop(claim.lease_token, None)

    def claims(self) -> list[Claim]:
        """Return what is on the list."""
        with self._changing:
            return list(self._claims.values())

    def note(self, chunk: Sequence[Claim], outage: Outage) -> bool:
        """Make sure the worker's row names these claims; False when the lease is lost.

        Whoever may write writes the whole list: those that waited meanwhile mostly find
        themselves on it, and need neither a statement nor a connection of their own.
        """
        tokens = {claim.lease_token for claim in chunk}
        while not self._state.halt.is_set():
            if not all(self._state.holds(claim) for claim in chunk):
                return False
            try:
                with self._writing:
                    written = tokens <= self._noted or self._write()
                outage.over()
            except AWAY as error:
                outage.failed(error)
            else:
                return written
        return False

    def _write(self) -> bool:
        worker_id = self._state.worker_id
        claims = self.claims()
        if not note_running(worker_id, [claim.job_id for claim in claims]):
            return False
        self._noted = frozenset(
            claim.lease_token for claim in claims if claim.worker_id == worker_id
        )
        return True
