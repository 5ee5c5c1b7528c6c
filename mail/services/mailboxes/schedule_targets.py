"""The schedule group `mailbox`: the mailboxes that schedules of mail reach."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from jobs.schedules.groups import GroupRequest, Member, schedule_group
from mail.conf import pubsub_topic
from mail.models import Connection, MailAccount
from mail.services.queueing import SYNC_TYPES, WATCH_TYPE, sync_key

MAILBOXES = "mailbox"
PAGE = 500


@schedule_group(MAILBOXES, fields=("account_id",))
def mailboxes(reach: GroupRequest) -> Iterator[Member]:
    """Return every connected mailbox; its scheduled syncs coalesce with syncs that others request.

    Mailboxes of inactive people are left out; for watches, all are while no topic is configured.
    """
    if reach.job_type == WATCH_TYPE and not pubsub_topic():
        return
    usable = MailAccount.objects.filter(active=True, connection=Connection.CONNECTED)
    accounts = usable.exclude(owner__is_active=False).order_by("pk")
    if reach.firm_id is not None:
        accounts = accounts.filter(firm_id=reach.firm_id)
    last = UUID(int=0)
    while page := list(accounts.filter(pk__gt=last)[:PAGE]):
        yield from (_member(account, reach) for account in page)
        last = page[-1].pk


def _member(account: MailAccount, reach: GroupRequest) -> Member:
    key = None
    if reach.job_type in SYNC_TYPES:
        force_full = bool(reach.payload.get("force_full"))
        key = sync_key(account, reach.job_type, force_full=force_full)
    return Member(
        account.firm_id,
        key=str(account.pk),
        payload={"account_id": str(account.pk)},
        idempotency_key=key,
    )
