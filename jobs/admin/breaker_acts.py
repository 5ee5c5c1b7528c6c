"""Closing a circuit breaker and opening it by hand in the admin."""

from __future__ import annotations

from jobs.admin.refusals import refusals
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from tenants.admin.acts import Act, Answers
from tenants.audit import Actor


class _BreakerAct(Act):
    """An act on the breaker as it was seen: not on one that opened or closed meanwhile."""

    def seen(self, row: CircuitBreaker) -> str:
        """Rest on the state, and on when it opened."""
        return f"{row.state} {row.opened_at}"


class CloseBreaker(_BreakerAct):
    """Has the type's jobs run again."""

    name = "close"
    label = "Close"
    done = "closed"
    icon = "play_arrow"
    variant = "primary"

    def consequence(self, row: CircuitBreaker | None) -> str:
        """Say what begins."""
        return "The jobs it held back run in their turn. Should they fail again, it opens again."

    def perform(self, row: CircuitBreaker, answers: Answers, by: Actor) -> None:
        """Close the breaker."""
        with refusals():
            breakers.close_breaker(row, answers["reason"], by=by)

    def told(self, row: CircuitBreaker) -> str:
        """Say that jobs run."""
        return f"{row.job_type} runs again for {row.firm.name}."


class OpenBreaker(_BreakerAct):
    """Has the type's jobs wait, before enough of them have failed."""

    name = "open"
    label = "Open"
    done = "opened"
    icon = "block"
    variant = "danger"

    def consequence(self, row: CircuitBreaker | None) -> str:
        """Say what waits, and until when."""
        return (
            "The type's jobs of this firm wait and use no attempts. After the cooldown one is "
            "tried: when it completes, the others follow."
        )

    def perform(self, row: CircuitBreaker, answers: Answers, by: Actor) -> None:
        """Open the breaker."""
        with refusals():
            breakers.open_breaker(row.job_type, row.firm, answers["reason"], by=by)

    def told(self, row: CircuitBreaker) -> str:
        """Say that jobs wait."""
        return f"{row.job_type} waits for {row.firm.name}."
