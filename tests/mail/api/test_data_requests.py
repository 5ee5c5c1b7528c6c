"""Exports and erasures over REST and in the admin: for admins of the firm, and audited."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import JobQueue
from jobs.operations.deletion import exports_firms
from jobs.testing import drain
from mail.models import DataRequest, RequestKind, SuppressionList
from tenants.models import Role
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import audit_entries, submit
from tests.jobs.api.conftest import key_for
from tests.mail.mail_kit import Mailbox, jobs, only, stored

if TYPE_CHECKING:
    from tenants.models import Firm

pytestmark = [pytest.mark.django_db, pytest.mark.req("U-05", "T-05")]

ROOT = "/api/v1/mail/data-requests/"
EXPORT = {"kind": "firm_export", "reason": "We move"}


def ask(
    firm: Firm, role: Role, method: str, path: str = "", body: Any = None, **headers: str
) -> Any:
    """Send one request as a member of the firm."""
    headers["Authorization"] = f"Bearer {key_for(firm, role, uuid4().hex)}"
    return getattr(Client(), method)(
        ROOT + path, body, content_type="application/json", headers=headers
    )


def names_in(answer: Any) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(answer.getvalue())) as archive:
        return archive.namelist()


def test_an_admin_asks_for_an_export_and_downloads_it(mailbox: Mailbox) -> None:
    firm = mailbox.firm
    mailbox.receive()
    mailbox.store_all()
    assert ask(firm, Role.DEVELOPER, "post", body=EXPORT).status_code == 403
    made = ask(firm, Role.ADMIN, "post", body=EXPORT)
    assert made.status_code == 201
    path = f"{made.json()['id']}/"
    early = ask(firm, Role.ADMIN, "get", f"{path}download/")
    assert (early.status_code, early.json()["code"]) == (409, "wrong_state")
    drain()
    shown = ask(firm, Role.VIEWER, "get", path).json()
    assert (shown["status"], shown["about_firm"]) == ("ready", firm.slug)
    assert shown["rows"] > 0
    assert shown["expires_at"] > shown["finished_at"]
    assert ask(firm, Role.DEVELOPER, "get", f"{path}download/").status_code == 403
    answer = ask(firm, Role.ADMIN, "get", f"{path}download/", Accept="application/zip")
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith(f'attachment; filename="{firm.slug}-')
    assert "manifest.json" in names_in(answer)
    acts = [entry.act for entry in audit_entries(made.json()["id"])]
    assert acts == ["firm.export", "export.download"]


@pytest.mark.req("T-03")
def test_another_firm_finds_no_request(mailbox: Mailbox, other_firm: Firm) -> None:
    made = ask(mailbox.firm, Role.ADMIN, "post", body=EXPORT).json()
    drain()
    for path in (f"{made['id']}/", f"{made['id']}/download/"):
        assert ask(other_firm, Role.ADMIN, "get", path).status_code == 404
    assert ask(other_firm, Role.ADMIN, "get").json()["results"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "all", "reason": "x"}, "kind"),
        ({"kind": "firm_export"}, "reason"),
        ({"kind": "gdpr_export", "reason": "x"}, "subject"),
        ({"kind": "erase_subject", "reason": "x", "subject": "ann"}, "subject"),
        # A caller who names a person wants that person's data, not the whole firm's.
        ({"kind": "firm_export", "reason": "x", "subject": "ann@x.example"}, "subject"),
    ],
)
def test_a_wrong_field_is_named(firm: Firm, body: dict[str, str], field: str) -> None:
    answer = ask(firm, Role.ADMIN, "post", body=body)
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == [field]
    assert stored(DataRequest) == stored(SuppressionList) == []


def test_whom_a_request_is_about_is_said_nowhere(firm: Firm) -> None:
    body = {"kind": "erase_subject", "subject": "Ann@x.example", "reason": "ann@x.example asked"}
    answer = ask(firm, Role.ADMIN, "post", body=body)
    assert answer.status_code == 201
    (job,) = jobs("erase_subject")
    (request,) = stored(DataRequest)
    page = browser_of(firm, Role.ADMIN).get(
        reverse("admin:mail_datarequest_change", args=[request.pk])
    )
    for text in (answer.content, page.content, str(job.payload).encode(), request.subject.encode()):
        assert b"ann@x.example" not in text.lower()


def test_the_admin_makes_a_request_and_downloads_the_zip(firm: Firm) -> None:
    client = browser_of(firm, Role.ADMIN)
    new = reverse("admin:mail_datarequest_new")
    refused = client.post(new, {"kind": "gdpr_export", "subject": "", "reason": "x", "seen": ""})
    assert refused.status_code == 400
    everything = client.post(new, {**EXPORT, "subject": "ann@x.example", "seen": ""})
    assert "subject" in everything.context["form"].errors
    client.post(new, {**EXPORT, "subject": "", "seen": ""})
    drain()
    (request,) = stored(DataRequest)
    assert request.kind == RequestKind.FIRM_EXPORT
    page = client.get(reverse("admin:mail_datarequest_change", args=[request.pk]))
    assert "We move" in page.content.decode()
    answer = submit(client, request, "download")
    assert "manifest.json" in names_in(answer)
    assert audit_entries(request.pk)[-1].act == "export.download"
    assert browser_of(firm, Role.OPERATOR).get(new).status_code == 403


@pytest.mark.req("T-04")
def test_an_export_is_offered_before_a_firm_is_deleted(firm: Firm) -> None:
    from tests.factories.tenants import UserFactory

    assert exports_firms()
    client = Client()
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    address = reverse("admin:tenants_firm_delete", args=[firm.pk])
    form = client.get(address).context["form"]
    assert form["export_first"].value() is True
    answers = {"confirmation": firm.slug, "reason": "closed", "export_first": "on", "seen": ""}
    client.post(address, answers)
    export, deletion = only(jobs(), job_type="firm_export"), only(jobs(), job_type="delete_firm")
    assert isinstance(export, JobQueue)
    assert deletion.payload["export_job_id"] == str(export.pk)
