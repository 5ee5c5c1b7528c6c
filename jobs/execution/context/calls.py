"""What a `def` handler reads and does with `ctx`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from time import monotonic
from typing import Any, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from interfaces.plain_json import unstorable_return
from interfaces.redaction import redact
from jobs.engine.claim import Claim
from jobs.engine.current_job import Signals, in_event_loop
from jobs.engine.enqueue import EnqueueResult, enqueue, enqueue_many
from jobs.engine.job_arguments import key_faults, refuse_other_firm
from jobs.engine.job_call import EnqueueOptions
from jobs.engine.lease import still_held
from jobs.engine.new_job import EnqueueSpec
from jobs.engine.steps import NotStorable, find_step, save_progress, save_step
from jobs.errors import Cancel, Fatal, LeaseLost, WrongPlace
from jobs.execution.connections import check_after
from jobs.execution.context.fan_out import Fields, Then, fan_out, type_of
from jobs.execution.context.transaction import JobTransaction, completing, require_running
from jobs.execution.telemetry import log_note
from tenants.models import Firm

P = ParamSpec("P")
T = TypeVar("T")
# Results of these types are stored as text.
Encoded = UUID | Decimal | date | time | timedelta

MAX_NOTE_LENGTH = 200
MAX_LOG_LINES = 100
MAX_LOG_LENGTH = 500


class JobCalls:
    """The running job, as its handler sees it.

    Every call but `log` is a checkpoint: it raises LeaseLost when the job is no longer this
    worker's, Cancel (`transaction` LeaseLost) when a cancel was requested, and WrongPlace after
    `transaction` has completed the job.
    """

    # How often this attempt has fanned out, by the type of `then`; made when first needed.
    _fan_outs: Counter[str] | None = None
    # Time and text of what is stored when the attempt ends; made when first needed.
    log_lines: list[tuple[str, str]] | None = None

    def __init__(self, claim: Claim, signals: Signals) -> None:
        self._claim = claim
        self._signals = signals
        self._begun = monotonic()

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._claim.job_id

    @property
    def job_type(self) -> str:
        """The name of the job's type."""
        return self._claim.job_type

    @property
    def firm_id(self) -> int:
        """The id of the job's firm."""
        return self._claim.firm_id

    @cached_property
    def firm(self) -> Firm:
        """The job's firm; Fatal when it is gone."""
        self._refuse_in_loop("afirm()")
        firm = Firm.objects.filter(pk=self._claim.firm_id).first()
        if firm is None:
            raise Fatal(f"firm {self._claim.firm_id} no longer exists")
        return firm

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now ends the job."""
        return self._claim.attempts >= self._claim.max_attempts

    @property
    def correlation_id(self) -> str:
        """The id this job shares with what caused it and what it causes."""
        return self._claim.correlation_id

    @property
    def fence(self) -> int:
        """The lease token, which grows with every claim; pass it to systems that can refuse an older one."""
        return self._claim.lease_token

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel was requested; for handlers that clean up before they stop."""
        return self._signals.cancel_requested

    def heartbeat(self) -> None:
        """Check that the job is still this worker's.

        Raises:
            LeaseLost: it is not; stop working.
        """
        self._checkpoint("aheartbeat")
        if not still_held(self._claim):
            raise self._lost()

    def log(self, message: object) -> None:
        """Note something about this attempt: in the log at once, and on the job's page when it ends.

        The first MAX_LOG_LINES notes of an attempt are kept, MAX_LOG_LENGTH characters of each,
        redacted as errors are. If the attempt's process dies, its notes are in the log only.
        Everybody who may see the job can read them: name ids, not contents. This is no checkpoint,
        and works in `async def` handlers too.
        """
        text = redact(str(message), MAX_LOG_LENGTH)
        log_note(self._claim, text)
        if self.log_lines is None:
            self.log_lines = []
        if len(self.log_lines) < MAX_LOG_LINES:
            self.log_lines.append((datetime.now(UTC).isoformat(), text))

    def progress(self, fraction: float, note: str = "") -> None:
        """Show how far the job got: `fraction` from 0 to 1, and a `note`, redacted as errors are.

        Of the note MAX_NOTE_LENGTH characters are kept.

        Raises:
            ValueError: `fraction` is out of range.
            LeaseLost: the job is no longer this worker's.
        """
        self._checkpoint("aprogress")
        try:
            in_range = 0 <= fraction <= 1
        except TypeError:
            kind = type(fraction).__name__
            raise TypeError(f"fraction must be a number from 0 to 1, not {kind}") from None
        if not in_range:
            raise ValueError("fraction must be from 0 to 1")
        # The note may be an error, or None.
        text = redact(str(note or ""), MAX_NOTE_LENGTH)
        if not save_progress(self._claim, float(fraction), text):
            raise self._lost()

    @overload
    def step(
        self, name: str, function: Callable[P, Encoded], /, *args: P.args, **kwargs: P.kwargs
    ) -> str: ...
    @overload
    def step(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `function(*args, **kwargs)` once in the job's life and return its result as stored.

        The name identifies the step: a later call with the same name, in this attempt or after a
        retry, a rescue or a reprocess, returns the stored result without calling the function.
        It is stored as JSON; a date, time, timedelta, Decimal or UUID comes back as text.
        A crash between the call and the store repeats the call: make it idempotent, or write in
        `ctx.transaction()`.

        Raises:
            LeaseLost: the job is no longer this worker's; the result was not stored.
            Fatal: the result cannot be stored, and running the step again would not help; raised
                before the call if the declared return type or the name says so.
        """
        stored = self._find_step(name, function)
        if stored is not None:
            return stored[0]
        began = monotonic()
        result = function(*args, **kwargs)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(
                "step() cannot run an async function: use await ctx.astep(…) in an async handler"
            )
        return self._save_step(name, result, began)

    def _find_step(self, name: str, function: Callable[..., Any]) -> tuple[Any] | None:
        self._checkpoint("astep")
        if faults := key_faults("name", name):
            raise Fatal(f"a step's name is refused: {faults[0].message}")
        stored = find_step(self._claim, name)
        if stored is None and (refused := unstorable_return(function)) is not None:
            # Refused before the call, because what the function does cannot be undone.
            raise Fatal(
                f"step {name!r} is declared to return {refused.__name__}, which cannot be stored"
            )
        return stored

    def _save_step(self, name: str, result: object, began: float) -> Any:
        seconds = monotonic() - began
        check_after(seconds)
        try:
            stored = save_step(self._claim, name, result, seconds=seconds)
        except NotStorable as error:
            raise Fatal(f"step {name!r} returned a result that {error}") from error
        if stored is None:
            raise self._lost()
        return stored[0]

    def enqueue(
        self, job_type: str, payload: Fields = None, **options: Unpack[EnqueueOptions]
    ) -> EnqueueResult:
        """Enqueue a child of this job, for its firm; options as in `jobs.queue.enqueue`.

        Raises:
            ArgumentsInvalid: `firm` is another one.
        """
        self._checkpoint("aenqueue")
        refuse_other_firm(options.get("firm"), self.firm_id)
        options["firm"] = self.firm_id
        return enqueue(job_type, payload, **options)

    def enqueue_many(
        self, specs: Sequence[EnqueueSpec], *, then: Then | None = None
    ) -> list[EnqueueResult]:
        """Enqueue children of this job, for its firm.

        `then`, a type and its payload, is enqueued as one more child when all these are settled
        (completed, failed, canceled or dead-lettered); at once when there are none. An existing
        job with a child's idempotency key is waited for in its place. With `then` the call is a
        step: repeated, it enqueues nothing and returns the same results. Steps are numbered by
        type: the first call with a type is the same step in every attempt, so is the second.

        Raises:
            PayloadInvalid: one of them, or `then`, is refused; nothing is stored.
            LeaseLost: the job is no longer this worker's; nothing is stored.
        """
        return self._enqueue_many(specs, then, self._fan_out_name(then))

    def _enqueue_many(
        self, specs: Sequence[EnqueueSpec], then: Then | None, name: str
    ) -> list[EnqueueResult]:
        self._checkpoint("aenqueue_many")
        if then is None:
            return enqueue_many(specs, firm=self.firm_id)
        return fan_out(self._claim, name, specs, then)

    def _fan_out_name(self, then: Then | None) -> str:
        """Return the name of this call's step; an async caller must get it before it switches threads."""
        job_type = "" if then is None else type_of(then)
        if self._fan_outs is None:
            self._fan_outs = Counter()
        self._fan_outs[job_type] += 1
        return f"then:{job_type}:{self._fan_outs[job_type]}"

    def transaction(self) -> AbstractContextManager[JobTransaction]:
        """Commit what the block writes, and the job's completion with `tx.result`, together.

        The block runs with the firm in scope. Keep it short and without network calls: on SQLite
        nobody else can write meanwhile. The commit settles the job: what the handler does or
        raises afterwards changes nothing.

        Raises:
            LeaseLost: the job is no longer this worker's, was asked to stop, ran into its timeout,
                or is kept locked by another transaction; the block is undone.
            WrongPlace: another transaction is open, and this one must be the outermost; or an
                earlier one completed the job.
            Fatal: `tx.result` cannot be stored.
        """
        self._refuse_in_loop("run_in_transaction(…)")
        return self._completing(lambda: False)

    def _completing(self, given_up: Callable[[], bool]) -> AbstractContextManager[JobTransaction]:
        def check() -> None:
            self._check_lease()
            if self.is_cancelled or given_up():
                raise LeaseLost(f"job {self.job_id} was asked to stop: nothing was written")

        return completing(self._claim, self._signals, self._begun, check)

    def _checkpoint(self, twin: str) -> None:
        """Raise in a handler that must stop, or that would block its event loop."""
        self._refuse_in_loop(f"{twin}(…)")
        self._check_lease()
        if self._signals.cancel_requested:
            raise Cancel("canceled by request")

    def _check_lease(self) -> None:
        require_running(self._claim, self._signals)

    def _refuse_in_loop(self, twin: str) -> None:
        if in_event_loop():
            raise WrongPlace(f"this would block the event loop: use await ctx.{twin}")

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"job {self.job_id} no longer belongs to this attempt")
