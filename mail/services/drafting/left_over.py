"""Ends drafts that an earlier attempt or job began, if a later one finds that none is wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from uuid import UUID

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.gmail.client import GmailClient
from mail.models import Draft, DraftStatus, MailAccount
from mail.services.drafting.retire import end_left_over
from mail.services.mailboxes.modes import suggests_only
from tenants.scope import firm_scope

P = ParamSpec("P")
Work = Callable[Concatenate[MailAccount, GmailClient, UUID, P], dict[str, Any]]


def ends_what_it_began(work: Work[P]) -> Work[P]:
    """Make a job that skips its thread end the drafts that it, or a job that is over, began there.

    No other job would end them.
    """

    @wraps(work)
    def run(
        account: MailAccount,
        gmail: GmailClient,
        thread_id: UUID,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> dict[str, Any]:
        result = work(account, gmail, thread_id, *args, **kwargs)
        if result.get("skipped"):
            _end_begun(account, gmail, thread_id, cast("UUID", kwargs["job_id"]))
        return result

    return run


def _end_begun(account: MailAccount, gmail: GmailClient, thread_id: UUID, job_id: UUID) -> None:
    with firm_scope(account.firm_id):
        rows = Draft.objects.filter(
            account=account, thread_id=thread_id, status=DraftStatus.WRITING
        )
        writing = list(rows.select_related("thread"))
        jobs = JobQueue.objects.filter(pk__in=[draft.job_id for draft in writing])
        # A job that waits for a retry continues its own draft.
        live = set(jobs.filter(status__in=LIVE).values_list("pk", flat=True)) - {job_id}
        begun = [draft for draft in writing if draft.job_id not in live]
    if begun and not suggests_only(account):
        for draft in begun:
            end_left_over(account, gmail, draft)
