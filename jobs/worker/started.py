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
        # Their ids as they are written, spelled once: the list is written over and over.
        self._ids: dict[int, bytes] = {}
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        # The lease tokens of the list as it was last written.
        self._noted: frozenset[int] = frozenset()

    def add(self, claims: Sequence[Claim]) -> None:
        """Put claims on the list."""
        with self._changing:
            for claim in claims:
                self._claims[claim.lease_token] = claim
                self._ids[claim.lease_token] = claim.job_id.bytes

    def forget(self, claims: Sequence[Claim]) -> None:
        """Drop settled claims from the list."""
        with self._changing:
            for claim in claims:
                self._claims.pop(claim.lease_token, None)
                self._ids.pop(claim.lease_token, None)

    def claims(self) -> list[Claim]:
        """Return what is on the list."""
        with self._changing:
            return list(self._claims.values())

    def note(self, chunk: Sequence[Claim], outage: Outage) -> bool:
        """Make sure the worker's row names these claims; False when the lease is lost.

        Whoever may write writes the whole list: those that waited meanwhile mostly find
        themselves on it, and need neither a statement nor a connection of their own.
        """
        while not self._state.halt.is_set():
            if not all(self._state.holds(claim) for claim in chunk):
                return False
            try:
                written = self.write_down(chunk)
                outage.over()
            except AWAY as error:
                outage.failed(error)
            else:
                return written
        return False

    def write_down(self, claims: Sequence[Claim]) -> bool:
        """Write the list unless all of these stand there; False when the lease is lost.

        Raises:
            DatabaseError: it may have been written or not.
        """
        tokens = {claim.lease_token for claim in claims}
        with self._writing:
            return tokens <= self._noted or self._write()

    def _write(self) -> bool:
        lease = self._state.lease
        with self._changing:
            claims = list(self._claims.values())
            ids = b"".join(self._ids.values())
        if not note_running(lease.worker_id, ids):
            return False
        self._noted = frozenset([claim.lease_token for claim in claims if lease.covers(claim)])
        return True
