"""A verb that refuses halfway leaves nothing behind, also inside somebody else's transaction."""

from __future__ import annotations

import pytest
from django.db import transaction

from jobs.errors import Fatal, KeyHeld
from jobs.queue import enqueue, reprocess
from jobs.registry import job
from jobs.states import Status
from tenants.models import AuditEntry, Firm
from tenants.scope import firm_scope
from tests.engine.conftest import Add, WorkPayload
from tests.queue_kit import dead_letters, row, work_off


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02", "T-05")
@pytest.mark.usefixtures("work_types")
def test_a_reprocess_refused_for_its_key_leaves_the_dead_letter_open(firm: Firm, add: Add) -> None:
    @job("test.doomed", category="sync", payload=WorkPayload)
    def doomed(payload: WorkPayload, ctx: object) -> None:
        raise Fatal("never")

    dead = add("test.doomed", idempotency_key="one")
    work_off()
    enqueue("test.work", {}, firm=firm, idempotency_key="one")
    (letter,) = dead_letters()

    with transaction.atomic():
        with pytest.raises(KeyHeld):
            reprocess(letter.pk)
        with firm_scope(firm):
            assert not AuditEntry.objects.exists()

    (letter,) = dead_letters()
    assert (letter.resolution, letter.reviewed_at) == ("", None)
    assert row(dead).status == Status.DLQ
