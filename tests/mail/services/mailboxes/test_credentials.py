"""Tokens of mailboxes, over HTTP: refreshed once, revoked, refused, and never readable."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest
from django.core import mail
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.engine.outcomes import Completed, Snoozed
from jobs.models import Delivery, Pause
from jobs.operations.notifications.emails import NOTICE_HEADER, is_notice_mark
from mail.conf import oauth_client
from mail.errors import MailboxWaits
from mail.gmail import oauth
from mail.gmail.errors import GmailAuthExpired, GmailMisconfigured, GmailUnavailable
from mail.gmail.simulator.faults import Fault
from mail.gmail.simulator.server import SimulatorServer
from mail.job_handlers.base import KEY_SECONDS
from mail.models import Connection, MailCredential, MailEvent
from mail.services.mailboxes import credentials
from mail.services.mailboxes.accounts import usable_account
from mail.services.mailboxes.connection import resume_mailbox
from mail.services.mailboxes.credentials import StoredToken, store_grant
from mail.services.queueing import request_sync
from mail.services.syncing.watch import renew_watch
from tenants.encryption import decrypt_field
from tenants.key_ring import new_key
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, jobs, only, stored, without_drafts
from tests.mail.push_kit import TOPIC
from tests.queue_kit import later, work_off

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-01", "M-02")]


def sync_now(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)


def token_of(mailbox: Mailbox) -> str:
    (credential,) = stored(MailCredential)
    return decrypt_field(credential, "access_token")


def test_a_sync_goes_over_http_with_the_stored_token(connected: Mailbox) -> None:
    without_drafts(connected)
    arrived = connected.receive()
    sync_now(connected)
    assert [type(outcome) for outcome in drain()] == [Completed] * 4
    assert any("🤖" in name for name in connected.labels(arrived))


def test_an_ended_token_is_refreshed_and_kept(connected: Mailbox) -> None:
    before = token_of(connected)
    connected.simulator.expire_access_tokens(connected.account.address)

    assert connected.gmail.profile()["emailAddress"] == connected.account.address

    assert token_of(connected) != before
    (credential,) = stored(MailCredential)
    assert credential.refreshed_at is not None
    assert credential.expires_at > timezone.now() + timedelta(minutes=50)


def test_a_token_is_refreshed_before_it_ends(connected: Mailbox) -> None:
    before = token_of(connected)
    with firm_scope(connected.firm):
        MailCredential.objects.update(expires_at=timezone.now() + timedelta(minutes=4))
    connected.gmail.profile()
    assert token_of(connected) != before


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that gets one more element each time that Google is asked for a new token."""
    asked: list[None] = []
    refresh = oauth.refresh
    monkeypatch.setattr(oauth, "refresh", lambda *args: asked.append(None) or refresh(*args))
    return asked


def test_who_is_refused_with_a_new_token_asks_for_no_other(
    connected: Mailbox, refreshes: list[None]
) -> None:
    # A third request would be answered.
    connected.simulator.order_fault(Fault(401), method="getProfile", times=2)
    with pytest.raises(GmailAuthExpired):
        connected.gmail.profile()
    assert len(refreshes) == 1


def test_many_who_need_a_new_token_ask_google_once(
    connected: Mailbox, refreshes: list[None]
) -> None:
    refused = token_of(connected)
    got: list[str] = []

    def take() -> None:
        got.append(StoredToken(connected.account).fresh(refused).value)
        connection.close()

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refreshes) == 1
    assert set(got) == {token_of(connected)}


