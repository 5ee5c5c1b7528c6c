"""An error of a type's own function at enqueue is a refusal that names the function."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from jobs.errors import Fault, PayloadInvalid
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, edit, enqueue, enqueue_many
from jobs.registry import JobPayload, job
from tenants.models import Firm
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-03")]

FUNCTIONS = ("lock_key", "limit_key", "idempotency_key", "limit_units")


class LookupPayload(JobPayload):
    """A payload with a name to look up."""

    name: str = ""


def do_nothing(payload: LookupPayload, ctx: Any) -> None:
    """Handle a job of any of the types."""


def declare(option: str, error: Exception | None = None) -> None:
    """Declare a type whose function for this option raises an error for the name Ada."""

    def function(payload: LookupPayload) -> Any:
        if payload.name == "Ada":
            raise error or KeyError(payload.name)
        return 1 if option == "limit_units" else "key"

    options: dict[str, Any] = {option: function}
    job("test.lookup", category="sync", payload=LookupPayload, **options)(do_nothing)


@pytest.mark.parametrize("option", FUNCTIONS)
def test_it_is_refused_with_the_function_and_the_cause(
    firm: Firm, job_types: Any, option: str
) -> None:
    declare(option)
    message = "cannot be derived from this payload: its function raised KeyError"
    fault = Fault(option, "function_failed", message)
    with pytest.raises(PayloadInvalid) as refused:
        enqueue("test.lookup", {"name": "Ada"}, firm=firm)
    assert refused.value.faults == [fault]
    assert str(refused.value) == f"test.lookup refused: {option}: {message}"
    assert isinstance(refused.value.__cause__, KeyError)
    with pytest.raises(PayloadInvalid):
        enqueue_many([EnqueueSpec("test.lookup", {"name": one}) for one in ("x", "Ada")], firm=firm)
    assert rows(JobQueue) == []


@pytest.mark.parametrize("option", FUNCTIONS)
def test_an_edit_is_refused_with_the_function(firm: Firm, job_types: Any, option: str) -> None:
    declare(option)
    job_id = enqueue("test.lookup", {"name": "Grace"}, firm=firm).job_id
    with pytest.raises(PayloadInvalid) as refused:
        edit(job_id, payload={"name": "Ada"})
    assert [(one.field, one.code) for one in refused.value.faults] == [(option, "function_failed")]
    assert row(job_id).payload["name"] == "Grace"


@pytest.mark.parametrize("option", ["lock_key", "limit_key", "limit_units"])
def test_the_payload_that_it_cannot_read_is_edited(firm: Firm, job_types: Any, option: str) -> None:
    job("test.lookup", category="sync", payload=LookupPayload)(do_nothing)
    job_id = enqueue("test.lookup", {"name": "Ada"}, firm=firm).job_id
    declare(option)
    edit(job_id, payload={"name": "Grace"})
    assert getattr(row(job_id), option) == (1 if option == "limit_units" else "key")


@pytest.mark.parametrize("error", [OperationalError("gone"), PayloadInvalid("test.lookup", [])])
def test_what_the_caller_acts_upon_stays_as_it_is(
    firm: Firm, job_types: Any, error: Exception
) -> None:
    declare("lock_key", error)
    with pytest.raises(type(error)) as raised:
        enqueue("test.lookup", {"name": "Ada"}, firm=firm)
    assert raised.value is error
