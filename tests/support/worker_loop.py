"""A worker in the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.db import connection

from jobs.worker import listener
from jobs.worker.worker import WorkerLoop, WorkerOptions
from tests.support.waiting import wait_until


def worker_loop(
    *,
    concurrency: int = 2,
    burst: bool = True,
    grace_seconds: float = 0.3,
    poll_seconds: float = 0.05,
    job_types: tuple[str, ...] = (),
) -> WorkerLoop:
    """Return a worker that does not run yet."""
    return WorkerLoop(
        WorkerOptions(
            concurrency=concurrency,
            poll_seconds=poll_seconds,
            grace_seconds=grace_seconds,
            job_types=job_types,
            burst=burst,
        )
    )


@contextmanager
def working(loop: WorkerLoop) -> Iterator[None]:
    """Run the worker beside the test, and stop it at the end of the block."""

    def work() -> None:
        try:
            loop.run()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    # The listener sees only after this time that the worker has ended.
    with patch.object(listener, "LISTEN_SECONDS", 0.2):
        thread.start()
        try:
            yield
        finally:
            loop.stop()
            thread.join(30)
            assert not thread.is_alive()
            wait_until(lambda: not _listener_threads(), "the listener's thread to end")


def _listener_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "listener"]
