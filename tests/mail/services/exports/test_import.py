"""An import accepts the export of a firm that was in use, and nothing damaged or made up."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model

from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.deletion import delete_firm
from jobs.testing import drain, run_job
from mail.errors import FaultyInput, WrongState
from mail.models import (
    AgentSchedule,
    DataRequest,
    MailAccount,
    MailThread,
    Message,
    RequestKind,
)
from mail.services.exports import write
from mail.services.exports.archive import open_export
from mail.services.exports.read import import_firm
from mail.services.exports.tables import exported_models
from tenants.audit import SERVICE
from tenants.models import Firm, Membership
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.agent_kit import make_profile
from tests.mail.mail_kit import Mailbox, letter
from tests.mail.services.exports.export_kit import requested, rows_in, zip_of
from tests.tenants.canaries import fill

pytestmark = [pytest.mark.django_db(transaction=True)]

Files = dict[str, bytes]
MESSAGES, JOBS = "tables/mail_message.jsonl", "tables/jobs_jobqueue.jsonl"


def zipped(files: Files) -> io.BytesIO:
    """Return a zip of the files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    made.seek(0)
    return made


def exported(request: DataRequest) -> Files:
    """Run an export's job and delete the firm; return the files of the export."""
    assert request.job_id
    run_job(request.job_id)
    files = zip_of(request)
    delete_firm(request.firm, "moved")
    drain()
    assert not Firm.objects.filter(pk=request.firm_id).exists()
    return files


@pytest.fixture
def files(mailbox: Mailbox) -> Files:
    """Return the export of a firm that had two messages and is deleted now."""
    mailbox.receive_many(2)
    mailbox.store_all()
    drain()
    return exported(requested(mailbox.firm, RequestKind.FIRM_EXPORT))


def changed(files: Files, name: str, **columns: object) -> Files:
    """Return the files with other values in the first line of one of them."""
    first, _, rest = files[name].partition(b"\n")
    return {**files, name: json.dumps({**json.loads(first), **columns}).encode() + b"\n" + rest}


def of_firm(files: Files, **facts: object) -> Files:
    """Return the files with another firm in the manifest."""
    manifest = json.loads(files["manifest.json"])
    manifest["firm"] |= facts
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def user(**facts: object) -> bytes:
    """Return a line of users.jsonl."""
    whole = {"id": "1", "username": "ann", "email": "", "first_name": "", "last_name": ""}
    return json.dumps(whole | facts).encode()


DAMAGED: dict[str, Callable[[Files], Files]] = {
    "no manifest": lambda files: {**files, "manifest.json": b""},
    "manifest of a list": lambda files: {**files, "manifest.json": b"[]"},
    "manifest too deep": lambda files: {**files, "manifest.json": b"[" * 100_000},
    "manifest without rows": lambda files: {
        **files,
        "manifest.json": json.dumps(
            json.loads(files["manifest.json"]) | {"rows": None}
        ).encode(),
    },
    "slug of no URL": lambda files: of_firm(files, slug="../a <b>"),
    "slug too long": lambda files: of_firm(files, slug="a" * 51),
    "name too long": lambda files: of_firm(files, name="a" * 201),
    "name with NUL": lambda files: of_firm(files, name="a\0"),
    "name of no text": lambda files: of_firm(files, name=["a"]),
    "no name": lambda files: of_firm(files, name=""),
    "weight of none": lambda files: of_firm(files, weight=0),
    "weight without end": lambda files: of_firm(files, weight=float("inf")),
    "weight of no number": lambda files: of_firm(files, weight="NaN"),
    "weight without end, as text": lambda files: of_firm(files, weight="inf"),
    "weight beyond every number": lambda files: of_firm(files, weight=10**400),
    "cap too large": lambda files: of_firm(files, running_cap=10**30),
    "line of a list": lambda files: {**files, MESSAGES: files[MESSAGES] + b"[]\n"},
    "line of no JSON": lambda files: {**files, MESSAGES: files[MESSAGES] + b"{\n"},
    "line too deep": lambda files: {**files, MESSAGES: files[MESSAGES] + b"[" * 100_000},
    "text with NUL": lambda files: changed(files, MESSAGES, subject="a\0b"),
    "text with a surrogate": lambda files: changed(files, MESSAGES, subject="a\ud800b"),
    "text too long": lambda files: changed(files, MESSAGES, gmail_message_id="m" * 65),
    "no text": lambda files: changed(files, MESSAGES, subject={"a": 1}),
    "nothing": lambda files: changed(files, MESSAGES, subject=None),
    "no id": lambda files: changed(files, MESSAGES, id="first"),
    "no moment": lambda files: changed(files, MESSAGES, internal_date="yesterday"),
    "moment of a number": lambda files: changed(files, MESSAGES, internal_date=7),
    "moment of no zone": lambda files: changed(files, MESSAGES, internal_date="2026-01-02T03:04"),
    "moment before all": lambda files: changed(
        files, MESSAGES, internal_date="0001-01-01T00:00:00+14:00"
    ),
    "number too large": lambda files: changed(files, MESSAGES, size=10**30),
    "JSON beyond every number": lambda files: changed(files, MESSAGES, labels=[float("nan")]),
    "unknown status": lambda files: changed(files, JOBS, status="odd"),
    "status of no text": lambda files: changed(files, JOBS, status=[]),
    "fewer rows": lambda files: {**files, MESSAGES: files[MESSAGES].splitlines()[0]},
    "more rows": lambda files: {**files, "tables/jobs_pause.jsonl": b"{}\n"},
    "a file is gone": lambda files: {**files, "tables/mail_mailevent.jsonl": b""},
    "a table of later": lambda files: {**files, "tables/mail_later.jsonl": b"{}\n"},
    "user of a list": lambda files: {**files, "users.jsonl": b"[]"},
    "user without a name": lambda files: {**files, "users.jsonl": user(username="")},
    "user without an id": lambda files: {**files, "users.jsonl": user(id=None)},
    "user of a number": lambda files: {**files, "users.jsonl": user(username=7)},
    "user too long": lambda files: {**files, "users.jsonl": user(username="a" * 151)},
    "address with NUL": lambda files: {**files, "users.jsonl": user(email="a\0")},
}  # fmt: skip


