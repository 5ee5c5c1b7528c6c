"""Release by force: what the admin does to a lock."""

from __future__ import annotations

from jobs.admin.refusals import refusals
from jobs.models import ConcurrencyLock
from jobs.operations import locks
from tenants.admin.acts import Act, Answers
from tenants.audit import Actor
from tenants.models import Role


class ForceRelease(Act):
    """Frees a lock its holder will not free."""

    name = "release"
    label = "Release by force"
    done = "released"
    icon = "lock_open"
    variant = "danger"
    needed = Role.ADMIN

    def consequence(self, row: ConcurrencyLock | None) -> str:
        """Say what it means for the holder."""
        return (
            "The lock is free at once, and its holder is not told: it may still be at work. "
            "The lock of a job in flight stays; cancel the job instead."
        )

    def seen(self, row: ConcurrencyLock) -> str:
        """Rest on the holding: the token is new when somebody else took the lock."""
        return str(row.fencing_token)

    def perform(self, row: ConcurrencyLock, answers: Answers, by: Actor) -> None:
        """Free the lock."""
        with refusals():
            locks.force_release(row, answers["reason"], by=by)

    def told(self, row: ConcurrencyLock) -> str:
        """Say that it is free."""
        return f"{row.lock_key} is free."
