"""Each factory stores a valid row, and all rows that it stores belong to one firm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, WorkerFactory
from tests.factories.mail import MailAccountFactory, MailThreadFactory, MessageFactory
from tests.factories.tenants import FirmFactory, MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def every_firm(db: None) -> Iterator[None]:
    """Run the test in the scope of all firms."""
    with all_firms("test"):
        yield


@pytest.mark.parametrize(
    "factory",
    [
        FirmFactory,
        UserFactory,
        MembershipFactory,
        JobQueueFactory,
        DeadLetterQueueFactory,
        WorkerFactory,
        MailAccountFactory,
        MailThreadFactory,
        MessageFactory,
    ],
)
def test_what_is_made_can_be_made_twice_and_is_valid(factory: Any) -> None:
    for row in (factory(), factory()):
        # A user without a password, and a worker that serves everything, are valid.
        row.clean_fields(exclude=["password", "categories", "job_types"])


def test_what_belongs_together_is_of_one_firm() -> None:
    letter, message = DeadLetterQueueFactory(), MessageFactory()
    assert letter.firm_id == letter.original_job.firm_id
    assert message.firm_id == message.account.firm_id == message.thread.firm_id
    assert message.thread.account_id == message.account_id
