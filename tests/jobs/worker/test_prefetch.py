"""The buffer in which claims wait for a thread keeps their order."""

from __future__ import annotations

import pytest

from jobs.engine.claim import Claim
from jobs.queue import enqueue
from jobs.worker.prefetch import PrefetchBuffer
from tenants.models import Firm
from tests.queue_kit import take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-02")]


@pytest.fixture
def claims(firm: Firm) -> list[Claim]:
    """Return six claims in the order of their jobs."""
    for _ in range(6):
        enqueue("noop", firm=firm)
    return take(6)


def test_what_is_put_back_comes_first_and_in_its_order(claims: list[Claim]):
    buffer = PrefetchBuffer()
    buffer.extend(claims)
    taken = buffer.take(4)
    buffer.put_back(taken[1:])
    assert taken == claims[:4]
    assert buffer.take(6) == claims[1:]


def test_a_quarantined_job_waits_apart(claims: list[Claim]):
    buffer = PrefetchBuffer()
    deadly = claims[0]._replace(deaths=1)
    buffer.extend([deadly, *claims[1:]])
    assert (buffer.ordinary, buffer.quarantined, len(buffer)) == (5, 1, 6)
    assert buffer.take(6) == claims[1:]
    assert buffer.take_quarantined() == deadly
    assert buffer.take_quarantined() is None
