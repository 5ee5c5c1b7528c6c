"""What a handler gets beside its payload: `ctx`."""

from jobs.context.ctx import JobContext
from jobs.context.fan_out import Then
from jobs.context.signals import Flag, Signals
from jobs.context.transaction import JobTransaction, storable_result

__all__ = ["Flag", "JobContext", "JobTransaction", "Signals", "Then", "storable_result"]
