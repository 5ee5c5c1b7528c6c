"""What a handler gets beside its payload: `ctx`."""

from jobs.context.ctx import JobContext
from jobs.context.fan_out import Then
from jobs.context.signals import Signals
from jobs.context.transaction import JobTransaction, storable_result

__all__ = ["JobContext", "JobTransaction", "Signals", "Then", "storable_result"]
