"""A handler that may run twice passes; for any other, the failure says what the second run did."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from jobs.queue import enqueue
from jobs.testing import assert_idempotent, assert_not_enqueued, enqueued

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-27")]


def complaint(job_type: str, payload: dict[str, object] | None = None, **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_idempotent(job_type, payload, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["kit.add", "kit.step", "kit.keyed", "kit.async", "kit.transaction"]
)
def test_handlers_that_may_run_twice(name: str) -> None:
    job = assert_idempotent(name, {"name": "ada"})
    assert (job.status, job.attempts) == ("completed", 1)


def test_a_row_more() -> None:
    message = complaint("kit.append")
    assert message.startswith("kit.append is not idempotent; its second run:\n  added to auth.User")
    assert "'first_name': 'ada'" in message


@pytest.mark.django_db(transaction=True)
def test_on_committed_rows_as_well() -> None:
    assert_idempotent("kit.keyed", {"name": "ada"})
    assert "added to auth.User" in complaint("kit.append")
    assert User.objects.filter(first_name="ada").count() == 2


def test_a_row_changed() -> None:
    message = complaint("kit.flip")
    assert "changed auth.User" in message
    assert "is_active is True, and was False" in message
    assert_idempotent("kit.flip", {"name": "other"}, ignore=["is_active"])


def test_only_the_tables_that_count() -> None:
    assert_idempotent("kit.append", only=[])
    assert "added to auth.User" in complaint("kit.append", only=[User])


def test_an_e_mail_more() -> None:
    assert "sent another e-mail: Dear ada" in complaint("kit.write")
    assert "sent another e-mail: Dear ada" in complaint("kit.on_commit")


def test_a_job_more() -> None:
    assert "enqueued another job: kit.keyed (pending) {'name': 'ada'}" in complaint("kit.pass_on")
    assert_idempotent("kit.pass_on", {"options": {"key": "mine"}})


def test_whatever_else_the_test_watches() -> None:
    calls: list[int] = []
    assert_idempotent("kit.add", snapshot=lambda: calls)

    def count() -> list[int]:
        calls.append(len(calls))
        return calls

    assert "the snapshot is [0, 1], and was [0]" in complaint("kit.add", snapshot=count)


def test_a_handler_that_fails_proves_nothing() -> None:
    assert "the first run of kit.fail_first did not complete" in complaint("kit.fail_first")
    message = complaint("kit.give_up")
    assert "the first run of kit.give_up did not complete: jobs.errors.Fatal: no use\n" in message
    # The traceback is there to be read, line by line.
    assert "\nTraceback (most recent call last):\n  File " in message


def test_other_jobs_are_left_alone() -> None:
    other = enqueue("kit.write", priority=0)
    assert_idempotent("kit.add")
    assert other.job.status == "pending"
    assert len(enqueued()) == 2
    assert_not_enqueued("kit.keyed")
