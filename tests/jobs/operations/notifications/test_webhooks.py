"""Webhooks: signed, sent to vetted addresses, with one id for all attempts, and recorded."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.client import BadStatusLine
from typing import Any

import pytest

from jobs.models import Attempt, JobQueue, NotificationEndpoint
from jobs.operations.endpoints import change_endpoint, remove_endpoint, signing_key
from jobs.queue import enqueue
from jobs.testing import run_job
from jobs.testing.clock import frozen_time
from jobs.testing.run import claimed_now, performed
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.jobs.operations.notifications.conftest import deliveries
from tests.support.receiver import Receiver, receiver

pytestmark = [pytest.mark.req("U-04"), pytest.mark.django_db]


def hold(firm: Firm, endpoint: NotificationEndpoint, **data: Any) -> Any:
    """Enqueue a webhook without running it."""
    payload = {"endpoint_id": str(endpoint.pk), "event": "order.paid", "data": data}
    return enqueue("webhook_send", payload, firm=firm)


def send(firm: Firm, endpoint: NotificationEndpoint) -> JobQueue:
    """Enqueue a webhook and run one attempt."""
    return run_job(hold(firm, endpoint, order=7))


def test_a_webhook_is_signed_json_with_the_jobs_id(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    job = send(firm, endpoint)
    (got,) = hook.received
    assert (job.status, job.result) == ("completed", {"status_code": 204})
    assert got.json["type"] == "order.paid"
    assert got.json["data"] == {"order": 7}
    assert got.headers["webhook-id"] == str(job.pk)
    assert got.headers["Host"] == f"127.0.0.1:{hook.port}"
    assert got.headers["webhook-timestamp"].isdigit()
    assert got.is_signed_with(signing_key(endpoint))
    assert not got.is_signed_with("whsec_" + "AAAA" * 8)


def test_a_retry_after_a_crash_has_the_same_id_and_body(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    with frozen_time() as clock:
        job_id = hold(firm, endpoint, order=7).job_id
        # The worker dies when it has the answer and has not settled the job.
        performed(claimed_now(job_id))
        with all_firms("test"):
            JobQueue.objects.filter(pk=job_id).update(
                status="pending", lease_token=0, worker_id=None, ready=True
            )
        clock.tick(hours=1)
        job = run_job(job_id)
    first, second = hook.received
    assert job.status == "completed"
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert [(row.status, row.attempt) for row in deliveries()] == [
        ("delivered", 1),
        ("delivered", 2),
    ]


@pytest.mark.parametrize(
    ("status", "ends", "recorded"),
    [
        (200, "completed", "delivered"),
        (299, "completed", "delivered"),
        (302, "dlq", "refused"),
        (400, "dlq", "refused"),
        (404, "dlq", "refused"),
        (408, "pending", "failed"),
        (410, "dlq", "refused"),
        (429, "pending", "failed"),
        (500, "pending", "failed"),
        (503, "pending", "failed"),
    ],
)
def test_the_answer_decides(
    firm: Firm,
    hook: Receiver,
    endpoint: NotificationEndpoint,
    status: int,
    ends: str,
    recorded: str,
) -> None:
    hook.answer(status, b"an answer that nobody may repeat")
    job = send(firm, endpoint)
    (row,) = deliveries()
    assert (job.status, row.status, row.status_code) == (ends, recorded, status)
    assert row.finished_at is not None
    assert (row.job_id, row.endpoint, row.event) == (job.pk, endpoint, "order.paid")
    assert "nobody may repeat" not in row.error + job.last_error


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), ("1", 1), ("0", 0), ("9999999", 86_400), ("soon", 30), ("", 30)],
)
def test_retry_after_is_honoured(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint, header: str, seconds: int
) -> None:
    """A header that cannot be read leaves the policy's first delay."""
    hook.answer(503, Retry_After=header)
    with frozen_time() as clock:
        job = send(firm, endpoint)
    assert (job.scheduled_at - clock.now).total_seconds() == pytest.approx(seconds, rel=0.11, abs=1)


