"""The fixed vocabularies of the queue: statuses, categories, priorities, reasons, and others."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Status(StrEnum):
    """How far a job has got; see docs/lifecycle.md."""

    PENDING = "pending"
    CLAIMED = "claimed"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DLQ = "dlq"
    CANCELED = "canceled"


LIVE = frozenset({Status.PENDING, Status.CLAIMED, Status.PROCESSING})
IN_FLIGHT = frozenset({Status.CLAIMED, Status.PROCESSING})
TERMINAL = frozenset(Status) - LIVE
# The last error of a job that ended because somebody canceled it.
CANCELED_MESSAGE = "canceled by request"
# The statuses from which an operator may retry a job. A completed job stays completed.
RETRYABLE = frozenset({Status.DLQ, Status.FAILED, Status.CANCELED})
# The states of a batch's member; an index names the three that count as uncompleted.
UNCOMPLETED = ("pending", "failed", "canceled")
BATCH_STATES = ("completed", *UNCOMPLETED)
# After so many deaths of its workers a job runs alone; after so many it is dead-lettered.
QUARANTINE_DEATHS = 2
MAX_DEATHS = 3


class Category(StrEnum):
    """What kind of work a job type is."""

    INGESTION = "ingestion"
    SYNC = "sync"
    RECURRENCE = "recurrence"
    ORCHESTRATION = "orchestration"
    DOCUMENTS = "documents"
    NOTIFICATIONS = "notifications"
    EXPORT = "export"
    MAINTENANCE = "maintenance"


class Priority(IntEnum):
    """How urgent a job is: the lower number is claimed first."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3

    @property
    def word(self) -> str:
        """The priority as a person would write it."""
        return self.name.lower()


PRIORITY_CHOICES = tuple((level.value, level.word) for level in Priority)


class OnConflict(StrEnum):
    """What an enqueue does to an unstarted job that has the same idempotency key."""

    REPLACE = "replace"
    DEBOUNCE = "debounce"


class DeadReason(StrEnum):
    """Why a job was dead-lettered."""

    EXHAUSTED = "exhausted"
    FATAL = "fatal"
    POISON = "poison"
    STALE = "stale"
    UNKNOWN_TYPE = "unknown_type"
    INVALID_PAYLOAD = "invalid_payload"


class Resolution(StrEnum):
    """What an operator decided about a dead letter; empty until somebody decides."""

    REPROCESSED = "reprocessed"
    DISCARDED = "discarded"
    ESCALATED = "escalated"


# Of an open dead letter: nobody has decided yet, or somebody escalated it for a decision.
OPEN_RESOLUTIONS = ("", Resolution.ESCALATED.value)


class AttemptEnd(StrEnum):
    """How an attempt that did not complete its job ended."""

    RETRIED = "retried"
    DEAD_LETTERED = "dead_lettered"
    FAILED = "failed"
    SNOOZED = "snoozed"
    CANCELED = "canceled"
    RELEASED = "released"
    RESCUED = "rescued"


class WorkerRequest(StrEnum):
    """What an operator asks of a running worker.

    quiet: claim nothing more, but keep running. drain: finish the jobs that run, then exit. stop:
    as drain, but release the jobs that still run after the grace.
    """

    QUIET = "quiet"
    DRAIN = "drain"
    STOP = "stop"


class Measure(StrEnum):
    """What is measured of an attempt: how long the due job waited, and how long its handler ran."""

    WAIT = "wait"
    RUN = "run"


class Listing(StrEnum):
    """The admin's lists whose filters can be saved."""

    JOBS = "jobs"
    DEAD_LETTERS = "dead_letters"


class BreakerState(StrEnum):
    """Which jobs of a type a firm may run: all, none, or one probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CountedBy(StrEnum):
    """Which jobs a limit counts together: a firm's, those of one limit key, those of all firms."""

    FIRM = "firm"
    KEY = "key"
    ALL_FIRMS = "all_firms"


class LockKind(StrEnum):
    """Who can hold a lock: a job until it is settled, or user code until it expires."""

    JOB = "job"
    USER = "user"


class WorkerState(StrEnum):
    """Whether a worker has its lease. silent: the lease expired, but nobody marked it dead yet."""

    LIVE = "live"
    SILENT = "silent"
    DEAD = "dead"


class ScheduleTarget(StrEnum):
    """For whom each run of a schedule enqueues jobs."""

    FIRM = "firm"
    EVERY_FIRM = "every_firm"
    EVERY_MEMBER = "every_member"


class MissedRuns(StrEnum):
    """What a schedule does about slots that passed while no worker ran."""

    SKIP = "skip"
    RUN_ONCE = "run_once"


class BatchState(StrEnum):
    """How a batch ended. `canceled`: no job failed, but not all of the others completed."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class RunOutcome(StrEnum):
    """How a schedule's run ended: the first three once all its jobs have ended, the others at once.

    nothing: no job was enqueued, because the same jobs already wait or the group has no members.
    refused: its jobs could not be enqueued. skipped: no worker was there in time.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    NOTHING = "nothing"
    REFUSED = "refused"
    SKIPPED = "skipped"


class BulkOperation(StrEnum):
    """What a bulk run does to its members: the first two to dead letters, the others to jobs."""

    REPROCESS = "reprocess"
    DISCARD = "discard"
    RETRY = "retry"
    CANCEL = "cancel"
    SET_PRIORITY = "set_priority"


# The operations after which the members' jobs run again, and may fail again.
RESTARTS = frozenset({BulkOperation.REPROCESS, BulkOperation.RETRY})
OF_DEAD_LETTERS = frozenset({BulkOperation.REPROCESS, BulkOperation.DISCARD})


class BulkState(StrEnum):
    """The state of a bulk run; every state but the first is an end."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    CANARY_FAILED = "canary_failed"


class MemberState(StrEnum):
    """What became of one member of a bulk run."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"


class Channel(StrEnum):
    """How a notification is sent."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    DISCORD = "discord"


class NotificationEvent(StrEnum):
    """What an endpoint may subscribe to: alerts on failures, and each change of a dead letter."""

    NEW_FAILURE = "alert.new_failure"
    UNREVIEWED = "alert.unreviewed"
    OPENED = "dead_letter.opened"
    REPROCESSED = "dead_letter.reprocessed"
    DISCARDED = "dead_letter.discarded"
    ESCALATED = "dead_letter.escalated"


class DeliveryStatus(StrEnum):
    """How an attempt to send ended. Its worker died if it stays `sending` for long."""

    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    REFUSED = "refused"
