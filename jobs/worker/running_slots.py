"""What each thread of a worker process runs, in memory that outlives the process.

The supervisor creates it and the worker inherits it. It is an array of 8-byte cells:

    0: 1 while the next two name a worker, else 0
    1, 2: the worker's id
    3: liveness counter
    4, 5: how many jobs the supervisor has taken back, and how many of them the metrics count
    6: 1 once an operator asked the worker to end, so that nobody replaces it; 2 once it met a
        mistake in code or schema, which would end its successors too
    then for each thread: the lease token it runs (0: none), and that job's deadline

A cell is written by one instruction, so a process killed at any moment leaves no half-written token.
Deadlines are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from itertools import count
from math import inf
from uuid import UUID

HEADER_CELLS = 7
CELL_BYTES = 8
NAMED, WORKER_ID, LIVENESS, RESCUED, COUNTED, ENDS = 0, 1, 3, 4, 5, 6
MISTAKE = 2


class RunningSlots:
    """The slots of one worker process, for that process and for its supervisor."""

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        # Whether a supervisor can read them.
        self.shared = not isinstance(memory, bytearray)
        self._bytes = memoryview(memory)
        self._cells = self._bytes.cast("q")
        self._deadlines = self._bytes.cast("d")
        # By thread id; the cell of the thread's token.
        self._of_thread: dict[int, int] = {}
        self._next_cell = count(HEADER_CELLS, 2)

    @classmethod
    def private(cls, threads: int) -> RunningSlots:
        """Return slots that nobody else sees, for a worker without a supervisor."""
        return cls(bytearray(_size(threads)))

    @classmethod
    def inherited(cls, handle: int) -> RunningSlots:
        """Return the slots behind this descriptor, and close it: a job's programs need no copy."""
        slots = cls(mmap.mmap(handle, 0))
        os.close(handle)
        return slots

    # The worker's side.

    def begin(self, lease_token: int, deadline: float) -> None:
        """Note that this thread runs that claim from now on."""
        thread = threading.get_ident()
        cell = self._of_thread.get(thread)
        if cell is None:
            cell = self._of_thread.setdefault(thread, next(self._next_cell))
        self._deadlines[cell + 1] = deadline
        self._cells[cell] = lease_token

    def end(self) -> None:
        """Note that this thread runs nothing any more."""
        self._cells[self._of_thread[threading.get_ident()]] = 0

    def name_worker(self, worker_id: UUID) -> None:
        """Note under which id the worker claims from now on."""
        self._cells[NAMED] = 0
        start = WORKER_ID * CELL_BYTES
        self._bytes[start : start + 16] = worker_id.bytes
        self.show_life()
        self._cells[NAMED] = 1

    def show_life(self) -> None:
        """Show the supervisor that the threads of this process make progress."""
        self._cells[LIVENESS] += 1

    def end_for_good(self) -> None:
        """Tell the supervisor that an operator asked this worker to end."""
        self._cells[ENDS] = 1

    def end_for_mistake(self) -> None:
        """Tell the supervisor that no other worker of this code and schema would do better."""
        self._cells[ENDS] = MISTAKE

    def take_rescued(self) -> int:
        """Return how many jobs the supervisor has taken back since the last call."""
        rescued = self._cells[RESCUED] - self._cells[COUNTED]
        self._cells[COUNTED] += rescued
        return rescued

    def end_in_order(self) -> None:
        """Forget the worker: nothing is left to rescue, although stuck handlers may still run."""
        self._cells[NAMED] = 0

    def clear(self) -> None:
        """Forget the worker and what it ran."""
        self.end_in_order()
        for cell in range(HEADER_CELLS, len(self._cells)):
            self._cells[cell] = 0

    # The supervisor's side.

    @property
    def worker_id(self) -> UUID | None:
        """The id under which the worker claims; None before it does and after its end in order."""
        if not self._cells[NAMED]:
            return None
        start = WORKER_ID * CELL_BYTES
        return UUID(bytes=bytes(self._bytes[start : start + 16]))

    @property
    def ends_for_good(self) -> bool:
        """Whether the worker must not be replaced."""
        return bool(self._cells[ENDS])

    @property
    def is_mistaken(self) -> bool:
        """Whether the worker ended for a mistake in code or schema."""
        return self._cells[ENDS] == MISTAKE

    def add_rescued(self, jobs: int) -> None:
        """Count rescued jobs, for the worker's metrics: nobody reads the metrics of the sidecar."""
        self._cells[RESCUED] += jobs

    @property
    def liveness(self) -> int:
        """A number that changes while the process makes progress."""
        return self._cells[LIVENESS]

    @property
    def running(self) -> list[int]:
        """The lease tokens of the claims that run now, or ran when the process died."""
        return [token for token in self._cells[HEADER_CELLS::2] if token]

    @property
    def first_deadline(self) -> float:
        """The earliest deadline of what runs; infinity where nothing does."""
        cells = range(HEADER_CELLS, len(self._cells) - 1, 2)
        return min((self._deadlines[cell + 1] for cell in cells if self._cells[cell]), default=inf)


def shared_file(threads: int) -> int:
    """Return a descriptor of a new file without a name, in memory if the system supports that."""
    try:
        handle = os.memfd_create("running-slots")
    except (AttributeError, OSError):
        # Another system, or a container that forbids it.
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, _size(threads))
    return handle


def _size(threads: int) -> int:
    return (HEADER_CELLS + 2 * threads) * CELL_BYTES
