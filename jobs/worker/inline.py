"""Runs one job in the caller's process and thread: with a debugger, or to see what it prints."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import SystemRandom
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from jobs import VERSION, conf
from jobs.engine.admission import admit
from jobs.engine.claim import claim_one
from jobs.engine.lease import (
    HEARTBEATS_PER_LEASE,
    WorkerInfo,
    deregister,
    heartbeat,
    note_running,
    register,
)
from jobs.engine.outcomes import Outcome, Settlement
from jobs.engine.settle import settle
from jobs.errors import WrongState
from jobs.execution.context import Signals
from jobs.execution.events import emit_settled
from jobs.execution.executor import execute
from jobs.models import JobQueue
from jobs.models.base import pack_ids
from jobs.worker.state import AWAY


def run_inline(job: JobQueue) -> Outcome:
    """Run one attempt of the job, outside any transaction, and store how it ended.

    There is no timeout, so that a debugger has time. The attempt counts as any other.

    Raises:
        WrongState: it may not run now.
    """
    with _as_worker(job.job_type) as worker_id:
        claimed = claim_one(worker_id, job.pk, firm_id=job.firm_id, priority=job.priority)
        if claimed is None:
            raise WrongState(f"job {job.pk} may not run now")
        note_running(worker_id, pack_ids([job.pk]))
        began_at = time.monotonic()
        outcome = execute(claimed, rng=SystemRandom(), signals=Signals())
        settlement = Settlement(claimed, outcome, time.monotonic() - began_at)
        report = settle([settlement])
        emit_settled([settlement], report)
        admit(report.released_capacity)
        return outcome


@contextmanager
def _as_worker(job_type: str) -> Iterator[UUID]:
    """Act as a worker that serves this type, with a lease that a thread extends."""
    worker_id = uuid7()
    register(
        WorkerInfo(
            worker_id=worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            categories=(),
            job_types=[job_type],
            concurrency=1,
        )
    )
    ends = threading.Event()
    thread = threading.Thread(target=_extend_lease, args=(worker_id, ends), daemon=True)
    thread.start()
    try:
        yield worker_id
    finally:
        ends.set()
        thread.join()
        deregister(worker_id)


def _extend_lease(worker_id: UUID, ends: threading.Event) -> None:
    while not ends.wait(conf.lease_seconds() / HEARTBEATS_PER_LEASE):
        try:
            heartbeat(worker_id, None)
        except AWAY:
            # The next heartbeat may succeed. If none does, the lease ends, and another worker gets
            # the job.
            connection.close()
    connection.close()
