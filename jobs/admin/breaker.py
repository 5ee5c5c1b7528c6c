"""Circuit breakers in the admin."""

from __future__ import annotations

from django.contrib import admin
from unfold.decorators import display

from jobs.admin.base import age, job_url, link
from jobs.admin.filters import BreakerStateFilter, JobTypeFilter
from jobs.admin.operations import QueueOperation
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.states import BreakerState
from tenants.admin.base import TenantOperationsAdmin
from tenants.admin.filters import FirmFilter

STATE_LABELS = {"closed": "default", "open": "danger", "half open": "warning"}


def _seen(breaker: CircuitBreaker) -> str:
    return f"{breaker.state} {breaker.opened_at}"


@admin.register(CircuitBreaker)
class BreakerAdmin(TenantOperationsAdmin):
    """Each firm's failing types, and when one of their jobs is tried again."""

    operations = (
        QueueOperation(
            name="close",
            label="Close",
            icon="play_arrow",
            variant="primary",
            effect="The jobs it held back run in their turn. Should they fail again, it opens "
            "again.",
            seen=_seen,
            perform=lambda breaker, answers, by: breakers.close_breaker(
                breaker, answers["reason"], by=by
            ),
            report=lambda breaker: f"{breaker.job_type} runs again for {breaker.firm.name}.",
        ),
        QueueOperation(
            name="open",
            label="Open",
            icon="block",
            variant="danger",
            effect="The type's jobs of this firm wait and use no attempts. After the cooldown one "
            "is tried: when it completes, the others follow.",
            seen=_seen,
            perform=lambda breaker, answers, by: breakers.open_breaker(
                breaker.job_type, breaker.firm, answers["reason"], by=by
            ),
            report=lambda breaker: f"{breaker.job_type} waits for {breaker.firm.name}.",
        ),
    )
    returns_to_list = True
    list_select_related = ("firm",)
    list_display = ("job_type", "firm", "shown_state", "failed", "trips", "opened", "next_try")
    list_filter = (BreakerStateFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = (
        *("job_type", "firm", "shown_state", "failed", "window_ends_at", "trips", "fingerprint"),
        *("opened_at", "next_try", "probe"),
    )
    readonly_fields = ("shown_state", "failed", "next_try", "probe")

    @display(description="State", label=STATE_LABELS)
    def shown_state(self, breaker: CircuitBreaker) -> str:
        """Return the breaker's state."""
        return breaker.get_state_display()

    @display(description="Failed in this window")
    def failed(self, breaker: CircuitBreaker) -> str:
        """Return how many attempts of the window had the most frequent failure."""
        if breaker.state != BreakerState.CLOSED:
            return "not counted"
        return f"{max(breaker.failures.values(), default=0)} of {breaker.attempts}"

    @display(description="Opened")
    def opened(self, breaker: CircuitBreaker) -> str:
        """Return since when it is open."""
        return age(breaker.opened_at) if breaker.state != BreakerState.CLOSED else ""

    @display(description="Tried again")
    def next_try(self, breaker: CircuitBreaker) -> str:
        """Return when the probe is due."""
        if breaker.state == BreakerState.HALF_OPEN:
            return "now"
        return age(breaker.probe_at) if breaker.state == BreakerState.OPEN else ""

    @display(description="Job that is tried")
    def probe(self, breaker: CircuitBreaker) -> str:
        """Return a link to the probe."""
        if breaker.probe_job_id is None:
            return "-"
        return link(job_url(breaker.probe_job_id), breaker.probe_job_id)
