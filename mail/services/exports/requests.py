"""Asks for exports and erasures, hands out finished exports, and deletes expired ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from jobs.engine.lease import JobLease
from jobs.errors import Snooze
from jobs.models import JobQueue
from jobs.queue import enqueue
from jobs.states import IN_FLIGHT, LIVE, Priority
from mail.errors import FaultyInput, ReasonMissing, WrongState
from mail.models import (
    Connection,
    DataRequest,
    ExportPart,
    MailAccount,
    RequestKind,
    RequestStatus,
)
from mail.services.exports.subjects import checked_address, pattern_of
from mail.services.exports.suppression import suppress
from mail.services.exports.write import LIFETIME, zip_pieces
from mail.services.operation import audit
from tenants.audit import SERVICE, Actor, record_operation
from tenants.encryption import encrypt_field
from tenants.models import Firm, Membership
from tenants.scope import all_firms, firm_scope

IN_FLIGHT_SECONDS = 10.0
_OPERATIONS = {
    RequestKind.FIRM_EXPORT: "firm.export",
    RequestKind.GDPR_EXPORT: "subject.export",
    RequestKind.ERASE_SUBJECT: "subject.erase",
}


def request_data(
    firm: Firm, kind: RequestKind, *, reason: str, by: Actor, subject: str = ""
) -> DataRequest:
    """Have a firm's or a person's data exported, or a person erased.

    Raises:
        ReasonMissing: no reason is given.
        FaultyInput: the subject is missing or no e-mail address, or the request takes none.
        WrongState: the address is a mailbox or a member of the firm, which cannot be erased.
    """
    if not reason.strip():
        raise ReasonMissing("Say why: the audit log keeps it.")
    address = _whom(kind, subject)
    with firm_scope(firm):
        request = DataRequest(
            firm=firm,
            kind=kind,
            about_firm_id=firm.pk,
            about_firm=firm.slug,
            # The audit log must not name the person.
            reason=pattern_of(address).sub("the subject", reason) if address else reason,
            requested_by_id=by.user_id,
            requested_by_name=by.name,
        )
        encrypt_field(request, "subject", address)
        if kind == RequestKind.ERASE_SUBJECT:
            _require_erasable(address)
            suppress(firm.pk, address)
        request.save(force_insert=True)
        result = enqueue(
            kind.value,
            {"request_id": request.pk},
            priority=Priority.NORMAL,
            idempotency_key=f"{kind.value}:{request.pk}",
        )
        request.job_id = result.job_id
        request.save(update_fields=["job_id"])
        record_operation(
            by,
            _OPERATIONS[kind],
            firm_id=firm.pk,
            target=("data_request", request.pk),
            reason=request.reason,
            after={"job_id": str(result.job_id)},
        )
    return request


def _whom(kind: RequestKind, subject: str) -> str:
    if kind != RequestKind.FIRM_EXPORT:
        return checked_address(subject)
    if subject.strip():
        # Somebody who names a person wants that person's data, and would get everybody's.
        message = "names the person of a gdpr_export; an export of the firm takes none"
        raise FaultyInput([{"field": "subject", "code": "not_taken", "message": message}])
    return ""


def _require_erasable(address: str) -> None:
    # The JSON form, too, because SQLite stores characters other than ASCII escaped.
    written = {f'"{address}"', json.dumps(address)}
    mailbox = Q(address=address)
    for form in written:
        mailbox |= Q(aliases__icontains=form)
    # A disconnected mailbox whose mail is deleted already deletes nothing more by itself, so the
    # request may go on and erase its address.
    given_up = Q(connection=Connection.DISCONNECTED, delete_mail_at=None)
    if MailAccount.objects.filter(mailbox).exclude(given_up).exists():
        raise WrongState("This is a mailbox of the firm: disconnect it, and have its mail deleted.")
    user: Any = get_user_model()
    names = {user.USERNAME_FIELD, "email"}
    people = Q()
    for name in names:
        people |= Q(**{f"user__{name}__iexact": address})
    if Membership.objects.filter(people).exists():
        raise WrongState("This is a member of the firm: delete the user instead.")


def request_of_job(
    lease: JobLease, request_id: UUID | None, about_firm_id: int | None
) -> DataRequest | None:
    """Return the request that a job works on; a `firm_export` job without one creates it.

    None if there is no such request, or if it is another job's. Only jobs of the system firm may be
    about another firm.

    Raises:
        LeaseLost: another attempt has taken over.
        Snooze: the firm is about to be deleted, and the export would lack what its last jobs
            store.
    """
    with firm_scope(lease.firm_id):
        if request_id is not None:
            # A job enqueued by hand may name any request: of another kind, or of a canceled job.
            mine = DataRequest.objects.filter(pk=request_id, job_id=lease.job_id)
            found: DataRequest | None = mine.first()
            return found
        lease.require()
        # An earlier attempt may have created the request.
        made: DataRequest | None = DataRequest.objects.filter(job_id=lease.job_id).first()
        if made is not None:
            return made
        own = Firm.objects.get(pk=lease.firm_id)
        about: Firm | None = own
        if own.is_system:
            about = None if about_firm_id is None else Firm.objects.filter(pk=about_firm_id).first()
        return None if about is None else _own_request(lease, about)


def _own_request(lease: JobLease, about: Firm) -> DataRequest:
    if not about.active:
        with all_firms("the jobs of a firm that the system firm exports"):
            last = JobQueue.objects.filter(firm_id=about.pk, status__in=IN_FLIGHT)
            if last.exists():
                raise Snooze("Jobs of the firm are in flight", seconds=IN_FLIGHT_SECONDS)
    request: DataRequest = DataRequest.objects.create(
        firm_id=lease.firm_id,
        kind=RequestKind.FIRM_EXPORT,
        about_firm_id=about.pk,
        about_firm=about.slug,
        requested_by_name=SERVICE.name,
        job_id=lease.job_id,
    )
    return request


def fail_request(firm_id: int, request_id: UUID) -> None:
    """Mark the request failed, unless it is done and only the answer to its last step was lost."""
    with firm_scope(firm_id):
        rows = DataRequest.objects.filter(pk=request_id)
        rows.exclude(status__in=(RequestStatus.READY, RequestStatus.DONE)).update(
            status=RequestStatus.FAILED, finished_at=timezone.now(), expires_at=None
        )


def stream_zip(request: DataRequest, *, by: Actor) -> Iterator[bytes]:
    """Return the pieces of the export's zip; the audit log records who took it.

    They are made as they are asked for: do that outside transactions.

    Raises:
        WrongState: the export is not ready, or has expired.
    """
    with firm_scope(request.firm_id):
        ready = DataRequest.objects.filter(pk=request.pk, status=RequestStatus.READY)
        row = ready.exclude(kind=RequestKind.ERASE_SUBJECT).first()
        if row is None:
            raise WrongState("There is no zip: the export is not ready, or it has expired.")
        audit("export.download", request, by)
    # An empty piece would end an answer that is sent in chunks.
    return filter(None, zip_pieces(row))


def zip_name(request: DataRequest) -> str:
    """Return the name of the export's file."""
    return f"{request.about_firm}-{request.kind}-{request.created_at:%Y-%m-%d}.zip"


