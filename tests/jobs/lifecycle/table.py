"""Every transition: the state of a job after each operation, or that the operation is refused."""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "-"

# `escalated` is a job in dlq whose dead letter was escalated. If no worker holds the job, the
# operation of a worker is tried by the one that held it last.
_WORKERS = """
operation          pending  claimed    processing completed failed dlq escalated canceled
claim              claimed  -          -          -         -      -   -         -
start              -        processing processing -         -      -   -         -
complete           -        completed  completed  -         -      -   -         -
retry_later        -        pending    pending    -         -      -   -         -
snooze             -        pending    pending    -         -      -   -         -
give_up            -        dlq        dlq        -         -      -   -         -
fail               -        failed     failed     -         -      -   -         -
stop               -        canceled   canceled   -         -      -   -         -
hand_back          -        pending    pending    -         -      -   -         -
release            -        pending    pending    -         -      -   -         -
release_canceled   -        canceled   canceled   -         -      -   -         -
rescue             -        pending    pending    -         -      -   -         -
rescue_exhausted   -        dlq        dlq        -         -      -   -         -
rescue_shrugged    -        failed     failed     -         -      -   -         -
rescue_canceled    -        canceled   canceled   -         -      -   -         -
expire             failed   -          -          -         -      -   -         -
"""

# The cancel of a running job only asks the job to stop.
_OPERATORS = """
operation  pending  claimed processing completed failed  dlq       escalated canceled
retry      -        -       -          -         pending pending   pending   pending
cancel     canceled claimed processing -         -       -         -         -
reprocess  -        -       -          -         -       pending   pending   -
discard    -        -       -          -         -       failed    failed    -
escalate   -        -       -          -         -       escalated -         -
"""


@dataclass(frozen=True)
class Case:
    """One cell of the table: `becomes` is the state after the operation, None if it is refused."""

    operation: str
    state: str
    becomes: str | None

    def __str__(self) -> str:
        return f"{self.operation}-{self.state}"


def _read(table: str) -> list[Case]:
    (_, *states), *rows = [line.split() for line in table.strip().splitlines()]
    return [
        Case(operation, state, None if becomes == REFUSED else becomes)
        for operation, *cells in rows
        for state, becomes in zip(states, cells, strict=True)
    ]


OF_WORKERS = _read(_WORKERS)
OF_OPERATORS = _read(_OPERATORS)
EVERY_CASE = [*OF_WORKERS, *OF_OPERATORS]
