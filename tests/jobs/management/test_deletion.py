"""`manage.py delete_firm` and `delete_user`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.models import JobQueue
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.req("T-04", "O-04")


@pytest.mark.parametrize("noun", ["firm", "user"])
@pytest.mark.parametrize("arguments", [("caf\udce9",), ("acme", "--yes", "--reason", "caf\udce9")])
def test_what_no_database_can_store_is_wrong_usage(
    run: Callable[..., Any], firm: Firm, noun: str, arguments: tuple[str, ...]
) -> None:
    UserFactory(username="acme")
    refused = run(f"delete_{noun}", *arguments)
    assert (refused.code, "is not valid UTF-8 text" in refused.err) == (2, True)


@pytest.mark.parametrize("noun", ["firm", "user"])
def test_a_deletion_is_begun_when_it_is_confirmed(
    run: Callable[..., Any], firm: Firm, noun: str
) -> None:
    UserFactory(username="ada@x.example", email="ada@x.example")
    name = "acme" if noun == "firm" else "ada@x.example"
    refused = run(f"delete_{noun}", name)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert run(f"delete_{noun}", "nobody", "--yes").code == 3
    done = run(f"delete_{noun}", name, "--yes", "--reason", "asked for it", "--json")
    assert done.code == 0
    with all_firms("test"):
        job = JobQueue.objects.get(pk=done.json["job_id"])
        (entry,) = AuditEntry.objects.all()
    assert (job.job_type, job.status) == (f"delete_{noun}", "pending")
    assert (entry.act, entry.door, entry.reason) == (f"{noun}.delete", "cli", "asked for it")
    assert run("delete_firm", "system", "--yes").code == 1


def test_of_several_users_the_one_whose_name_it_is_is_deleted(run: Callable[..., Any]) -> None:
    for name in ("ada", "Ada", "grace"):
        UserFactory(username=name, email="both@x.example")
    for key in ("both@x.example", "ADA"):
        refused = run("delete_user", key, "--yes")
        assert (refused.code, "'Ada', 'ada'" in refused.err) == (1, True)
    done = run("delete_user", "Ada", "--yes")
    assert (done.code, "Ada is being deleted" in done.out) == (0, True)


def test_an_empty_name_is_nobody_although_a_user_has_no_address(run: Callable[..., Any]) -> None:
    UserFactory(username="ada", email="")
    assert run("delete_user", "", "--yes").code == 3