def test_a_damaged_export_is_refused_and_leaves_nothing(files: Files) -> None:
    before = set(Firm.objects.values_list("slug", flat=True))
    people = get_user_model()._default_manager.count()
    for name, damage in DAMAGED.items():
        with pytest.raises(FaultyInput) as refusal:
            import_firm(zipped(damage(files)), by=SERVICE)
        assert [one["field"] for one in refusal.value.errors] == ["file"], name
        assert set(Firm.objects.values_list("slug", flat=True)) == before, name
        assert get_user_model()._default_manager.count() == people, name
    assert import_firm(zipped(files), by=SERVICE).left_out == 0


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_that_no_export_writes_is_refused(files: Files) -> None:
    twice = zipped(files)
    with zipfile.ZipFile(twice, "a") as archive:
        archive.writestr(MESSAGES, files[MESSAGES])
    encrypted = bytearray(zipped(files).getvalue())
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", files["manifest.json"])
    for made in (twice, io.BytesIO(bytes(encrypted)), packed):
        made.seek(0)
        with pytest.raises(FaultyInput):
            import_firm(made, by=SERVICE)


@pytest.mark.parametrize("seed", range(5))
def test_a_zip_with_wrong_bytes_is_refused_if_it_is_read_at_all(seed: int) -> None:
    draw = random.Random(seed)
    rows = b"".join(b'{"id": %d}\n' % number for number in range(200))
    whole = zipped({"manifest.json": b"{}", "tables/a.jsonl": rows}).getvalue()
    for _ in range(200):
        wrong = bytearray(whole)
        for _ in range(draw.choice((1, 1, 3))):
            wrong[draw.randrange(len(wrong))] = draw.randrange(256)
        del wrong[draw.choice((len(wrong), len(wrong), draw.randrange(len(wrong)))) :]
        try:
            with open_export(io.BytesIO(bytes(wrong))) as archive:
                assert archive.manifest() == {}
                read = [row for name in archive.names for _, row in archive.rows(name)]
                assert not read or len(read) == 200 or {} in read
        except FaultyInput:
            pass


def test_mail_that_comes_while_the_export_waits_does_not_spoil_it(mailbox: Mailbox) -> None:
    mailbox.receive(letter("Question", message_id="<1@customer.example>"))
    mailbox.store_all()
    drain()
    request = requested(mailbox.firm, RequestKind.FIRM_EXPORT)
    mailbox.receive(letter("Re: Question", reply_to_id="<1@customer.example>"))
    mailbox.store_all()
    with firm_scope(mailbox.firm):
        thread = MailThread.objects.get()
        thread.classified_upto = Message.objects.latest("id")
        thread.save()
    files = exported(request)
    assert len(rows_in(files, "mail_message")) == 1
    made = import_firm(zipped(files), by=SERVICE)
    assert made.left_out == 0
    with firm_scope(made.firm):
        assert [one.classified_upto for one in MailThread.objects.all()] == [None]
        assert Message.objects.count() == 1