def test_a_withdrawn_permission_holds_the_jobs_and_notifies_once(
    connected: Mailbox, firm_admin: str
) -> None:
    connected.receive()
    sync_now(connected)
    connected.simulator.revoke_grants(connected.account.address)

    assert isinstance(work_off(), Snoozed)
    (job,) = jobs("sync")
    assert (job.attempts, job.status) == (0, "pending")
    # Only the pause holds the job back: after it, the job must be due, because later requests for a
    # sync join it.
    assert job.scheduled_at <= database_now() + timedelta(seconds=10)
    (pause,) = stored(Pause)
    assert (pause.limit_key, pause.until) == (f"mailbox:{connected.account.pk}", None)
    assert connected.reload().connection == Connection.NEEDS_REAUTH
    assert "invalid_grant" in connected.account.last_error
    assert only(stored(MailEvent), event_type="needs_reauth").detail == {"reason": "invalid_grant"}

    drain()
    with later(seconds=400):
        drain()
    assert [message.to for message in mail.outbox] == [[firm_admin]]
    assert connected.account.address in mail.outbox[0].body
    (notice,) = mail.outbox
    assert is_notice_mark(notice.extra_headers[NOTICE_HEADER], notice.subject, notice.body)
    (delivery,) = stored(Delivery)
    assert (delivery.status, delivery.event, delivery.recipient) == (
        "delivered", "reauth", firm_admin,
    )  # fmt: skip
    assert jobs("sync")[0].attempts == 0

    with firm_scope(connected.firm):
        store_grant(connected.account, granted(connected.account.address))
        type(connected.account).objects.update(connection=Connection.CONNECTED)
        resume_mailbox(connected.account)
    with later(seconds=800):
        drain()
    assert {job.status for job in jobs(live=False)} == {"completed"}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [("invalid_rapt", "invalid_grant"), ("admin_policy_enforced", "admin_policy_enforced")],
)
def test_a_policy_of_the_workspace_holds_the_jobs_until_a_person_acts(
    connected: Mailbox, firm_admin: str, refusal: str, told: str
) -> None:
    sync_now(connected)
    connected.simulator.expire_access_tokens(connected.account.address)
    connected.simulator.order_fault(Fault(400, refusal), method="oauth.token", times=10)
    assert isinstance(work_off(), Snoozed)
    assert connected.reload().connection == Connection.NEEDS_REAUTH
    assert told in connected.account.last_error
    drain()
    assert [message.to for message in mail.outbox] == [[firm_admin]]
    (job,) = jobs("sync")
    assert (job.attempts, job.status) == (0, "pending")


def test_a_late_refusal_of_an_old_grant_does_not_undo_a_new_one(connected: Mailbox) -> None:
    source = StoredToken(connected.account)
    old = source._load()
    connected.simulator.revoke_grants(connected.account.address)
    with firm_scope(connected.firm):
        store_grant(connected.account, granted(connected.account.address))
    with pytest.raises(Exception, match="invalid_grant"):
        source._refresh(old)
    assert connected.reload().connection == Connection.CONNECTED


def test_a_mailbox_without_a_permission_waits_for_one(
    mailbox: Mailbox, google: SimulatorServer
) -> None:
    sync_now(mailbox)
    assert isinstance(work_off(), Snoozed)
    assert mailbox.reload().connection == Connection.NEEDS_REAUTH
    assert "no_credential" in mailbox.account.last_error


def test_a_refused_client_holds_the_mailbox_and_blames_the_settings(connected: Mailbox) -> None:
    connected.simulator.order_fault(Fault(401, "invalid_client"), method="oauth.token")
    with pytest.raises(GmailMisconfigured, match="GOOGLE_CLIENT_ID"):
        StoredToken(connected.account).fresh(token_of(connected))
    assert connected.reload().connection == Connection.CONNECTED


def test_while_a_worker_lacks_the_key_the_mailboxs_jobs_wait_without_an_attempt(
    connected: Mailbox,
) -> None:
    without_drafts(connected)
    connected.receive()
    sync_now(connected)
    # As in a worker that has not been restarted yet, when another has stored a token by a new key.
    with override_settings(FIELD_ENCRYPTION_KEYS=[new_key()]):
        (outcome,) = drain()
    assert isinstance(outcome, Snoozed)
    assert [job.attempts for job in jobs("sync")] == [0]
    assert "FIELD_ENCRYPTION_KEYS" in connected.reload().last_error

    with later(KEY_SECONDS):
        assert {type(one) for one in drain()} == {Completed}


def test_an_outage_of_the_token_endpoint_passes(connected: Mailbox) -> None:
    connected.simulator.order_fault(Fault(503), method="oauth.token", times=20)
    with pytest.raises(GmailUnavailable):
        StoredToken(connected.account).fresh(token_of(connected))
    assert connected.reload().connection == Connection.CONNECTED


