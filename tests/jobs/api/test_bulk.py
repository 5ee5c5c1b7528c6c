"""`dlq/groups/`, `dlq/bulk/`, `jobs/bulk/`, `bulk-runs/`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import BulkRun, DeadLetterQueue, JobQueue, Pause
from jobs.testing import drain
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("D-03", "O-01")]

BROKEN = "0123456789abcdef"


def letters(firm: Firm, count: int, *, hours_ago: float = 0, **columns: Any) -> list[Any]:
    return [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq"),
            fingerprint=BROKEN,
            error_class="Boom",
            error=f"it broke {number}",
            moved_at=timezone.now() - timedelta(hours=hours_ago),
            **columns,
        )
        for number in range(count)
    ]


def act(api: Api, what: str = "dlq", **body: Any) -> Any:
    return api.post(f"{what}/bulk/", {"dry_run": False, **body})


def test_groups_say_how_many_since_when_where_and_what(
    acme: FirmRows, globex: FirmRows, staff: Api, viewer: Api
) -> None:
    letters(acme.firm, 2, hours_ago=30)
    recent = letters(acme.firm, 1, hours_ago=3)
    letters(globex.firm, 4, hours_ago=5)
    letters(globex.firm, 1, resolution="discarded")
    answer = staff.get("dlq/groups/").json()
    first, second = answer["results"]
    assert answer["more"] is False
    assert (first["fingerprint"], first["count"]) == (BROKEN, 7)
    assert first["firms"] == [{"firm": "globex", "count": 4}, {"firm": "acme", "count": 3}]
    assert (first["job_types"], first["error_class"]) == (["noop"], "Boom")
    assert (first["sample_id"], first["error"]) == (str(recent[0].pk), "it broke 0")
    assert first["first_seen"] < first["last_seen"]
    assert first["trend"] == [0] * 9 + [4, 1, 0]
    assert (second["fingerprint"], second["count"]) == ("abc123", 2)
    mine = viewer.get("dlq/groups/").json()["results"]
    assert [(group["count"], group["firms"]) for group in mine] == [
        (3, [{"firm": "acme", "count": 3}]),
        (1, [{"firm": "acme", "count": 1}]),
    ]
    assert staff.get("dlq/groups/", {"firm": "globex"}).json()["results"][0]["count"] == 4


def test_a_dry_run_counts_by_cause_and_firm_and_changes_nothing(
    acme: FirmRows, globex: FirmRows, staff: Api
) -> None:
    letters(acme.firm, 3), letters(globex.firm, 1)
    body = {"action": "reprocess", "filter": {}, "everywhere": True}
    answer = staff.post("dlq/bulk/", body)
    assert answer.status_code == 200
    assert answer.json() == {
        "count": 6,
        "causes": [
            {"job_type": "noop", "cause": "Boom", "fingerprint": BROKEN, "count": 4},
            {"job_type": "noop", "cause": "ValueError", "fingerprint": "abc123", "count": 2},
        ],
        "firms": [{"firm": "acme", "count": 4}, {"firm": "globex", "count": 2}],
    }
    assert rows(BulkRun) == [acme.bulk_run, globex.bulk_run]


def test_a_group_is_reprocessed_and_its_run_is_shown(acme: FirmRows, operator: Api) -> None:
    chosen = letters(acme.firm, 3)
    answer = act(operator, action="reprocess", filter={"fingerprint": BROKEN}, reason="mended")
    assert answer.status_code == 202
    started = answer.json()
    assert started["count"] == 3
    assert started["url"] == f"/api/v1/jobs/admin/bulk-runs/{started['run_id']}/"
    drain()
    run = operator.get(f"bulk-runs/{started['run_id']}/").json()
    assert (run["state"], run["done"], run["refused"], run["refusals"]) == ("completed", 3, 0, [])
    assert (run["job_status"], run["job_id"]) == ("completed", started["job_id"])
    assert run["selection"] == {"filter": {"fingerprint": BROKEN}}
    assert {row(one.original_job_id).series for one in chosen} == {2}
    assert operator.results("bulk-runs/")[0]["id"] == started["run_id"]


@pytest.mark.req("J-25")
def test_a_run_says_why_its_job_waits(acme: FirmRows, operator: Api) -> None:
    letters(acme.firm, 2)
    started = act(operator, action="reprocess", filter={"fingerprint": BROKEN}).json()
    run = operator.get(f"bulk-runs/{started['run_id']}/").json()
    assert [reason["code"] for reason in run["why_waiting"]] == ["no_worker"]
    assert run["last_chunk_at"] is None
    drain()
    run = operator.get(f"bulk-runs/{started['run_id']}/").json()
    assert (run["state"], run["why_waiting"]) == ("completed", [])
    assert run["last_chunk_at"] is not None


def test_a_run_is_stopped_once(acme: FirmRows, operator: Api) -> None:
    letters(acme.firm, 2)
    run = act(operator, action="discard", filter={}, reason="obsolete").json()["run_id"]
    stopped = operator.post(f"bulk-runs/{run}/stop/", {"reason": "no"}).json()
    assert (stopped["state"], stopped["done"]) == ("stopped", 0)
    assert problem(operator.post(f"bulk-runs/{run}/stop/", {}), 409)["code"] == "wrong_state"
    assert [entry.act for entry in audit_log()] == ["bulk.start", "bulk.stop"]


@pytest.mark.req("J-17", "J-16", "O-08")
def test_jobs_are_retried_canceled_and_given_a_priority(acme: FirmRows, operator: Api) -> None:
    answer = act(operator, "jobs", action="retry", filter={"status": "dlq"})
    assert (answer.status_code, answer.json()["count"]) == (202, 1)
    answer = act(operator, "jobs", action="set_priority", ids=[str(acme.waiting.pk)], priority=0)
    assert (answer.status_code, answer.json()["count"]) == (202, 1)
    answer = operator.post("jobs/bulk/", {"action": "cancel", "filter": {"job_type": "noop"}})
    assert answer.json()["causes"] == [
        {"job_type": "noop", "cause": "pending", "fingerprint": None, "count": 1}
    ]


def test_jobs_are_chosen_by_the_search_of_their_list(acme: FirmRows, operator: Api) -> None:
    def chosen(search: str) -> Any:
        return operator.post("jobs/bulk/", {"action": "cancel", "filter": {"search": search}})

    JobQueueFactory(firm=acme.firm, correlation_id="other")
    for search in (str(acme.waiting.pk), "status:pending correlation:canary-acme"):
        assert chosen(search).json()["count"] == 1, search
    assert chosen("payload.version:1.0 type:noop created:1d").json()["count"] == 2
    assert fields(chosen("status:dead")) == {"search.status": "invalid_choice"}


def test_jobs_are_chosen_by_every_filter_of_their_list(acme: FirmRows, operator: Api) -> None:
    def chosen(**filters: str) -> Any:
        return operator.post("jobs/bulk/", {"action": "cancel", "filter": filters})

    with all_firms("test"):
        Pause.objects.create(firm=acme.firm, category="documents", reason="x", paused_by="y")
    JobQueueFactory(firm=acme.firm, category="documents")
    ada = MembershipFactory(firm=acme.firm, user=UserFactory(username="ada")).user
    JobQueueFactory(firm=acme.firm, limit_key="box", user_id=ada.pk)
    for filters in (
        {"held_back": "paused"},
        {"held_back": "anything"},
        {"limit_key": "box"},
        {"user": "ada"},
    ):
        assert chosen(**filters).json()["count"] == 1, filters
    assert chosen(limit_key="other").json()["count"] == 0
    assert fields(chosen(held_back="rain")) == {"filter.held_back": "invalid_choice"}
    assert fields(chosen(user="nobody")) == {"user": "unknown"}


@pytest.mark.req("T-01", "T-03")
def test_a_viewer_is_refused_and_nobody_acts_on_another_firm(
    acme: FirmRows, globex: FirmRows, viewer: Api, operator: Api, staff: Api
) -> None:
    body = {"action": "discard", "filter": {}, "reason": "x"}
    assert problem(act(viewer, **body), 403)
    assert problem(act(operator, **body, firm="globex"), 404)
    assert problem(act(operator, **body, everywhere=True), 403)
    theirs = {**body, "filter": None, "ids": [str(globex.dead_letter.pk)]}
    del theirs["filter"]
    assert problem(act(operator, **theirs), 409)["code"] == "wrong_state"
    run = act(staff, **body, everywhere=True).json()["run_id"]
    assert problem(operator.get(f"bulk-runs/{run}/"), 404)
    assert problem(operator.post(f"bulk-runs/{run}/stop/", {}), 404)
    mine = act(operator, **body).json()["run_id"]
    assert problem(viewer.post(f"bulk-runs/{mine}/stop/", {}), 403)
    assert viewer.get(f"bulk-runs/{mine}/").status_code == 200


@pytest.mark.req("T-01", "T-03")
def test_a_member_of_several_firms_names_one(acme: FirmRows, globex: FirmRows) -> None:
    api = Api(key_for(acme.firm, Role.OPERATOR))
    assert act(api, action="reprocess", filter={}).status_code == 202
    from django.test import Client

    user = UserFactory(username="both")
    for found in (acme.firm, globex.firm):
        MembershipFactory(firm=found, user=user, role=Role.OPERATOR)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    both = Api(client=client)
    assert fields(act(both, action="reprocess", filter={})) == {"firm": "required"}
    assert act(both, action="reprocess", filter={}, firm="globex").json()["count"] == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"action": "reprocess"}, {"filter": "required"}),
        ({"action": "reprocess", "filter": {}, "ids": []}, {"ids": "min_length"}),
        ({"action": "retry", "filter": {}}, {"action": "invalid_choice"}),
        ({"action": "discard", "filter": {}}, {"reason": "reason_missing"}),
        ({"action": "reprocess", "filter": {"colour": "red"}}, {"filter.colour": "unknown_field"}),
        ({"action": "reprocess", "filter": {"fingerprint": 7}}, {"filter.fingerprint": "invalid"}),
        ({"action": "reprocess", "filter": {}, "rate_per_second": 0}, {"rate_per_second": "min_value"}),
        ({"action": "reprocess", "filter": {}, "canary": {}}, {"canary": "out_of_range"}),
        ({"action": "reprocess", "filter": {}, "canary": {"size": 1}}, {"canary": "out_of_range"}),
        (
            {"action": "discard", "reason": "x", "filter": {}, "canary": {"size": 5}},
            {"canary": "not_possible"},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_refusals_name_the_field(
    acme: FirmRows, operator: Api, body: dict[str, Any], named: dict[str, str]
) -> None:
    assert fields(act(operator, **body)) == named
    assert rows(BulkRun) == [acme.bulk_run]


def test_nothing_else_is_touched(acme: FirmRows, operator: Api) -> None:
    before = {job.pk: job.status for job in rows(JobQueue)}
    operator.post("dlq/bulk/", {"action": "discard", "filter": {}})
    operator.get("dlq/groups/")
    with all_firms("test"):
        assert DeadLetterQueue.objects.filter(resolution="").count() == 1
    assert {job.pk: job.status for job in rows(JobQueue)} == before
