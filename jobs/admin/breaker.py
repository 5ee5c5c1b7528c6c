"""Circuit breakers in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from jobs.admin.base import age
from jobs.admin.breaker_acts import CloseBreaker, OpenBreaker
from jobs.admin.filters import BreakerStateFilter, FirmFilter, JobTypeFilter
from jobs.models import CircuitBreaker
from jobs.states import BreakerState
from tenants.admin.acts import ActingAdmin

STATE_LABELS = {"closed": "default", "open": "danger", "half open": "warning"}


@admin.register(CircuitBreaker)
class BreakerAdmin(ActingAdmin):
    """Which types fail for which firm, and when they are tried again."""

    acts = (CloseBreaker(), OpenBreaker())
    list_select_related = ("firm",)
    list_display = ("job_type", "firm", "shown_state", "failed", "trips", "opened", "next_try")
    list_filter = (BreakerStateFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = (
        *("job_type", "firm", "shown_state", "failed", "window_ends_at", "trips", "fingerprint"),
        *("opened_at", "next_try", "probe"),
    )
    readonly_fields = ("shown_state", "failed", "next_try", "probe")

    def after_act(self, row: CircuitBreaker) -> str:
        """Return to the list."""
        return reverse("admin:jobs_circuitbreaker_changelist")

    @display(description="State", label=STATE_LABELS)
    def shown_state(self, breaker: CircuitBreaker) -> str:
        """Say whether the type's jobs are tried."""
        return breaker.get_state_display()

    @display(description="Failed in this window")
    def failed(self, breaker: CircuitBreaker) -> str:
        """Say how many of the window's attempts met the most frequent failure."""
        if breaker.state != BreakerState.CLOSED:
            return "not counted"
        return f"{max(breaker.failures.values(), default=0)} of {breaker.attempts}"

    @display(description="Opened")
    def opened(self, breaker: CircuitBreaker) -> str:
        """Say since when it is open."""
        return age(breaker.opened_at) if breaker.state != BreakerState.CLOSED else ""

    @display(description="Tried again")
    def next_try(self, breaker: CircuitBreaker) -> str:
        """Say when one job is tried."""
        if breaker.state == BreakerState.HALF_OPEN:
            return "now"
        return age(breaker.probe_at) if breaker.state == BreakerState.OPEN else ""

    @display(description="Job that is tried")
    def probe(self, breaker: CircuitBreaker) -> str:
        """Lead to the probe's page."""
        if breaker.probe_job_id is None:
            return "-"
        url = reverse("admin:jobs_jobqueue_change", args=[breaker.probe_job_id])
        return format_html('<a class="queue-link" href="{}">{}</a>', url, breaker.probe_job_id)
