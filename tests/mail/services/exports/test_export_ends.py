"""The end of an export and its download, and what may happen at the same moment."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.engine.lease import JobLease
from jobs.errors import Fatal, Retryable
from jobs.queue import cancel, enqueue, retry
from jobs.states import Status
from jobs.testing import drain, run_job
from mail.errors import WrongState
from mail.job_handlers import exports as handlers
from mail.models import DataRequest, RequestKind, RequestStatus
from mail.services.exports import write
from mail.services.exports.erase import _drop_exports
from mail.services.exports.requests import expire_exports, stream_zip
from mail.services.exports.write import END, export_step
from tenants.audit import SERVICE
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms, firm_scope
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import submit
from tests.jobs.api.conftest import key_for
from tests.mail.services.exports.export_kit import (
    ANNA_ADDRESS,
    again,
    done,
    requested,
    rows_in,
    zip_of,
)
from tests.queue_kit import change
from tests.tenants.canaries import fill

pytestmark = [pytest.mark.django_db(transaction=True)]


def test_a_job_that_dies_after_its_last_step_does_not_write_it_again(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = []

    def dies_at_the_end(request_id: Any, lease: JobLease) -> DataRequest | None:
        complete = export_step(request_id, lease)
        if complete is not None and not deaths:
            deaths.append(complete)
            raise Retryable("killed", retry_after=0)
        return complete

    monkeypatch.setattr(handlers, "export_step", dies_at_the_end)
    request = done(firm, RequestKind.FIRM_EXPORT)
    assert deaths
    files = zip_of(request)
    assert {"users.jsonl", "manifest.json"} <= set(files)
    with all_firms("test"):
        names = [part.name for part in request.stored_parts.all()]
    assert len(names) == len(set(names))


def test_an_erasure_at_the_end_of_an_export_leaves_no_empty_zip(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erased_at_the_end(request_id: Any, lease: JobLease) -> DataRequest | None:
        complete = export_step(request_id, lease)
        if complete is not None:
            with all_firms("test"):
                _drop_exports(firm.pk, ANNA_ADDRESS)
        return complete

    monkeypatch.setattr(handlers, "export_step", erased_at_the_end)
    request = done(firm, RequestKind.FIRM_EXPORT)
    assert request.status == RequestStatus.EXPIRED
    with pytest.raises(WrongState):
        stream_zip(request, by=SERVICE)


def test_a_zip_that_expires_before_it_is_written_is_refused(firm: Firm) -> None:
    request = done(firm, RequestKind.FIRM_EXPORT)
    with all_firms("test"):
        DataRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert request.status == RequestStatus.READY
    expire_exports()
    with pytest.raises(WrongState):
        stream_zip(request, by=SERVICE)
    with firm_scope(firm):
        assert not AuditEntry.objects.filter(act="export.download").exists()
        DataRequest.objects.all().delete()
    with pytest.raises(WrongState):
        stream_zip(request, by=SERVICE)


def in_the_admin(firm: Firm, request: DataRequest) -> Any:
    return submit(browser_of(firm, Role.ADMIN), request, "download")


def over_rest(firm: Firm, request: DataRequest) -> Any:
    headers = {"Authorization": f"Bearer {key_for(firm, Role.ADMIN, 'ada')}"}
    return Client().get(f"/api/v1/mail/data-requests/{request.pk}/download/", headers=headers)


def rename(firm: Firm) -> bool:
    """Write to the database, as another process does."""
    with firm_scope(firm):
        changed = Firm.objects.filter(pk=firm.pk).update(name="Another")
    connection.close()
    return changed > 0


@pytest.mark.parametrize("take", [in_the_admin, over_rest])
def test_others_write_while_a_zip_is_made(
    firm: Firm, monkeypatch: pytest.MonkeyPatch, take: Callable[[Firm, DataRequest], Any]
) -> None:
    request, decompress = done(firm, RequestKind.FIRM_EXPORT), zlib.decompress
    wrote: list[bool] = []

    def beside(content: bytes) -> bytes:
        with ThreadPoolExecutor(1) as other:
            wrote.append(other.submit(rename, firm).result(timeout=10))
        return decompress(content)

    monkeypatch.setattr(write, "zlib", SimpleNamespace(decompress=beside))
    assert zipfile.ZipFile(io.BytesIO(take(firm, request).getvalue())).testzip() is None
    assert wrote
    assert all(wrote)


def test_no_piece_of_a_zip_is_empty(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "PART_ROWS", 1)
    for _ in range(3):
        enqueue("noop", firm=firm)
    pieces = list(stream_zip(done(firm, RequestKind.FIRM_EXPORT), by=SERVICE))
    assert zipfile.ZipFile(io.BytesIO(b"".join(pieces))).testzip() is None
    # A server that sends an answer in chunks takes an empty one for its end.
    assert b"" not in pieces


def test_a_zip_that_is_deleted_or_made_anew_while_it_is_taken_ends(firm: Firm) -> None:
    request = done(firm, RequestKind.FIRM_EXPORT)
    one, another = stream_zip(request, by=SERVICE), stream_zip(request, by=SERVICE)
    assert next(one)
    assert next(another)
    with firm_scope(firm):
        DataRequest.objects.update(finished_at=timezone.now())
    with pytest.raises(WrongState, match="meanwhile"):
        list(one)
    with firm_scope(firm):
        _drop_exports(firm.pk, ANNA_ADDRESS)
    with pytest.raises(WrongState, match="meanwhile"):
        list(another)


def test_a_request_whose_job_is_canceled_has_failed_until_the_job_is_retried(
    firm: Firm, other_firm: Firm
) -> None:
    stranded = requested(firm, RequestKind.FIRM_EXPORT)
    waits = requested(other_firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert stranded.job_id
    cancel(stranded.job_id)
    run_job(enqueue("exports.expire", firm=Firm.objects.system()).job_id)
    assert again(stranded).status == RequestStatus.FAILED
    assert again(stranded).finished_at
    assert again(waits).status == RequestStatus.RUNNING
    retry(stranded.job_id)
    drain()
    assert again(stranded).status == RequestStatus.READY
    assert again(waits).status == RequestStatus.DONE


def test_an_export_whose_job_is_retried_after_its_zip_expired_is_made_anew(firm: Firm) -> None:
    fill(firm)
    request = done(firm, RequestKind.FIRM_EXPORT)
    before = set(zip_of(request))
    with all_firms("test"):
        DataRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    expire_exports()
    assert request.job_id
    # As if the worker was killed before it settled the job.
    change(request.job_id, status=Status.CANCELED)
    retry(request.job_id)
    drain()
    assert again(request).status == RequestStatus.READY
    assert set(zip_of(request)) == before
    assert again(request).counts == request.counts


def test_an_export_whose_last_answer_is_lost_is_ready_all_the_same(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost_at_the_end(request_id: Any, lease: JobLease) -> DataRequest | None:
        if export_step(request_id, lease) is not None:
            raise Fatal("the connection was lost as the transaction ended")
        return None

    monkeypatch.setattr(handlers, "export_step", lost_at_the_end)
    request = done(firm, RequestKind.FIRM_EXPORT)
    assert request.status == RequestStatus.READY
    assert "manifest.json" in zip_of(request)


def test_what_a_failed_export_has_written_is_kept_no_longer_than_a_zip(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(firm)

    def fails_at_the_end(request_id: Any, lease: JobLease) -> DataRequest | None:
        with firm_scope(firm):
            if DataRequest.objects.get(pk=request_id).position.get("stage") == END:
                raise Fatal("no more room")
        return export_step(request_id, lease)

    with monkeypatch.context() as patched:
        patched.setattr(handlers, "export_step", fails_at_the_end)
        request = done(firm, RequestKind.FIRM_EXPORT)
    assert request.job_id
    for age, is_kept in ((timedelta(days=7, hours=-1), True), (timedelta(days=7, hours=1), False)):
        with firm_scope(firm):
            DataRequest.objects.update(finished_at=timezone.now() - age)
        expire_exports()
        with firm_scope(firm):
            assert request.stored_parts.exists() is is_kept
        assert again(request).status == RequestStatus.FAILED
    retry(request.job_id)
    drain()
    files = zip_of(request)
    manifest = json.loads(files["manifest.json"])
    assert len(rows_in(files, "mail_message")) == manifest["rows"]["mail_message"]


def test_an_export_is_left_to_workers_that_make_its_request_as_it_is_begun(firm: Firm) -> None:
    job = enqueue("firm_export", {}, firm=firm).job
    assert job.payload["version"] == "1.1"
    run_job("firm_export", {"version": "1.0"}, firm=firm)
    with all_firms("test"):
        request = DataRequest.objects.get()
    assert (request.status, request.pk == request.job_id) == (RequestStatus.READY, False)
