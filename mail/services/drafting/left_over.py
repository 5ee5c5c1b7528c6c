"""Ends the draft that an attempt before had begun, where a later one finds that none is wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from uuid import UUID

from mail.gmail.client import GmailClient
from mail.models import Draft, DraftStatus, MailAccount
from mail.services.drafting.retire import end_left_over
from mail.services.mailboxes.modes import suggests_only
from tenants.scope import firm_scope

P = ParamSpec("P")
Work = Callable[Concatenate[MailAccount, GmailClient, UUID, P], dict[str, Any]]


def ends_what_it_began(work: Work[P]) -> Work[P]:
    """Have a job that skips its thread end what it had begun there: nobody else would."""

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
            account=account, thread_id=thread_id, status=DraftStatus.WRITING, job_id=job_id
        )
        begun = list(rows.select_related("thread"))
    if begun and not suggests_only(account):
        for draft in begun:
            end_left_over(gmail, draft)
