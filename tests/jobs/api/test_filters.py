"""Filters of dead letters, locks and workers: which rows they keep."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from interfaces.moments import iso
from jobs.models import Attempt, ConcurrencyLock, DeadLetterQueue, JobQueue, Pause
from jobs.queries import lists
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, WorkerFactory
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, fields

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


@pytest.fixture
def old(acme: FirmRows) -> DeadLetterQueue:
    """Return a dead letter of two days ago; the fixture's own is of now."""
    return DeadLetterQueueFactory(
        original_job=JobQueueFactory(firm=acme.firm, status="dlq"),
        # The ids of dead letters of one moment begin alike.
        id=UUID(int=acme.dead_letter.pk.int ^ 1),
        reason="stale",
        error_class="KeyError",
        fingerprint="0123abcd",
        moved_at=timezone.now() - timedelta(days=2),
    )


def ids(api: Api, path: str, **query: str) -> set[str]:
    return {row["id"] for row in api.results(path, query)}


def test_dead_letters_by_date(viewer: Api, acme: FirmRows, old: DeadLetterQueue) -> None:
    new = acme.dead_letter
    yesterday = str(iso(timezone.now() - timedelta(days=1)))
    assert ids(viewer, "dlq/", created_after=yesterday) == {str(new.pk)}
    assert ids(viewer, "dlq/", created_before=yesterday) == {str(old.pk)}
    moved = old.moved_at.isoformat()
    assert str(old.pk) in ids(viewer, "dlq/", created_after=moved)
    assert ids(viewer, "dlq/", created_before=moved) == set()


def test_dead_letters_by_what_an_operator_has_at_hand(
    viewer: Api, acme: FirmRows, globex: FirmRows, old: DeadLetterQueue
) -> None:
    for term in (str(old.pk), str(old.original_job_id), "0123abcd", "KeyError"):
        assert ids(viewer, "dlq/", search=term) == {str(old.pk)}
    assert ids(viewer, "dlq/", search=str(old.pk)[:8]) == {str(old.pk), str(acme.dead_letter.pk)}
    for term in (
        "0123",
        "keyerror",
        "it broke",
        "%",
        "error:",
        'error:""',
        str(globex.dead_letter.pk),
    ):
        assert ids(viewer, "dlq/", search=term) == set()


def test_dead_letters_by_what_lists_show_of_their_error(
    viewer: Api, acme: FirmRows, globex: FirmRows
) -> None:
    with all_firms("test"):
        DeadLetterQueue.objects.update(error_class="requests.exceptions.Refused", error="by 'post'")
    mine = {str(acme.dead_letter.pk)}
    for term in (
        "Refused",
        "requests.exceptions.Refused",
        "error:refused",
        "error:Refused: by 'post'",
        'error:"by \'post"',
    ):
        assert ids(viewer, "dlq/", search=term) == mine, term
    for term in ("exceptions", "fused", "error:carrier"):
        assert ids(viewer, "dlq/", search=term) == set(), term


@pytest.mark.req("O-03")
def test_jobs_by_what_lists_show_of_their_error(
    viewer: Api, acme: FirmRows, globex: FirmRows
) -> None:
    failed = {"status": "failed", "attempts": 1, "last_error": "by 'post'"}
    error = {"error_class": "requests.exceptions.Refused", "message": "by 'post'"}
    for one in (acme.firm, globex.firm):
        job = JobQueueFactory(firm=one, **failed)
        with firm_scope(one):
            Attempt.objects.create(job=job, series=1, number=1, end="failed", **error)
    with firm_scope(acme.firm):
        mine = {str(pk) for pk in JobQueue.objects.filter(**failed).values_list("pk", flat=True)}

    def found(**query: str) -> set[str]:
        return {row["job_id"] for row in viewer.results("jobs/", query)}

    for text in ("refused", "exceptions.Refused", "Refused: by 'post'", "by 'post"):
        assert found(error=text) == found(search=f'error:"{text}"') == mine, text
    assert found(error="carrier") == found(search="error:carrier") == set()


