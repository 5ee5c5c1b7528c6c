"""The list of jobs and the page of a job."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs.models import JobQueue, Worker
from jobs.queries import job_detail, lists, locks
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import new_member
from tests.jobs.admin.conftest import FirmRows

pytestmark = pytest.mark.req("O-03")

LIST = "/admin/jobs/jobqueue/"

NOBODYS_ID = "e9c29024-377c-4d6e-b65d-276496e214fc"


@pytest.mark.parametrize(
    "address", [LIST, "/admin/jobs/deadletterqueue/"], ids=["jobs", "dead letters"]
)
def test_a_search_for_the_words_of_an_error_leads_to_the_jobs_that_have_it(
    member: Client, firm: Firm, address: str
) -> None:
    job = JobQueueFactory(firm=firm, status="dlq", last_error="no such street: 'Elm'", attempts=1)
    letter = DeadLetterQueueFactory(original_job=job, error="no such street: 'Elm'")
    filters = {"category": job.category}
    if address == LIST:
        # Older jobs only, as *Search older jobs* leads to.
        filters["before"] = str(UUID(int=0))
    nothing = member.get(address, {"q": "street: 'elm'", **filters})
    assert "Nothing found" in nothing.content.decode()
    (link,) = re.findall(r'href="([^"]+)">Search the text of errors', nothing.content.decode())
    found = member.get(address + unescape(link)).context["cl"]
    assert [row.pk for row in found.result_list] == [job.pk if address == LIST else letter.pk]
    assert found.params["category"] == job.category
    for text in (NOBODYS_ID, "error:meadow", " "):
        shown = member.get(address, {"q": text}).content.decode()
        assert "Search the text of errors" not in shown


def listed(client: Client, **query: str) -> set[Any]:
    """Return the ids of the jobs the list shows."""
    response = client.get(LIST, query)
    assert response.status_code == 200
    return {job.pk for job in response.context["cl"].result_list}


def older_link(text: str) -> dict[str, str]:
    """Return the parameters of the link that goes on with a search."""
    (address,) = re.findall(r'href="\?([^"]*before=[^"]*)"', text)
    return QueryDict(unescape(address)).dict()


def page(client: Client, job_id: Any) -> str:
    response = client.get(reverse("admin:jobs_jobqueue_change", args=[job_id]))
    assert response.status_code == 200
    return response.content.decode()


def test_a_member_without_django_permissions_sees_the_firms_jobs(
    member: Client, acme: FirmRows
) -> None:
    assert listed(member) == {acme.waiting.pk, acme.dead.pk}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "dlq"}, "dead"),
        ({"status": "pending"}, "waiting"),
        ({"category": "export"}, "dead"),
        ({"status": "pending", "category": "maintenance", "type": "noop"}, "waiting"),
        ({"status": "completed"}, None),
    ],
)
def test_filters_narrow_the_list(
    member: Client, acme: FirmRows, query: dict[str, str], found: str | None
) -> None:
    assert listed(member, **query) == ({getattr(acme, found).pk} if found else set())


def test_the_age_filter_leaves_out_older_jobs(member: Client, acme: FirmRows) -> None:
    old = timezone.now() - timedelta(hours=2)
    JobQueueFactory(firm=acme.firm, created_at=old)
    assert listed(member, age="1h") == {acme.waiting.pk, acme.dead.pk}
    assert len(listed(member, age="24h")) == 3


@pytest.mark.req("J-01")
def test_the_jobs_and_dead_letters_of_one_user(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    ann = new_member(acme.firm, Role.VIEWER, "ann")
    with all_firms("test"):
        for rows in (acme, globex):
            JobQueue.objects.filter(pk=rows.dead.pk).update(user_id=ann.pk)
    assert listed(member, user="ann") == {acme.dead.pk}
    refused = member.get(reverse("admin:jobs_jobqueue_changelist"), {"user": "nobody"})
    assert refused.status_code == 400
    assert "There is no such user" in refused.content.decode()
    for name, row in (("jobs_jobqueue", acme.dead), ("jobs_deadletterqueue", acme.dead_letter)):
        address = reverse(f"admin:{name}_changelist")
        page = member.get(address, {"user": "ann"})
        assert [one.pk for one in page.context["cl"].result_list] == [row.pk]


def test_the_firm_filter_is_for_those_who_see_several_firms(
    staff: Client, acme: FirmRows, globex: FirmRows
) -> None:
    assert listed(staff, firm="acme") == {acme.waiting.pk, acme.dead.pk}
    assert listed(staff, firm="globex") == {globex.waiting.pk, globex.dead.pk}


def test_search_finds_by_id_its_beginning_correlation_and_key(
    member: Client, acme: FirmRows
) -> None:
    other = JobQueueFactory(
        firm=acme.firm, correlation_id="import 7", idempotency_key="ingest:9:42"
    )
    assert listed(member, q=str(other.pk)) == {other.pk}
    assert listed(member, q=str(other.pk)[:23].upper()) == {other.pk}
    assert listed(member, q="import 7") == {other.pk}
    assert listed(member, q="ingest:9") == {other.pk}
    assert listed(member, q="ingest:8") == set()


def test_the_page_tells_a_dead_jobs_story(member: Client, acme: FirmRows) -> None:
    text = page(member, acme.dead.pk)
    assert "Attempt 1 dead-lettered after 2 s" in text
    assert "secret of acme" in text
    assert "Traceback: the whole story" in text
    assert "Dead-lettered" in text
    assert reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk]) in text
    assert "fetch" in text
    assert "took 3 min" in text


def test_the_page_masks_secrets_and_escapes_html(operator: Client, acme: FirmRows) -> None:
    payload = {"headers": {"Authorization": "hunter2"}, "name": "<script>alert(1)</script>"}
    text = page(
        operator, JobQueueFactory(firm=acme.firm, payload=payload, result={"token": "hunter3"}).pk
    )
    assert "hunter" not in text
    assert "<script>alert(1)</script>" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_link_to_what_is_correlated_carries_the_id_whole(
    member: Client, acme: FirmRows
) -> None:
    job = JobQueueFactory(firm=acme.firm, correlation_id="a&status=b c")
    assert f"{LIST}?q=a%26status%3Db+c" in page(member, job.pk)


def test_viewers_see_the_form_of_a_payload_alone(
    member: Client, operator: Client, acme: FirmRows
) -> None:
    letter = reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk])
    for client, messages_of in ((member, False), (operator, True)):
        for text in (page(client, acme.dead.pk), client.get(letter).content.decode()):
            assert "correlation_id" in text
            assert ("import of acme" in text) is messages_of


def test_the_page_leads_to_parent_and_children(member: Client, acme: FirmRows) -> None:
    parent = JobQueueFactory(firm=acme.firm, status="processing")
    child = JobQueueFactory(firm=acme.firm, parent=parent)
    child_url = reverse("admin:jobs_jobqueue_change", args=[child.pk])
    parent_url = reverse("admin:jobs_jobqueue_change", args=[parent.pk])
    assert child_url in page(member, parent.pk)
    assert parent_url in page(member, child.pk)


@pytest.mark.req("J-25")
def test_the_page_says_why_a_job_waits(member: Client, acme: FirmRows, live_worker: Worker) -> None:
    later = JobQueueFactory(firm=acme.firm, scheduled_at=timezone.now() + timedelta(hours=2))
    assert "Scheduled in 1 h" in page(member, later.pk)
    locked = JobQueueFactory(firm=acme.firm, waiting=True, lock_key="export:acme")
    assert f"held by job {acme.waiting.pk}" in page(member, locked.pk)
    assert "hourglass" not in page(member, acme.waiting.pk)
    live_worker.delete()
    assert "No worker is alive" in page(member, acme.waiting.pk)


@pytest.mark.parametrize("job_id", [NOBODYS_ID, "not-an-id", "1", "%00"])
def test_a_page_that_does_not_exist_is_404(member: Client, job_id: str) -> None:
    response = member.get(f"{LIST}{job_id}/change/")
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


@pytest.mark.parametrize("act", ["change/", "delete/"])
def test_nothing_can_be_changed(member: Client, staff: Client, acme: FirmRows, act: str) -> None:
    for client in (member, staff):
        assert (
            client.post(f"{LIST}{acme.waiting.pk}/{act}", {"status": "failed"}).status_code == 403
        )
        assert client.get(f"{LIST}add/").status_code == 403


def test_the_list_costs_the_same_however_many_rows_and_counts_nothing(
    staff: Client, firm: Firm, more_jobs: Callable[[Firm, int], None]
) -> None:
    more_jobs(firm, 3)
    with CaptureQueriesContext(connection) as few:
        assert len(listed(staff)) == 3
    more_jobs(firm, 45)
    with CaptureQueriesContext(connection) as many:
        assert len(listed(staff)) == 48
    assert len(many) == len(few) <= 13
    on_jobs = [query["sql"] for query in many if "jobs_jobqueue" in query["sql"]]
    assert not [sql for sql in on_jobs if "COUNT(" in sql]
    assert not [sql for sql in on_jobs if '"payload"' in sql]


def test_a_page_of_a_job_with_a_long_history_costs_a_fixed_number_of_queries(
    staff: Client, acme: FirmRows, more_jobs: Callable[[Firm, int], None]
) -> None:
    parent = JobQueueFactory(firm=acme.firm, status="processing")
    page(staff, parent.pk)
    with CaptureQueriesContext(connection) as alone:
        page(staff, parent.pk)
    for _ in range(5):
        JobQueueFactory(firm=acme.firm, parent=parent)
    with CaptureQueriesContext(connection) as crowded:
        page(staff, parent.pk)
    assert len(crowded) == len(alone) <= 20
    # For a waiting job, each thing that may hold it back takes a query.
    with CaptureQueriesContext(connection) as waiting:
        page(staff, acme.waiting.pk)
    assert len(waiting) <= 24


def test_pages_of_the_list_go_on_without_a_count(
    staff: Client, firm: Firm, more_jobs: Callable[[Firm, int], None]
) -> None:
    more_jobs(firm, 55)
    first, second = listed(staff), listed(staff, p="2")
    assert (len(first), len(second)) == (50, 5)
    assert not first & second
    assert listed(staff, p="9") == set()


def test_a_job_is_shown_in_the_tree_of_its_correlation(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    def add(job_type: str, parent: Any = None, firm: Firm = acme.firm, **columns: Any) -> Any:
        return JobQueueFactory(
            job_type=job_type,
            firm=firm,
            parent_id=parent and parent.pk,
            correlation_id="c-7",
            **columns,
        )

    webhook = add("webhook")
    sync = add("sync", webhook)
    first = add("ingest", sync)
    second = add("ingest", sync)
    classify = add("classify", first)
    action = add("action", classify, last_error="the label is gone")
    apart = add("apart")
    add("stranger", webhook, globex.firm)
    JobQueueFactory(firm=acme.firm, job_type="unrelated")
    response = member.get(reverse("admin:jobs_jobqueue_change", args=[classify.pk]))
    tree = [(one.job.pk, one.depth) for one, _ in response.context["tree"]]
    assert tree == [
        (webhook.pk, 0),
        (sync.pk, 1),
        (first.pk, 2),
        (classify.pk, 3),
        (action.pk, 4),
        (second.pk, 2),
        (apart.pk, 0),
    ]
    text = response.content.decode()
    assert "Correlation tree" in text
    assert "the label is gone" in text
    assert "stranger" not in text
    alone = JobQueueFactory(firm=acme.firm, correlation_id="c-8")
    assert "Correlation tree" not in page(member, alone.pk)


def test_the_tree_is_bounded(
    member: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_detail, "TREE_READ", 3)
    jobs = [JobQueueFactory(firm=acme.firm, correlation_id="c-7") for _ in range(5)]
    response = member.get(reverse("admin:jobs_jobqueue_change", args=[jobs[0].pk]))
    assert [one.job.pk for one, _ in response.context["tree"]] == [job.pk for job in jobs[:3]]


def test_a_locks_page_names_who_waits_for_it(
    member: Client, acme: FirmRows, globex: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = acme.lock.lock_key
    waiting = {"lock_key": key, "ready": False, "waiting": True}
    later, sooner = (
        JobQueueFactory(firm=acme.firm, priority=priority, **waiting) for priority in (3, 0)
    )
    JobQueueFactory(firm=globex.firm, **waiting)
    JobQueueFactory(firm=acme.firm, lock_key="another", ready=False, waiting=True)
    address = reverse("admin:jobs_concurrencylock_change", args=[acme.lock.pk])
    shown = member.get(address)
    assert [job.pk for job, _ in shown.context["waiters"]] == [sooner.pk, later.pk]
    assert "2 waiting" in shown.content.decode()
    monkeypatch.setattr(locks, "WAITERS_SHOWN", 1)
    text = member.get(address).content.decode()
    assert f"{LIST}?lock=export%3Aacme&amp;firm=acme" in text
    assert listed(member, lock=key) == {sooner.pk, later.pk}


@pytest.mark.req("J-20", "T-03")
def test_the_page_of_a_lock_over_all_firms_names_who_waits_in_each(
    staff: Client, member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    with all_firms("test"):
        lock = type(acme.lock).objects.create(
            firm=Firm.objects.system(), lock_key="provider", holder_id="me", fencing_token=1
        )
    waiting = {"lock_key": "provider", "ready": False, "waiting": True}
    shared = [
        JobQueueFactory(firm=one.firm, lock_counted_by="all_firms", **waiting)
        for one in (acme, globex)
    ]
    JobQueueFactory(firm=acme.firm, **waiting)
    address = reverse("admin:jobs_concurrencylock_change", args=[lock.pk])
    shown = staff.get(address)
    assert [job.pk for job, _ in shown.context["waiters"]] == [job.pk for job in shared]
    text = shown.content.decode()
    assert "all firms" in text
    assert acme.firm.name in text
    assert shown.context["all_waiters"] == f"{LIST}?lock=provider"
    assert member.get(address).status_code == 404
    assert "all firms" in page(member, shared[0].pk)


@pytest.mark.req("O-08")
def test_the_list_takes_qualifiers_and_says_how_far_back_it_searched(
    operator: Client, member: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(operator, q="status:dlq error:secret") == {acme.dead.pk}
    assert listed(operator, q="key:welcome") == {acme.waiting.pk}
    wrong = operator.get(LIST, {"q": "status:none"})
    assert wrong.status_code == 400
    assert "status: must be one of pending" in wrong.content.decode()
    by_payload = "type:noop created:1d payload.correlation_id:x"
    assert listed(operator, q=by_payload) == set()
    assert member.get(LIST, {"q": by_payload}).status_code == 400
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    bounded = operator.get(LIST, {"q": "key:welcome"}).content.decode()
    assert "Searched back to" in bounded
    assert older_link(bounded)["q"] == "key:welcome"


def test_a_search_of_one_firm_reads_its_jobs_alone(
    staff: Client, acme: FirmRows, globex: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobQueueFactory(firm=acme.firm, correlation_id="rare")
    for _ in range(3):
        JobQueueFactory(firm=globex.firm)
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    assert listed(staff, q="correlation:rare") == set()
    assert listed(staff, q="correlation:rare", firm=acme.firm.slug) == {job.pk}


def test_a_search_says_how_far_back_it_read_and_a_bulk_operation_reads_all(
    operator: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = JobQueueFactory(firm=acme.firm, job_type="sync")
    for _ in range(4):
        JobQueueFactory(firm=acme.firm)
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    for chosen in ({"q": "type:sync"}, {"q": "type:sync", "age": "1h"}):
        shown = operator.get(LIST, chosen)
        assert not shown.context["cl"].result_list
        assert "Searched back to" in shown.content.decode()
        older = older_link(shown.content.decode())
        assert not listed(operator, **older)
        assert listed(operator, **older_link(operator.get(LIST, older).content.decode())) == {
            old.pk
        }
        asked = operator.get(f"{LIST}bulk/cancel/", chosen)
        assert asked.context["totals"].count == 1
    assert listed(operator, q="type:sync", status="pending") == {old.pk}
    assert listed(operator, type="sync") == {old.pk}
    monkeypatch.setattr(lists, "READING_SECONDS", 60)
    assert listed(operator, q="type:sync") == {old.pk}
    assert operator.get(LIST, {"before": "x"}).status_code == 400
