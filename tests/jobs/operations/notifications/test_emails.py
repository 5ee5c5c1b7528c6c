"""E-mails: anyone may enqueue one, each is recorded, and only the server refuses one for good."""

from __future__ import annotations

import smtplib
import warnings
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend

from jobs.errors import PayloadInvalid
from jobs.operations.endpoints import create_endpoint
from jobs.operations.notifications.emails import NOTICE_HEADER, is_notice_mark
from jobs.queue import enqueue
from jobs.testing import run_job
from tenants.models import Firm
from tests.jobs.operations.notifications.conftest import deliveries
from tests.support.paths import ROOT

pytestmark = [pytest.mark.req("U-04"), pytest.mark.django_db]
MAIL = {"to": ["a@example.org", "b@example.org"], "subject": "Paid", "body": "Order 7 is paid."}


def test_an_email_is_sent_and_recorded(firm: Firm) -> None:
    job = run_job("email_send", MAIL, firm=firm)
    (sent,) = mail.outbox
    assert (job.status, job.category, job.result) == (
        "completed", "notifications", {"recipients": 2},
    )  # fmt: skip
    assert (sent.to, sent.subject, sent.body) == (MAIL["to"], "Paid", "Order 7 is paid.")
    assert sent.extra_headers["Message-ID"] == f"<{job.pk}@localhost>"
    (row,) = deliveries()
    assert (row.status, row.channel, row.firm, row.job_id) == ("delivered", "email", firm, job.pk)
    assert row.recipient == "a@example.org, b@example.org"


def test_an_email_is_sent_without_what_django_deprecates(firm: Firm) -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert run_job("email_send", MAIL, firm=firm).status == "completed"
    # Which of its settings a project keeps is not the queue's to say.
    assert [str(one.message) for one in given if one.filename.startswith(str(ROOT / "jobs"))] == []


def test_an_endpoint_gets_its_mail_at_its_address(firm: Firm) -> None:
    endpoint = create_endpoint("ops", "email", "ops@example.org", firm=firm)
    payload = {"endpoint_id": str(endpoint.pk), "event": "x", "subject": "S", "body": "B"}
    assert run_job("email_send", payload, firm=firm).status == "completed"
    assert [sent.to for sent in mail.outbox] == [["ops@example.org"]]
    assert is_notice_mark(mail.outbox[0].extra_headers[NOTICE_HEADER], "S", "B")
    (row,) = deliveries()
    assert (row.endpoint, row.event) == (endpoint, "x")


def test_an_email_that_the_version_before_enqueued_is_sent(firm: Firm) -> None:
    run_job("email_send", {**MAIL, "version": "1.0"}, firm=firm)
    assert [sent.subject for sent in mail.outbox] == ["Paid"]
    assert NOTICE_HEADER not in mail.outbox[0].extra_headers


@pytest.mark.parametrize("is_notice", [False, True])
def test_only_what_is_said_to_be_a_notice_is_marked_as_one(firm: Firm, is_notice: bool) -> None:
    run_job("email_send", {**MAIL, "is_notice": is_notice}, firm=firm)
    assert (NOTICE_HEADER in mail.outbox[0].extra_headers) is is_notice


@pytest.mark.parametrize(
    ("error", "status", "recorded"),
    [
        (smtplib.SMTPRecipientsRefused({"a@example.org": (550, b"no")}), "dlq", "refused"),
        (
            smtplib.SMTPRecipientsRefused(
                {"a@example.org": (550, b"no"), "b@example.org": (451, b"later")}
            ),
            "pending",
            "failed",
        ),
        (smtplib.SMTPDataError(554, b"spam"), "dlq", "refused"),
        (smtplib.SMTPDataError(452, b"full"), "pending", "failed"),
        (smtplib.SMTPSenderRefused(550, b"no", "x@example.org"), "dlq", "refused"),
        (smtplib.SMTPServerDisconnected("gone"), "pending", "failed"),
        (ConnectionRefusedError("no"), "pending", "failed"),
    ],
    ids=str,
)
def test_the_servers_answer_decides(
    firm: Firm,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: str,
    recorded: str,
) -> None:
    def fail(_: EmailBackend, messages: list[EmailMessage]) -> None:
        raise error

    monkeypatch.setattr(EmailBackend, "send_messages", fail)
    job = run_job("email_send", MAIL, firm=firm)
    (row,) = deliveries()
    assert (job.status, row.status) == (status, recorded)
    assert "example.org" not in row.error + job.last_error


@pytest.mark.parametrize("code", [451, 554])
@pytest.mark.parametrize("refused", ["recipient", "mail"])
def test_what_the_server_says_of_the_mail_is_kept_nowhere(
    firm: Firm,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    refused: str,
) -> None:
    says = b"no: Subject: canary"

    def fail(_: EmailBackend, messages: list[EmailMessage]) -> None:
        if refused == "mail":
            raise smtplib.SMTPDataError(code, says)
        raise smtplib.SMTPRecipientsRefused({"a@example.org": (code, says)})

    monkeypatch.setattr(EmailBackend, "send_messages", fail)
    job = run_job("email_send", MAIL, firm=firm)
    (row,) = deliveries()
    assert f"({code})" in job.last_error
    assert "canary" not in row.error + job.last_error + caplog.text
    assert "example.org" not in caplog.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": ["nobody"]}, "to"),
        ({"to": ["a@example.org\nBcc: b@example.org"]}, "to"),
        ({"to": []}, "payload"),
        ({"to": ["a@example.org"] * 51}, "to"),
        ({"subject": "Paid\r\nBcc: b@example.org"}, "subject"),
        ({"subject": ""}, "subject"),
        ({"subject": None}, "subject"),
        ({"endpoint_id": "0190f1c4-0000-7000-8000-000000000000"}, "payload"),
    ],
)
def test_what_is_no_mail_is_refused_at_enqueue(
    firm: Firm, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        enqueue("email_send", {**MAIL, **change}, firm=firm)
    assert {fault.field for fault in refused.value.faults} == {field}
    assert "example.org" not in str(refused.value)
