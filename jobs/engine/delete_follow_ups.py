"""Deletes what would be enqueued later on a user's behalf: after other jobs, in a chain, by a batch's event."""

from __future__ import annotations

from typing import Any

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from jobs.models import Batch, FanIn, FanInMember


def delete_follow_ups_of_user(user_id: Any) -> None:
    """Delete the jobs to come; a chain ends before its first one of the user's.

    Must run in a transaction with every firm in scope, before the user's jobs are looked for: one
    that is enqueued meanwhile is found with them.
    """
    theirs = FanIn.objects.filter(user_id=user_id)
    FanInMember.objects.filter(fan_in_id__in=theirs.values("pk")).delete()
    theirs.delete()
    for fan_in in _mentioning(FanIn.objects.filter(fired_at=None), "rest", user_id):
        first = [_is_of(job, user_id) for job in fan_in.rest].index(True)
        FanIn.objects.filter(pk=fan_in.pk, firm_id=fan_in.firm_id).update(rest=fan_in.rest[:first])
    for batch in _mentioning(Batch.objects.all(), "callbacks", user_id):
        kept = {event: job for event, job in batch.callbacks.items() if not _is_of(job, user_id)}
        Batch.objects.filter(pk=batch.pk, firm_id=batch.firm_id).update(callbacks=kept)


def _mentioning(rows: QuerySet[Any], column: str, user_id: Any) -> list[Any]:
    """Return and lock the rows that keep a job of the user in this column."""
    kept = f'"user_id": "{user_id}"'
    found = rows.alias(kept=Cast(F(column), TextField())).filter(kept__contains=kept)
    jobs = found.only("firm", column).order_by("pk").select_for_update(of=("self",), no_key=True)
    return [row for row in jobs if any(_is_of(job, user_id) for job in _jobs(getattr(row, column)))]


def _jobs(kept: Any) -> list[dict[str, Any]]:
    return list(kept.values()) if isinstance(kept, dict) else kept


def _is_of(job: dict[str, Any], user_id: Any) -> bool:
    return bool(job["user_id"] == str(user_id))
