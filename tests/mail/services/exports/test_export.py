"""An export has everything a firm owns but its secrets, and another installation reads it."""

from __future__ import annotations

import io
import json
from datetime import time, timedelta
from email import message_from_bytes
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.utils import timezone

from interfaces.commands import NotFound, Refused
from jobs.engine.lease import JobLease
from jobs.errors import LeaseLost, Retryable
from jobs.errors import WrongState as JobInWrongState
from jobs.models import JobQueue, Schedule, ScheduleRun
from jobs.operations.deletion import delete_firm
from jobs.queue import cancel, enqueue
from jobs.states import RunOutcome, Status
from jobs.testing import drain, run_job
from mail.errors import FaultyInput, WrongState
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.job_handlers import exports as handlers
from mail.models import (
    DataRequest,
    ExportPart,
    MailAccount,
    NotificationPreference,
    OutboundMessage,
    RequestKind,
    RequestStatus,
)
from mail.services.exports import write
from mail.services.exports.read import import_firm
from mail.services.exports.requests import expire_exports, stream_zip
from mail.services.exports.tables import (
    LEFT_OUT,
    columns_of,
    exported_models,
    row_as_json,
    row_from_json,
)
from mail.services.exports.write import export_step
from mail.services.reminders.preferences import change_preference
from tenants.audit import SERVICE
from tenants.encryption import EncryptedTextField
from tenants.models import ApiKey, AuditEntry, Firm, FirmOwned, Role
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import new_member
from tests.mail.action_kit import received
from tests.mail.mail_kit import Mailbox, letter, stored
from tests.mail.send_kit import at_once, attempts, forward
from tests.mail.services.exports.export_kit import (
    ANNA_ADDRESS,
    again,
    done,
    requested,
    rows_in,
    taken,
    zip_of,
)
from tests.queue_kit import change, take_one
from tests.tenants.canaries import fill

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-05")]


def rows_of(firm: Firm) -> dict[str, list[dict[str, Any]]]:
    """Return what the firm has in the tables that are exported."""
    with all_firms("test"):
        return {
            table: list(model.objects.filter(firm_id=firm.pk).order_by("pk").values())
            for table, model in exported_models().items()
        }


def gone(firm: Firm) -> None:
    """Delete the firm."""
    delete_firm(firm, "closed")
    drain()
    assert not Firm.objects.filter(pk=firm.pk).exists()


def test_every_table_of_a_firm_is_exported_or_left_out_for_a_reason() -> None:
    owned = {model._meta.label for model in apps.get_models() if issubclass(model, FirmOwned)}
    exported = {model._meta.label for model in exported_models().values()}
    assert exported | set(LEFT_OUT) == owned
    assert not exported & set(LEFT_OUT)


def test_all_rows_of_all_tables_are_in_the_zip(firm: Firm, other_firm: Firm) -> None:
    fill(firm)
    fill(other_firm)
    before = rows_of(firm)
    files = zip_of(done(firm, RequestKind.FIRM_EXPORT))
    manifest = json.loads(files["manifest.json"])
    for table, rows in before.items():
        key = "job_id" if table == "jobs_jobqueue" else "id"
        found = {row[key] for row in rows_in(files, table)}
        assert {str(row[key]) for row in rows} <= found, table
        assert manifest["rows"][table] == len(found), table
    everything = b"\n".join(files.values()).decode().lower()
    assert other_firm.slug not in everything


@pytest.mark.parametrize("model", exported_models().values(), ids=exported_models())
def test_every_kind_of_column_has_a_form_in_an_export(model: type[Any]) -> None:
    samples = {"DateTimeField": timezone.now(), "TimeField": time(2, 30), "UUIDField": uuid4()}
    row = model()
    for field in columns_of(model):
        kind = (field.target_field if field.is_relation else field).get_internal_type()
        if "Char" not in kind and "Text" not in kind:
            setattr(row, field.attname, samples.get(kind, 1))
    found = json.loads(row_as_json(row))
    assert found.keys() == {field.attname for field in columns_of(model)}
    row_from_json(model, found, firm_id=1, users={})