def test_an_endpoint_that_says_at_once_is_tried_for_hours(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    for _ in range(10):
        hook.answer(429, Retry_After="1")
    with frozen_time() as clock:
        begun, job = clock.now, send(firm, endpoint)
        while job.status == "pending":
            clock.move_to(job.scheduled_at)
            job = run_job(job)
        assert (job.status, len(hook.received)) == ("dlq", 10)
        assert clock.now - begun > timedelta(hours=2)


def test_retry_after_may_be_a_date(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    later = datetime.now(UTC) + timedelta(hours=5)
    hook.answer(429, Retry_After=format_datetime(later, usegmt=True))
    job = send(firm, endpoint)
    # That is far more than the policy's first delay. The date has whole seconds.
    assert timedelta(hours=4) < job.scheduled_at - job.created_at <= timedelta(hours=5, seconds=1)


def test_a_redirect_into_a_private_network_is_not_followed(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    with receiver() as inside:
        hook.answer(307, Location=inside.url)
        job = send(firm, endpoint)
        assert inside.received == []
    assert job.status == "dlq"
    assert "redirects are not followed" in job.last_error


def test_nothing_is_sent_to_loopback_without_the_setting(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint, settings: Any
) -> None:
    settings.WEBHOOK_PRIVATE_HOSTS = ["127.0.0.1:1"]
    job = send(firm, endpoint)
    assert (job.status, hook.received) == ("dlq", [])
    assert "not public" in job.last_error
    assert [row.status for row in deliveries()] == ["refused"]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let each lookup of a name return the next of these answers; return the names looked up."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def lookup(host: str, port: int, *args: Any, **options: Any) -> Any:
        if host.replace(".", "").isdigit():
            return real(host, port, *args, **options)
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return asked


def test_a_name_whose_address_changes_after_the_check_is_not_looked_up_again(
    firm: Firm,
    hook: Receiver,
    endpoint: NotificationEndpoint,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.WEBHOOK_PRIVATE_HOSTS = []
    target = f"http://rebind.example:{hook.port}/hook"
    endpoint = change_endpoint(endpoint, target=target)
    asked = resolve_to(monkeypatch, ["93.184.216.34"], ["127.0.0.1"])
    tried: list[str] = []

    def connect(address: tuple[str, int], *_: Any) -> socket.socket:
        tried.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    job = send(firm, endpoint)
    assert asked == ["rebind.example"]
    assert tried == ["93.184.216.34"]
    assert (job.status, hook.received) == ("pending", [])


def test_one_private_address_among_public_ones_is_enough_to_refuse(
    firm: Firm,
    hook: Receiver,
    endpoint: NotificationEndpoint,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.WEBHOOK_PRIVATE_HOSTS = []
    endpoint = change_endpoint(endpoint, target=f"http://mixed.example:{hook.port}/hook")
    resolve_to(monkeypatch, ["93.184.216.34", "127.0.0.1"])
    job = send(firm, endpoint)
    assert (job.status, hook.received) == ("dlq", [])


def test_a_private_host_that_the_setting_names_is_reached_by_its_name(
    firm: Firm,
    hook: Receiver,
    endpoint: NotificationEndpoint,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.WEBHOOK_PRIVATE_HOSTS = ["hooks.internal"]
    endpoint = change_endpoint(endpoint, target=f"http://Hooks.Internal:{hook.port}/a?b=c")
    resolve_to(monkeypatch, ["127.0.0.1"])
    assert send(firm, endpoint).status == "completed"
    (got,) = hook.received
    assert (got.path, got.headers["Host"]) == ("/a?b=c", f"hooks.internal:{hook.port}")


def test_an_endpoint_that_cannot_be_reached_is_tried_again(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        change_endpoint(endpoint, target=f"http://127.0.0.1:{hook.port}/")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "jobs.operations.notifications.webhooks.vetted_addresses",
                lambda url: ["127.0.0.1"],
            )
            change_endpoint(endpoint, target=f"http://127.0.0.1:{port}/")
            job = send(firm, endpoint)
    assert job.status == "pending"
    (row,) = deliveries()
    assert (row.status, row.status_code) == ("failed", None)


def test_what_an_endpoint_answers_is_in_no_traceback(
    firm: Firm, endpoint: NotificationEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(*_: object) -> None:
        raise BadStatusLine("220 internal.example: the banner of another service")

    monkeypatch.setattr("jobs.operations.notifications.webhooks.post", post)
    job = send(firm, endpoint)
    with firm_scope(firm):
        (attempt,) = Attempt.objects.filter(job_id=job.pk)
    assert attempt.message == f"endpoint {endpoint.name!r} cannot be reached: BadStatusLine"
    assert "banner" not in attempt.traceback + job.last_error


def test_a_removed_or_disabled_endpoint_cancels_what_waits(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    waiting = [hold(firm, endpoint), hold(firm, endpoint)]
    change_endpoint(endpoint, enabled=False)
    assert run_job(waiting[0]).status == "canceled"
    remove_endpoint(endpoint)
    assert run_job(waiting[1]).status == "canceled"
    assert (hook.received, deliveries()) == ([], [])


def test_another_firms_endpoint_is_none(
    firm: Firm, other_firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    assert send(other_firm, endpoint).status == "canceled"
    assert hook.received == []


def test_neither_the_key_nor_the_path_is_in_payload_history_or_row(
    firm: Firm, hook: Receiver, endpoint: NotificationEndpoint
) -> None:
    key = signing_key(endpoint)
    hook.answer(500)
    job = send(firm, endpoint)
    (row,) = deliveries()
    assert row.recipient == f"http://127.0.0.1:{hook.port}"
    with firm_scope(firm):
        endpoint.refresh_from_db()
    shown = f"{job.payload} {job.last_error} {vars(row)} {endpoint.signing_key}"
    assert key not in shown
    assert key.removeprefix("whsec_") not in shown
    assert "/hook" not in shown