@pytest.mark.req("J-24")
def test_jobs_of_one_limit_key(viewer: Api, acme: FirmRows, globex: FirmRows) -> None:
    with all_firms("test"):
        for rows in (acme, globex):
            JobQueue.objects.filter(pk=rows.waiting.pk).update(limit_key="mailbox:1", limit_units=5)
    (found,) = viewer.results("jobs/", {"limit_key": "mailbox:1"})
    assert found["job_id"] == str(acme.waiting.pk)
    assert (found["limit_key"], found["limit_units"]) == ("mailbox:1", 5)
    assert viewer.results("jobs/", {"limit_key": "mailbox"}) == []


@pytest.mark.req("J-01")
def test_jobs_and_dead_letters_of_one_user(
    viewer: Api, operator: Api, acme: FirmRows, globex: FirmRows, old: DeadLetterQueue
) -> None:
    ann, bob, cy = (UserFactory(username=name) for name in ("ann", "bob", "cy"))
    MembershipFactory(firm=acme.firm, user=cy)
    with all_firms("test"):
        for rows in (acme, globex):
            JobQueue.objects.filter(pk=rows.waiting.pk).update(user_id=ann.pk)
            JobQueue.objects.filter(pk=rows.dead.pk).update(user_id=ann.pk)
        JobQueue.objects.filter(pk=old.original_job_id).update(user_id=bob.pk)
    mine = {str(acme.waiting.pk), str(acme.dead.pk)}
    for name, found, letters in (
        ("Ann", mine, {str(acme.dead_letter.pk)}),
        ("bob", {str(old.original_job_id)}, {str(old.pk)}),
        ("cy", set(), set()),
    ):
        assert {row["job_id"] for row in viewer.results("jobs/", {"user": name})} == found
        assert ids(viewer, "dlq/", user=name) == letters
        body = {"action": "reprocess", "filter": {"user": name}}
        assert operator.post("dlq/bulk/", body).json()["count"] == len(letters)
    waiting = viewer.results("jobs/", {"user": "ann", "status": "pending"})
    assert [row["job_id"] for row in waiting] == [str(acme.waiting.pk)]


@pytest.mark.req("O-01", "T-03")
def test_a_user_of_another_firm_is_as_unknown_as_one_that_does_not_exist(
    viewer: Api, operator: Api, acme: FirmRows, globex: FirmRows
) -> None:
    theirs = MembershipFactory(firm=globex.firm, user=UserFactory(username="gus")).user
    with all_firms("test"):
        JobQueue.objects.filter(pk=globex.waiting.pk).update(user_id=theirs.pk)
    for name in ("gus", "nobody", "gu"):
        for path in ("jobs/", "dlq/"):
            answer = viewer.get(path, {"user": name})
            assert answer.status_code == 400
            assert fields(answer) == {"user": "unknown"}
        chosen = {"action": "reprocess", "filter": {"user": name}}
        assert operator.post("dlq/bulk/", chosen).status_code == 400
        assert viewer.get("jobs/", {"search": f"user:{name}"}).status_code == 400


@pytest.fixture
def locks(acme: FirmRows) -> dict[str, str]:
    """Return the ids of some locks by key; the time of the lock "over" is up."""
    now = timezone.now()
    rows: dict[str, tuple[str, datetime | None]] = {
        "mailbox:1": (f"job:{acme.waiting.pk}", None),
        "mailbox:2": ("user:ada", now + timedelta(hours=1)),
        "report": ("user:ada", now + timedelta(hours=1)),
        "over": ("user:ada", now - timedelta(seconds=1)),
    }
    with all_firms("test"):
        acme.lock.delete()
        return {
            key: str(
                ConcurrencyLock.objects.create(
                    firm=acme.firm,
                    lock_key=key,
                    holder_id=holder,
                    expires_at=expires_at,
                    fencing_token=1,
                ).pk
            )
            for key, (holder, expires_at) in rows.items()
        }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, {"mailbox:1", "mailbox:2", "report"}),
        ({"kind": "job"}, {"mailbox:1"}),
        ({"kind": "user"}, {"mailbox:2", "report"}),
        ({"search": "mailbox:"}, {"mailbox:1", "mailbox:2"}),
        ({"search": "mailbox:", "kind": "user"}, {"mailbox:2"}),
        ({"search": "box"}, set()),
        ({"search": "over"}, set()),
    ],
)
def test_filters_of_locks(
    query: dict[str, str], found: set[str], viewer: Api, locks: dict[str, str]
) -> None:
    assert {row["lock_key"] for row in viewer.results("locks/", query)} == found