def expire_exports() -> int:
    """Delete the expired zips of every firm; return how many.

    The parts of a failed export are kept as long, so that a retry can continue it.
    """
    with all_firms("exports of every firm expire"):
        now = timezone.now()
        due = DataRequest.objects.filter(
            status=RequestStatus.READY, expires_at__lte=now
        ).select_for_update(no_key=True, skip_locked=True)
        requests = list(due.values_list("pk", flat=True)[:100])
        delete_zips(requests)
        failed = DataRequest.objects.filter(
            status=RequestStatus.FAILED, parts__gt=0, finished_at__lte=now - LIFETIME
        ).select_for_update(no_key=True, skip_locked=True)
        forget_parts(list(failed.values_list("pk", flat=True)[:100]))
        return len(requests)


def fail_stranded() -> int:
    """Mark failed the running requests of every firm whose jobs are over; return how many.

    A job that is canceled, or kills its workers, ends without its handler. Its retry continues it.
    """
    with all_firms("requests of every firm may be stranded"):
        live = JobQueue.objects.filter(pk=OuterRef("job_id"), status__in=LIVE)
        return DataRequest.objects.filter(~Exists(live), status=RequestStatus.RUNNING).update(
            status=RequestStatus.FAILED, finished_at=timezone.now()
        )


def delete_zips(request_ids: list[UUID]) -> None:
    """Delete the zips of these exports. Must run in a scope that has them."""
    ExportPart.objects.filter(request_id__in=request_ids).delete()
    DataRequest.objects.filter(pk__in=request_ids).update(
        status=RequestStatus.EXPIRED, expires_at=None, parts=0
    )


def forget_parts(request_ids: list[UUID]) -> None:
    """Delete these exports' parts; a retry starts again. Must run in a scope that has them."""
    ExportPart.objects.filter(request_id__in=request_ids).delete()
    DataRequest.objects.filter(pk__in=request_ids).update(parts=0, position={}, counts={})