def test_how_people_are_notified_is_in_the_zip_and_comes_back_with_it(firm: Firm) -> None:
    user = new_member(firm, Role.VIEWER)
    settings = {
        "time_zone": "Australia/Lord_Howe",
        "quiet_from": time(22),
        "quiet_until": time(2, 15),
        "digest_at": time(7, 30),
    }
    change_preference(firm.pk, user.pk, **settings)
    content = taken(done(firm, RequestKind.FIRM_EXPORT))
    gone(firm)
    import_firm(content, by=SERVICE)
    (row,) = stored(NotificationPreference)
    assert {name: getattr(row, name) for name in settings} == settings


def test_mail_is_in_the_zip_as_files_that_mail_programs_read(mailbox: Mailbox) -> None:
    mailbox.receive(letter("Größe 42", "Passt das? Ja: €5", sender='"Änn" <ann@x.example>'))
    mailbox.store_all()
    files = zip_of(done(mailbox.firm, RequestKind.FIRM_EXPORT))
    (name,) = [name for name in files if name.endswith(".eml")]
    mail = message_from_bytes(files[name])
    assert name.startswith("mail/owner@acme.example/")
    assert "Größe" in str(mail["Subject"]) or "=?utf-8?" in str(mail["Subject"])
    assert "€5" in mail.get_payload(decode=True).decode()  # type: ignore[union-attr]  # of one part


def test_no_token_no_key_and_no_ciphertext_is_in_the_zip(connected: Mailbox) -> None:
    firm = connected.firm
    fill(firm)
    enqueue("noop", firm=firm)
    with firm_scope(firm):
        (key,) = ApiKey.objects.all()
        ciphers = [
            getattr(row, field.attname)
            for model in apps.get_models()
            if issubclass(model, FirmOwned)
            for field in model._meta.concrete_fields
            if isinstance(field, EncryptedTextField)
            for row in model.objects.all()
        ]
        job = JobQueue.objects.filter(job_type="noop").first()
        JobQueue.objects.filter(pk=job.pk).update(payload={"password": "hunter2-canary"})
    assert len([one for one in ciphers if one]) > 2
    everything = b"\n".join(zip_of(done(firm, RequestKind.FIRM_EXPORT)).values()).decode()
    for secret in (*filter(None, ciphers), key.key_hash, "hunter2-canary", "client-secret-canary"):
        assert secret not in everything


@pytest.mark.req("T-04")
def test_another_installation_reads_the_export(mailbox: Mailbox) -> None:
    firm = mailbox.firm
    mailbox.receive_many(3)
    mailbox.store_all()
    drain()
    enqueue("noop", firm=firm, delay=3600)
    with firm_scope(firm):
        hourly = Schedule.objects.create(
            firm=firm, name="hourly", job_type="noop", cron="0 * * * *"
        )
        ScheduleRun.objects.create(firm=firm, schedule=hourly, job_type="noop", jobs=1)
    before = rows_of(firm)
    request = requested(firm, RequestKind.FIRM_EXPORT)
    run_job(request.job_id)  # type: ignore[arg-type]  # set
    archive = taken(request)
    gone(firm)
    imported = import_firm(archive, by=SERVICE, slug="again").firm
    assert (imported.slug, imported.active, imported.name) == ("again", False, firm.name)
    after = rows_of(imported)
    for table in ("mail_message", "mail_attachment", "mail_mailthread", "mail_decision"):
        assert _plain(after[table]) == _plain(before[table]), table
    for table in ("mail_mailaccount", "mail_mailevent", "jobs_schedule", "mail_maillabel"):
        assert {row["id"] for row in before[table]} <= {row["id"] for row in after[table]}
    with firm_scope(imported):
        assert {job.status for job in JobQueue.objects.all()} <= {Status.COMPLETED, Status.CANCELED}
        assert all(job.payload["tenant_id"] == imported.pk for job in JobQueue.objects.all())
        (run,) = ScheduleRun.objects.all()
        assert (run.outcome, run.jobs) == (RunOutcome.CANCELED, 1)
        assert {one.connection for one in MailAccount.objects.all()} == {"needs_reauth"}


