"""Which types people neither enqueue, schedule nor edit: what an operation begins, and the system firm's."""

from __future__ import annotations

from jobs.errors import Fault
from tenants.models import Firm

# By type: how a job of it is begun.
_begun_by_operation: dict[str, str] = {}
_of_system_firm: set[str] = set()


def begun_by_operation(*job_types: str, how: str) -> None:
    """Say that an operation begins jobs of these types, and checks who may; `how` is told who tries."""
    _begun_by_operation.update(dict.fromkeys(job_types, how))


def only_of_system_firm(*job_types: str) -> None:
    """Say that jobs of these types work on every firm: no other firm's people have business there."""
    _of_system_firm.update(job_types)


def by_hand_faults(job_type: str, firm_id: int | None) -> list[Fault]:
    """Return why nobody enqueues, schedules or edits a job of this type by hand in a firm; [] if they may.

    Without a firm: why in none at all.
    """
    if how := _begun_by_operation.get(job_type):
        return [Fault("job_type", "not_possible", f"{how}, not by hand")]
    if job_type not in _of_system_firm or firm_id in (None, Firm.objects.system().pk):
        return []
    message = "works on every firm: only the system firm has jobs of it, from a schedule"
    return [Fault("job_type", "not_possible", message)]
