"""One process of the bare loop."""

from __future__ import annotations

import signal
from multiprocessing.synchronize import Barrier

from jobs.benchmarks.raw.postgresql import PostgresLoop
from jobs.benchmarks.raw.sqlite import SqliteLoop

START_SECONDS = 60.0

Loop = PostgresLoop | SqliteLoop


def run(loop: Loop, ready: Barrier) -> None:
    """Run the loop once all processes are ready."""
    # Ctrl-C reaches the whole group; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop.run(lambda: ready.wait(START_SECONDS))