def test_what_was_being_sent_needs_a_look_after_an_import(mailbox: Mailbox) -> None:
    waits = forward(mailbox, received(mailbox), "bob@partner.example")
    at_once(mailbox)
    begun = forward(mailbox, received(mailbox), "bob@partner.example")
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    assert attempts(begun, most=1) == ["pending"]
    rows = rows_in(zip_of(done(mailbox.firm, RequestKind.FIRM_EXPORT)), "mail_outboundmessage")
    assert [row["status"] for row in rows] == ["queued", "sending"]
    assert {waits.pk, begun.pk} == {UUID(row["id"]) for row in rows}
    read = [row_from_json(OutboundMessage, row, firm_id=1, users={}) for row in rows]
    # The second message was sent, but only Gmail knows that, so it needs a look.
    assert [one.status for one in read] == ["canceled", "unknown"]
    # It also needs a look if it waited to be sent again.
    again = rows[1] | {"status": "queued"}
    anew = again | {"gmail_draft_id": "", "in_doubt": True}
    read = [row_from_json(OutboundMessage, row, firm_id=1, users={}) for row in (again, anew)]
    assert [one.status for one in read] == ["unknown", "unknown"]


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "firm_id"} for row in rows]


def test_an_export_is_not_imported_beside_its_own_firm(mailbox: Mailbox) -> None:
    mailbox.receive()
    mailbox.store_all()
    request = done(mailbox.firm, RequestKind.FIRM_EXPORT)
    archive = taken(request)
    with pytest.raises(WrongState):
        import_firm(archive, by=SERVICE)
    with pytest.raises(WrongState):
        import_firm(archive, by=SERVICE, slug="again")
    assert not Firm.objects.filter(slug="again").exists()
    with pytest.raises(FaultyInput):
        import_firm(io.BytesIO(b"no zip"), by=SERVICE)