@pytest.mark.req("J-21")
def test_a_lock_whose_time_is_up_cannot_be_released(admin: Api, locks: dict[str, str]) -> None:
    body = {"reason": "tidy up"}
    assert admin.post(f"locks/{locks['report']}/release/", body).status_code == 200
    assert admin.post(f"locks/{locks['over']}/release/", body).status_code == 404


@pytest.fixture
def workers(firm: Firm) -> None:
    """Store one worker in each state, named by its host."""
    now = timezone.now()
    soon, past = now + timedelta(hours=1), now - timedelta(seconds=1)
    for host, lease, dead_at, categories in (
        ("all", soon, None, []),
        ("sync", soon, None, ["sync", "export"]),
        ("silent", past, None, ["sync"]),
        ("dead", past, past, ["recurrence"]),
    ):
        WorkerFactory(host=host, categories=categories, lease_expires_at=lease, dead_at=dead_at)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "live"}, {"all", "sync"}),
        ({"state": "silent"}, {"silent"}),
        ({"state": "dead"}, {"dead"}),
        ({"category": "export"}, {"all", "sync"}),
        ({"category": "sync"}, {"all", "sync", "silent"}),
        ({"category": "sync", "state": "silent"}, {"silent"}),
        ({"host": "sync"}, {"sync"}),
        ({"host": "syn"}, set()),
    ],
)
def test_filters_of_workers(
    query: dict[str, str], found: set[str], viewer: Api, workers: None
) -> None:
    assert {row["host"] for row in viewer.results("workers/", query)} == found


@pytest.mark.req("J-25")
def test_jobs_by_what_holds_them_back(viewer: Api, acme: FirmRows, globex: FirmRows) -> None:
    with all_firms("test"):
        for firm in (acme.firm, globex.firm):
            Pause.objects.create(firm=firm, category="documents", reason="x", paused_by="y")
    paused, _ = (
        JobQueueFactory(firm=firm, category="documents") for firm in (acme.firm, globex.firm)
    )
    found = viewer.results("jobs/", {"held_back": "paused"})
    assert [row["job_id"] for row in found] == [str(paused.pk)]
    assert viewer.get("queues/").json()["held_back"]["paused"] == 1
    assert viewer.get("jobs/", {"held_back": "bad luck"}).status_code == 400


@pytest.mark.req("O-08")
def test_jobs_by_qualifiers(viewer: Api, operator: Api, acme: FirmRows, globex: FirmRows) -> None:
    def found(api: Api, text: str) -> set[str]:
        return {row["job_id"] for row in api.results("jobs/", {"search": text})}

    assert found(viewer, "status:dlq error:broke created:1d") == {str(acme.dead.pk)}
    assert found(viewer, "canary-acme:welcome") == {str(acme.waiting.pk)}
    by_payload = "type:noop created:1d status:dlq payload.correlation_id:canary-acme"
    assert found(operator, by_payload) == {str(acme.dead.pk)}
    for text, code in (
        ("status:none", {"search.status": "invalid_choice"}),
        ("firm:globex", {"search.firm": "unknown"}),
        # A viewer must not find out values of payloads, which they cannot see.
        (by_payload, {"search.payload.correlation_id": "permission_denied"}),
    ):
        assert fields(viewer.get("jobs/", {"search": text})) == code


@pytest.mark.req("O-08")
def test_a_page_of_a_search_that_found_nothing_leads_on(
    viewer: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    first = viewer.get("jobs/", {"search": "status:pending type:noop error:x"}).json()
    assert first == {"results": [], "next": None}  # An index finds the pending jobs.
    first = viewer.get("jobs/", {"search": "key:canary-acme"}).json()
    assert first["results"] == []
    second = viewer.get("jobs/", {"search": "key:canary-acme", "cursor": first["next"]}).json()
    assert [row["job_id"] for row in second["results"]] == [str(acme.waiting.pk)]
    assert second["next"] is None