def test_a_job_waits_without_an_attempt_while_another_renews_the_token(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_WAIT_SECONDS", 0)
    sync_now(connected)
    with firm_scope(connected.firm):
        MailCredential.objects.update(expires_at=timezone.now())

    with StoredToken(connected.account)._refresh_lock():
        (outcome,) = drain()

    assert isinstance(outcome, Snoozed)
    assert [job.attempts for job in jobs("sync")] == [0]


def test_who_waits_for_anothers_refresh_learns_nothing_of_gmail(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_WAIT_SECONDS", 0)
    with firm_scope(connected.firm):
        MailCredential.objects.update(expires_at=timezone.now())
    gmail = connected.gmail
    gmail.exchange.is_answered = False

    with (
        StoredToken(connected.account)._refresh_lock(),
        override_settings(GMAIL_PUBSUB_TOPIC=TOPIC),
        pytest.raises(GmailUnavailable),
    ):
        renew_watch(connected.account, gmail)

    assert gmail.exchange.is_answered is False
    assert connected.reload().watch_error == ""


def test_a_token_endpoint_that_does_not_answer_makes_a_silent_mailbox(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "TIMEOUT_SECONDS", 0.05)
    with firm_scope(connected.firm):
        MailCredential.objects.update(expires_at=timezone.now())
    gmail = connected.gmail
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = replace(
            oauth_client(), token_uri=f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        )
        monkeypatch.setattr(credentials, "oauth_client", lambda: client)
        with pytest.raises(GmailUnavailable):
            gmail.profile()

    assert gmail.exchange.is_answered is False


@pytest.mark.parametrize(
    ("is_active", "is_member", "told"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_the_owner_who_alone_can_connect_it_again_is_told_too(
    connected: Mailbox, firm_admin: str, *, is_active: bool, is_member: bool, told: bool
) -> None:
    owner = UserFactory(
        username="olga",
        email="olga@acme.example",
        is_active=is_active,
        member_of=connected.firm if is_member else None,
    )
    with firm_scope(connected.firm):
        type(connected.account).objects.update(owner=owner, shared=False)
    sync_now(connected)
    connected.simulator.revoke_grants(connected.account.address)
    drain()
    (notice,) = mail.outbox
    assert set(notice.to) == {firm_admin, *(["olga@acme.example"] if told else [])}


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Fault(429, retry_after=90), 90),
        (Fault(403, "rateLimitExceeded"), 60),
        (Fault(403, "userRateLimitExceeded", retry_after=30), 30),
    ],
)
def test_a_rate_limit_holds_the_whole_mailbox_without_attempts(
    connected: Mailbox, fault: Fault, seconds: int
) -> None:
    connected.receive_many(3)
    sync_now(connected)
    work_off()
    connected.simulator.order_fault(fault, method="messages.get")

    (outcome,) = drain()

    assert isinstance(outcome, Snoozed)
    assert seconds - 5 < outcome.delay_seconds <= seconds
    assert [job.attempts for job in jobs("ingest.gmail")] == [0, 0, 0]
    (pause,) = stored(Pause)
    assert pause.limit_key == f"mailbox:{connected.account.pk}"
    assert pause.until == connected.reload().held_until

    with firm_scope(connected.firm), pytest.raises(MailboxWaits):
        usable_account(connected.firm.pk, connected.account.pk)
    with firm_scope(connected.firm):
        type(connected.account).objects.update(held_until=None)
    with later(seconds=seconds + 5):
        drain()
    assert {job.status for job in jobs("ingest.gmail", live=False)} == {"completed"}


@pytest.mark.req("M-02")
def test_a_wait_that_is_over_already_holds_the_mailbox_for_a_moment(connected: Mailbox) -> None:
    connected.receive()
    sync_now(connected)
    work_off()
    connected.simulator.order_fault(Fault(429, retry_after=0), method="messages.get")

    # The clock stands still, because otherwise the moment could be over before the queue is at
    # rest.
    with later(seconds=0):
        (outcome,) = drain()

    assert isinstance(outcome, Snoozed)
    assert [job.attempts for job in jobs("ingest.gmail")] == [0]


@pytest.mark.req("M-02")
def test_a_process_whose_clock_is_late_holds_the_mailbox_all_the_same(connected: Mailbox) -> None:
    connected.receive()
    sync_now(connected)
    work_off()
    connected.simulator.order_fault(Fault(429, retry_after=5), method="messages.get")
    an_hour_ago = timezone.now() - timedelta(hours=1)
    with patch("django.utils.timezone.now", return_value=an_hour_ago), later(seconds=0):
        (outcome,) = drain()

    assert isinstance(outcome, Snoozed)
    assert [job.attempts for job in jobs("ingest.gmail")] == [0]
