"""Operations on workers, which serve every firm: for platform staff.

A worker reads the operator's request with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from jobs.engine.clock import database_now
from jobs.engine.lease import write_request
from jobs.errors import UnknownJob, WrongState
from jobs.models import Worker
from jobs.operations.operation import By, operation
from jobs.states import WorkerRequest
from tenants.audit import as_actor, record_operation
from tenants.models import Firm


def quiet(worker: Worker | UUID | str, *, reason: str = "", by: By = None) -> Worker:
    """Let the worker claim nothing more until it is resumed.

    Raises:
        UnknownJob: no such worker.
        WrongState: the worker is gone, is about to end, or is quiet already.
    """
    return _ask(worker, WorkerRequest.QUIET, reason, by)


def resume(worker: Worker | UUID | str, *, reason: str = "", by: By = None) -> Worker:
    """Let a quiet worker claim again.

    Raises:
        UnknownJob: no such worker.
        WrongState: the worker is gone, is about to end, or is not quiet.
    """
    return _ask(worker, "", reason, by)


def drain(worker: Worker | UUID | str, *, reason: str = "", by: By = None) -> Worker:
    """Let the worker finish the jobs it runs, however long that takes, and exit for good.

    Raises:
        UnknownJob: no such worker.
        WrongState: the worker is gone, or is about to end already.
    """
    return _ask(worker, WorkerRequest.DRAIN, reason, by)


def stop(worker: Worker | UUID | str, *, reason: str = "", by: By = None) -> Worker:
    """Let the worker exit for good; jobs that run longer than its grace are released.

    Raises:
        UnknownJob: no such worker.
        WrongState: the worker is gone, or stops already.
    """
    return _ask(worker, WorkerRequest.STOP, reason, by)


OPERATIONS: dict[str, Callable[..., Worker]] = {
    one.__name__: one for one in (quiet, resume, drain, stop)
}


def on_host(name: str, host: str, *, reason: str = "", by: By = None) -> list[Worker]:
    """Do an operation, by its name, to each live worker of a host whose state allows it.

    Raises:
        UnknownJob: no live worker runs there.
        WrongState: no worker's state allows the operation.
    """
    live = Worker.objects.filter(
        host=host, dead_at__isnull=True, lease_expires_at__gt=database_now()
    )
    done, refused = [], []
    for worker in live.order_by("pk"):
        try:
            done.append(OPERATIONS[name](worker, reason=reason, by=by))
        except (UnknownJob, WrongState) as error:
            refused.append(error)
    if refused and not done:
        raise refused[0]
    if not done:
        raise UnknownJob(f"no live worker runs on {host[:64]!r}")
    return done


@operation
def _ask(worker: Worker | UUID | str, request: str, reason: str, by: By) -> Worker:
    row = _get_for_update(worker)
    why = obstacle(row, request)
    if why:
        raise WrongState(why)
    before, row.requested = row.requested, request
    if not write_request(row.pk, request):
        raise WrongState(f"worker {row} no longer exists")
    record_operation(
        as_actor(by),
        f"worker.{request or 'resume'}",
        firm_id=Firm.objects.system().pk,
        target=("worker", row.pk),
        reason=reason,
        before={"requested": before},
        after={"requested": request, "host": row.host, "pid": row.pid},
    )
    return row


def obstacle(worker: Worker, request: str) -> str:
    """Return why the worker cannot be given this request; "" if it can."""
    if worker.dead_at is not None:
        return f"worker {worker} is dead"
    if worker.requested == WorkerRequest.STOP or (
        worker.requested == WorkerRequest.DRAIN and request != WorkerRequest.STOP
    ):
        return f"worker {worker} was already asked to end ({worker.requested})"
    if worker.requested == request:
        return f"worker {worker} is {'quiet already' if request else 'not quiet'}"
    return ""


def _get_for_update(worker: Worker | UUID | str) -> Worker:
    try:
        pk = UUID(str(worker.pk if isinstance(worker, Worker) else worker))
    except ValueError as error:
        raise UnknownJob(f"{str(worker)[:64]!r} is not an id") from error
    found = Worker.objects.select_for_update(no_key=True).filter(pk=pk).first()
    if found is None:
        raise UnknownJob(f"no worker {pk}")
    return found
