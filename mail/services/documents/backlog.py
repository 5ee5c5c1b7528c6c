"""The group `unindexed`: the firms with mail that search does not find yet."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, OuterRef

from jobs.schedules.groups import GroupRequest, Member, schedule_group
from mail.models import Message
from tenants.models import Firm

UNINDEXED = "unindexed"


@schedule_group(UNINDEXED, member="firm with mail to index")
def unindexed(reach: GroupRequest) -> Iterator[Member]:
    """Return the firms with messages that are not indexed: imported, or older than the index."""
    missing = Message.objects.filter(firm=OuterRef("pk"), search_index=None)
    firms = Firm.objects.filter(Exists(missing))
    if reach.firm_id is not None:
        firms = firms.filter(pk=reach.firm_id)
    for firm_id in firms.order_by("pk").values_list("pk", flat=True):
        yield Member(firm_id, key=str(firm_id), idempotency_key=f"message.index:{firm_id}")