def test_what_is_deleted_while_an_export_is_made_does_not_spoil_it(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.receive_many(2)
    mailbox.store_all()
    drain()
    leaves = UserFactory(member_of=mailbox.firm)
    stays = UserFactory(member_of=mailbox.firm)
    # Without its person the schedule would run on the firm's behalf, so it must be left out.
    with firm_scope(mailbox.firm):
        AgentSchedule.objects.create(
            account=mailbox.account, profile=make_profile(mailbox), user=leaves, name="Morning"
        )
    finish = write._finish

    def late(request: DataRequest) -> None:
        get_user_model()._default_manager.filter(pk=leaves.pk).delete()
        finish(request)

    monkeypatch.setattr(write, "_finish", late)
    files = exported(requested(mailbox.firm, RequestKind.FIRM_EXPORT))
    # As if the message was deleted after its thread was exported, and before its own table was.
    gone, kept = rows_in(files, "mail_message")
    manifest = json.loads(files["manifest.json"])
    manifest["rows"]["mail_message"] -= 1
    files |= {
        MESSAGES: json.dumps(kept).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    made = import_firm(zipped(files), by=SERVICE)
    assert made.left_out > 2
    assert made.rows + made.left_out == sum(manifest["rows"].values()) - manifest["rows"]["mail"]
    with firm_scope(made.firm):
        assert [str(one.pk) for one in Message.objects.all()] == [kept["id"]]
        assert [one.user for one in Membership.objects.all()] == [stays]
        assert not AgentSchedule.objects.exists()
        for model in exported_models().values():
            for row in model.objects.filter(firm_id=made.firm.pk).values():
                assert row.get("message_id") != gone["id"]


def test_a_row_that_refers_to_another_firms_is_left_out(files: Files, other_firm: Firm) -> None:
    fill(other_firm)
    with firm_scope(other_firm):
        theirs = {model: model.objects.first().pk for model in (JobQueue, MailAccount, MailThread)}
        before = {model: model.objects.values().get(pk=pk) for model, pk in theirs.items()}
    letter_row = {
        "original_job_id": str(theirs[JobQueue]), "reason": "exhausted", "category": "export",
        "job_type": "noop", "moved_at": "2026-01-02T03:04:05Z", "fingerprint": "0" * 16, "job_series": 1,
    }  # fmt: skip
    manifest = json.loads(files["manifest.json"])
    manifest["rows"]["jobs_deadletterqueue"] = 1
    files = changed(files, MESSAGES, thread_id=str(theirs[MailThread]))
    files = changed(files, JOBS, parent_id=str(theirs[JobQueue]))
    files |= {
        "tables/jobs_deadletterqueue.jsonl": json.dumps(letter_row).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    made = import_firm(zipped(files), by=SERVICE)
    assert made.left_out > 1
    with firm_scope(made.firm):
        assert DeadLetterQueue.objects.count() == 0
        assert Message.objects.count() == 1
        assert {one.parent_id for one in JobQueue.objects.all()}.isdisjoint({theirs[JobQueue]})
    with firm_scope(other_firm):
        assert {model: model.objects.values().get(pk=pk) for model, pk in theirs.items()} == before


def test_a_firm_with_every_table_filled_comes_back_row_by_row(firm: Firm) -> None:
    fill(firm)
    with all_firms("test"):
        before = {
            table: {row.pk: row for row in model.objects.filter(firm_id=firm.pk)}
            for table, model in exported_models().items()
        }
    files = exported(requested(firm, RequestKind.FIRM_EXPORT))
    made = import_firm(zipped(files), by=SERVICE)
    assert made.left_out == 0
    for table, rows in before.items():
        lines = {row.get("id", row.get("job_id")): row for row in rows_in(files, table)}
        assert set(map(str, rows)) <= set(lines), table
    manifest = json.loads(files["manifest.json"])
    assert made.rows == sum(manifest["rows"].values()) - manifest["rows"].get("mail", 0)
    with pytest.raises(WrongState):
        import_firm(zipped(files), by=SERVICE)
    with pytest.raises(WrongState):
        import_firm(zipped(files), by=SERVICE, slug=f"a-{uuid4()}")