def test_a_job_that_is_interrupted_after_each_step_writes_the_same_zip(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.receive_many(5)
    mailbox.store_all()
    drain()
    monkeypatch.setattr(write, "PART_ROWS", 2)
    whole = zip_of(done(mailbox.firm, RequestKind.FIRM_EXPORT))

    def interrupted(request_id: Any, lease: JobLease) -> DataRequest:
        if (complete := export_step(request_id, lease)) is None:
            raise Retryable("interrupted", retry_after=0)
        return complete

    monkeypatch.setattr(handlers, "export_step", interrupted)
    resumed = zip_of(done(mailbox.firm, RequestKind.FIRM_EXPORT))
    assert resumed.keys() - {"tables/tenants_auditentry.jsonl"} == whole.keys()
    for table in ("mail_message", "mail_mailthread"):
        assert rows_in(resumed, table) == rows_in(whole, table)
        assert len(rows_in(whole, table)) == 5


@pytest.mark.req("J-09")
def test_an_attempt_that_lost_its_lease_writes_nothing(mailbox: Mailbox) -> None:
    request = requested(mailbox.firm, RequestKind.FIRM_EXPORT)
    stale = JobLease(request.job_id, mailbox.firm.pk, 1)  # type: ignore[arg-type]  # set
    with pytest.raises(LeaseLost):
        export_step(request.pk, stale)
    assert stored(ExportPart) == []


def test_a_persons_export_has_what_mentions_the_person_and_nothing_else(mailbox: Mailbox) -> None:
    mailbox.receive(letter("From Anna"))
    mailbox.receive(letter("About Anna", f"Ask {ANNA_ADDRESS}.", sender="bob@x.example"))
    mailbox.receive(letter("Not Anna", f"Ask jo{ANNA_ADDRESS}", sender="bob@x.example"))
    mailbox.receive(letter("Nor her", f"Ask {ANNA_ADDRESS}.au", sender="bob@x.example"))
    mailbox.store_all()
    files = zip_of(done(mailbox.firm, RequestKind.GDPR_EXPORT, "Anna@Customer.example"))
    found = {row["subject"] for row in rows_in(files, "mail_message")}
    assert found == {"From Anna", "About Anna"}
    assert {name.rpartition(".")[2] for name in files} == {"jsonl", "eml", "json"}
    assert len([name for name in files if name.endswith(".eml")]) == 2
    assert len(rows_in(files, "mail_mailevent")) == 2


def test_a_zip_expires(firm: Firm) -> None:
    request = done(firm, RequestKind.FIRM_EXPORT)
    assert expire_exports() == 0
    with all_firms("test"):
        DataRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_exports() == 1
    assert stored(ExportPart) == []
    assert again(request).status == RequestStatus.EXPIRED
    with pytest.raises(WrongState):
        stream_zip(again(request), by=SERVICE)


def run_pending() -> None:
    """Run what waits, even if it is not due yet."""
    with all_firms("test"):
        JobQueue.objects.filter(status=Status.PENDING).update(scheduled_at=timezone.now())
    drain()


@pytest.mark.req("T-04")
def test_a_firm_is_exported_before_it_is_deleted(mailbox: Mailbox) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    firm = mailbox.firm
    delete_firm(firm, "closed", export_first=True)
    run_pending()
    run_pending()
    assert not Firm.objects.filter(pk=firm.pk).exists()
    (request,) = stored(DataRequest)
    assert (request.firm, request.about_firm) == (Firm.objects.system(), firm.slug)
    (row,) = rows_in(zip_of(request), "mail_message")
    assert row["id"] == str(message.pk)


@pytest.mark.req("T-04")
def test_what_the_last_jobs_of_a_firm_store_is_exported_before_it_is_deleted(
    mailbox: Mailbox,
) -> None:
    enqueue("noop", {}, firm=mailbox.firm)
    in_flight = take_one()
    delete_firm(mailbox.firm, "closed", export_first=True)
    run_pending()
    mailbox.receive()
    (message,) = mailbox.store_all()
    change(in_flight.job_id, status=Status.COMPLETED, worker_id=None, ready=False)
    run_pending()
    (row,) = rows_in(zip_of(*stored(DataRequest)), "mail_message")
    assert row["id"] == str(message.pk)
    run_pending()
    assert not Firm.objects.filter(pk=mailbox.firm.pk).exists()


@pytest.mark.req("T-04")
def test_no_export_is_promised_beside_a_deletion_that_does_not_wait_for_it(
    mailbox: Mailbox,
) -> None:
    begun = delete_firm(mailbox.firm, "closed")
    with pytest.raises(JobInWrongState, match=str(begun.pk)):
        delete_firm(mailbox.firm, "keep a copy", export_first=True)
    assert [one.job_type for one in stored(JobQueue) if one.job_type == "firm_export"] == []
    cancel(begun)
    waiting = delete_firm(mailbox.firm, "keep a copy", export_first=True)
    assert delete_firm(mailbox.firm, "once more", export_first=True).pk == waiting.pk


@pytest.mark.req("T-04")
def test_a_firm_whose_export_fails_is_not_deleted(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(handlers, "export_step", fail)
    delete_firm(mailbox.firm, "closed", export_first=True)
    with all_firms("test"):
        JobQueue.objects.filter(job_type="firm_export").update(max_attempts=1)
    drain()
    with all_firms("test"):
        JobQueue.objects.filter(status=Status.PENDING).update(scheduled_at=timezone.now())
    drain()
    assert Firm.objects.filter(pk=mailbox.firm.pk).exists()
    (request,) = stored(DataRequest)
    assert request.status == RequestStatus.FAILED
    deletion = [job for job in stored(JobQueue) if job.job_type == "delete_firm"]
    assert [job.status for job in deletion] == [Status.DLQ]


def test_the_command_imports_a_firm_and_refuses_what_is_no_export(
    mailbox: Mailbox, tmp_path: Path
) -> None:
    path = tmp_path / "firm.zip"
    request = done(mailbox.firm, RequestKind.FIRM_EXPORT)
    path.write_bytes(taken(request).read())
    with pytest.raises(Refused):
        call_command("firm_import", path)
    with pytest.raises(NotFound):
        call_command("firm_import", tmp_path / "none.zip")
    gone(mailbox.firm)
    with pytest.raises(Refused) as refused:
        call_command("firm_import", path, "--slug", "a b")
    assert [one["field"] for one in refused.value.errors] == ["slug"]
    out = StringIO()
    call_command("firm_import", path, "--slug", "again", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["firm"] == "again"
    assert answer["rows"] == sum(
        request.counts[table] for table in exported_models() if table in request.counts
    )
    (entry,) = [one for one in stored(AuditEntry) if one.act == "firm.import"]
    assert entry.door == "cli"
