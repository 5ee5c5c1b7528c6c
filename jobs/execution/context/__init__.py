"""What a handler gets beside its payload: `ctx`."""

from jobs.engine.current_job import Flag, Signals
from jobs.execution.context.ctx import JobContext
from jobs.execution.context.fan_out import Then
from jobs.execution.context.transaction import JobTransaction, completed

__all__ = ["Flag", "JobContext", "JobTransaction", "Signals", "Then", "completed"]
