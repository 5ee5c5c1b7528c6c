"""Circuit breakers in the admin."""

from __future__ import annotations

from django.contrib import admin

from interfaces.admin.base import column
from jobs.admin.base import LABELS, QueueOperation, age, job_url, link, list_url, page_time, timed
from jobs.admin.filters import BreakerStateFilter, JobTypeFilter
from jobs.models import CircuitBreaker, DeadLetterQueue
from jobs.operations import breakers
from jobs.queries.durations import probe_in_words
from jobs.queries.last_errors import error_in_words
from jobs.queries.why_waiting import WaitCode
from jobs.states import BreakerState
from tenants.admin.base import FirmFilter, TenantOperationsAdmin


def _seen(breaker: CircuitBreaker) -> str:
    return f"{breaker.state} {breaker.opened_at}"


def _not_closable(breaker: CircuitBreaker) -> str:
    return "The breaker is closed." if breaker.state == BreakerState.CLOSED else ""


def _not_openable(breaker: CircuitBreaker) -> str:
    if breaker.state == BreakerState.CLOSED:
        return ""
    return (
        f"The breaker is {breaker.get_state_display()} already. To hold the jobs back for longer, "
        "pause them."
    )


def _failed(breaker: CircuitBreaker) -> str:
    """Return how many attempts of the window had the most frequent failure."""
    if breaker.state != BreakerState.CLOSED:
        return "not counted"
    return f"{max(breaker.failures.values(), default=0)} of {breaker.attempts}"


def _next_try(breaker: CircuitBreaker) -> str:
    if breaker.state == BreakerState.HALF_OPEN:
        return "now"
    if breaker.state != BreakerState.OPEN or breaker.probe_at is None:
        return ""
    return timed(breaker.probe_at, probe_in_words(breaker.probe_at, page_time()))


def _probe(breaker: CircuitBreaker) -> str:
    job_id = breaker.probe_job_id
    return "-" if job_id is None else link(job_url(job_id), job_id)


def _failure(breaker: CircuitBreaker) -> str:
    """Return the failure that opened the breaker, in the words of its latest dead letter."""
    if not breaker.fingerprint:
        return "-"
    found = DeadLetterQueue.objects.filter(
        firm_id=breaker.firm_id, fingerprint=breaker.fingerprint
    ).order_by("-moved_at", "-pk")
    latest = found.values_list("error_class", "error").first()
    if latest is None:
        return breaker.fingerprint
    letters = list_url("deadletterqueue", q=breaker.fingerprint)
    return link(letters, f"{error_in_words(*latest)} ({breaker.fingerprint})")


def _held(breaker: CircuitBreaker) -> str:
    if breaker.state == BreakerState.CLOSED:
        return "-"
    held = {"firm": breaker.firm.slug, "type": breaker.job_type, "held_back": WaitCode.BREAKER}
    return link(
        list_url("jobqueue", **held), "jobs that the breaker holds back, with their last errors"
    )


@admin.register(CircuitBreaker)
class BreakerAdmin(TenantOperationsAdmin):
    """Each firm's failing types, and when one of their jobs is tried again."""

    operations = (
        QueueOperation(
            name="close",
            # Not "Close", because the theme has a button of that name, which leaves the page.
            label="Close breaker",
            icon="play_arrow",
            variant="primary",
            effect="The jobs that the breaker holds back may start. If they fail again, it opens "
            "again.",
            obstacle=_not_closable,
            seen=_seen,
            perform=breakers.close_breaker,
            report=lambda breaker: f"{breaker}: jobs of {breaker.firm.name} may start again.",
        ),
        QueueOperation(
            name="open",
            label="Open breaker",
            icon="block",
            variant="danger",
            effect="Jobs of this type, firm and limit key wait and use no attempts. After the "
            "cooldown one of them runs as a probe; if it completes, the others follow.",
            obstacle=_not_openable,
            seen=_seen,
            perform=lambda breaker, **answers: breakers.open_breaker(
                breaker.job_type, breaker.firm, limit_key=breaker.limit_key, **answers
            ),
            report=lambda breaker: f"{breaker}: jobs of {breaker.firm.name} are held back.",
        ),
    )
    returns_to_list = True
    list_select_related = ("firm",)
    empty_text = "No circuit breaker has recent failures to count."
    list_display = (
        "job_type",
        "limit_key",
        "firm",
        "shown_state",
        "failed",
        "trips",
        "opened",
        "next_try",
    )
    list_filter = (BreakerStateFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = (
        *(
            "job_type",
            "limit_key",
            "firm",
            "shown_state",
            "failed",
            "window_ends_at",
            "trips",
            "failure",
        ),
        *("opened_at", "next_try", "probe", "held"),
    )
    shown_state = column("State", lambda row: row.get_state_display(), label=LABELS)
    failed = column("Failed in this window", _failed)
    opened = column(
        "Opened", lambda row: "" if row.state == BreakerState.CLOSED else age(row.opened_at)
    )
    next_try = column("Next probe", _next_try)
    probe = column("Probe job", _probe)
    failure = column("Failure that opened it", _failure)
    held = column("Jobs held back", _held)
