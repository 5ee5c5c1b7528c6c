"""Arguments of the wrong kind: each is refused by name, and the error says what to pass."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.errors import ArgumentsInvalid, PayloadInvalid
from jobs.models import JobQueue
from jobs.queue import (
    EnqueueSpec,
    acquire_lock,
    enqueue,
    enqueue_batch,
    enqueue_chain,
    enqueue_many,
)
from jobs.registry import JobPayload, JobType, job
from tenants.errors import MissingTenant
from tenants.models import Firm
from tests.factories.tenants import UserFactory
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-06")]

GOOD = EnqueueSpec("noop")


@pytest.fixture
def greet(job_types: dict[str, JobType]) -> Any:
    """Return a declared function."""

    @job("test.greet", category="sync", payload=JobPayload)
    def greet(payload: JobPayload, ctx: Any) -> None:
        pass

    return greet


def test_a_function_in_place_of_its_name_is_told_how_to_enqueue(firm: Firm, greet: Any) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        enqueue(greet, {}, firm=firm)
    assert str(caught.value) == (
        "test.greet refused: job_type: must be the name of a job type, not function:"
        " call greet.enqueue(…), or pass 'test.greet'"
    )


@pytest.mark.parametrize("given", [{"name": "Ada"}, 7, None, print])
def test_what_is_no_name_of_a_type_is_refused(firm: Firm, given: Any) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        enqueue(given, firm=firm)
    message = f"must be the name of a job type, not {type(given).__name__}"
    assert caught.value.errors == [{"field": "job_type", "code": "wrong_type", "message": message}]


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
@pytest.mark.parametrize("wrong", ["noop", ("noop", {}), {"job_type": "noop"}, print])
def test_what_is_no_spec_is_refused_with_its_place(firm: Firm, store: Any, wrong: Any) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        store([GOOD, wrong], firm=firm)
    kind = type(wrong).__name__
    assert str(caught.value) == (
        f"jobs.1: must be an EnqueueSpec, as `greet.spec(…)` returns, not {kind}"
    )
    assert rows(JobQueue) == []


@pytest.mark.parametrize("store", [enqueue_many, enqueue_batch])
@pytest.mark.parametrize("wrong", [GOOD, 5])
def test_one_spec_is_no_list(firm: Firm, store: Any, wrong: Any) -> None:
    with pytest.raises(ArgumentsInvalid, match="jobs: must be a list of EnqueueSpec, not "):
        store(wrong, firm=firm)


def test_an_error_of_a_types_own_function_stays_as_it_is(firm: Firm, job_types: Any) -> None:
    def key(payload: Any) -> str:
        return str(payload.nmae)

    job("test.slip", category="sync", payload=JobPayload, lock_key=key)(lambda payload, ctx: None)
    with pytest.raises(AttributeError, match="nmae"):
        enqueue_many([EnqueueSpec("test.slip")], firm=firm)


@pytest.mark.parametrize("event", ["on_failed", "on_settled", "on_completed"])
def test_a_callback_that_is_no_spec_is_refused(firm: Firm, event: str) -> None:
    wrong: dict[str, Any] = {event: "noop"}
    with pytest.raises(ArgumentsInvalid, match=f"^{event}: must be an EnqueueSpec, .* not str$"):
        enqueue_batch([GOOD], firm=firm, **wrong)
    assert rows(JobQueue) == []


def test_what_is_no_firm_is_refused_also_where_it_has_an_id(firm: Firm) -> None:
    user = UserFactory(pk=firm.pk, username="ada")
    for wrong in ("acme", str(firm.pk), user):
        with pytest.raises(ArgumentsInvalid, match=r"^firm: must be a Firm or the id of one, not "):
            enqueue("noop", firm=wrong)
    with pytest.raises(ArgumentsInvalid, match=r"^firm: no firm has the id 0$"):
        enqueue("noop", firm=0)
    assert rows(JobQueue) == []


def test_an_option_that_does_not_exist_is_refused_at_once(greet: Any) -> None:
    complaint = r"^using\(\) got an unexpected keyword argument 'dely'; did you mean delay\?$"
    with pytest.raises(TypeError, match=complaint):
        greet.using(dely=3)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (enqueue, ["noop"]),
        (enqueue_chain, [[GOOD]]),
        (enqueue_batch, [[GOOD]]),
        (acquire_lock, ["key", 60]),
    ],
)
def test_the_call_that_needs_a_firm_is_named(
    firm: Firm, other_firm: Firm, call: Any, arguments: list[Any]
) -> None:
    with pytest.raises(MissingTenant, match=f"^{call.__name__}: there are several firms"):
        call(*arguments)
