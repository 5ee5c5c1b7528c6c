"""Writes an export part by part; the request's row records progress, so a killed job continues."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.utils import timezone

from jobs.engine.lease import JobLease
from mail.errors import WrongState
from mail.models import DataRequest, ExportPart, MailAccount, Message, RequestKind, RequestStatus
from mail.services.exports.eml import eml_name, eml_of
from mail.services.exports.subjects import mentioning
from mail.services.exports.tables import (
    FORMAT,
    LEFT_OUT,
    VERSION,
    exported_models,
    facts_of,
    row_as_json,
    user_columns_of,
)
from tenants.encryption import decrypt_field
from tenants.models import Firm
from tenants.scope import firm_scope, firms_scope

# A part ends with the row that reaches one of these limits.
PART_BYTES = 1_000_000
PART_ROWS = 2_000
ROWS_AT_ONCE = 50
# How long a zip is kept.
LIFETIME = timedelta(days=7)
# The stages after the tables.
MAIL, END = "mail", "end"


def export_step(request_id: UUID, lease: JobLease) -> DataRequest | None:
    """Store the next part; return the request once it is complete.

    Raises:
        LeaseLost: another attempt has taken over; nothing was stored.
    """
    with firm_scope(lease.firm_id):
        about = DataRequest.objects.values_list("about_firm_id", flat=True).get(pk=request_id)
    with firms_scope([lease.firm_id, about]):
        lease.require()
        request: DataRequest = DataRequest.objects.select_for_update(no_key=True).get(pk=request_id)
        if request.status == RequestStatus.EXPIRED:
            # The job of an expired export was retried. The parts were deleted, so it starts again.
            request.position, request.counts = {}, {}
        stages = [*exported_models(), MAIL, END]
        stage = request.position.get("stage", stages[0])
        after = request.position.get("after")
        if stage == END:
            _finish(request)
            return request
        part = _mail_part(request, after) if stage == MAIL else _table_part(request, stage, after)
        if part.rows:
            _store(request, part.name, part.content)
            request.counts[stage] = request.counts.get(stage, 0) + part.rows
        following = stages[stages.index(stage) + 1]
        request.position = (
            {"stage": stage, "after": part.last} if part.last else {"stage": following}
        )
        request.status = RequestStatus.RUNNING
        request.save(update_fields=["position", "counts", "parts", "status"])
        return None


@dataclass(frozen=True)
class _Part:
    """Its file's name, bytes and number of rows, and the last row's id, None at the table's end."""

    name: str
    content: bytes
    rows: int
    last: str | None


def _table_part(request: DataRequest, table: str, after: str | None) -> _Part:
    model = exported_models()[table]
    lines: list[str] = []
    size, last = 0, None
    for row in _rows(request, model, after):
        lines.append(row_as_json(row))
        size += len(lines[-1])
        if size > PART_BYTES or len(lines) >= PART_ROWS:
            last = str(row.pk)
            break
    text = "".join(f"{line}\n" for line in lines)
    return _Part(f"tables/{table}.jsonl", text.encode(), len(lines), last)


def _mail_part(request: DataRequest, after: str | None) -> _Part:
    file = io.BytesIO()
    count, size, last = 0, 0, None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as part:
        for message in _rows(request, Message, after):
            mail = eml_of(message)
            part.writestr(eml_name(message), mail)
            count, size = count + 1, size + len(mail)
            if size > PART_BYTES or count >= PART_ROWS:
                last = str(message.pk)
                break
    return _Part("", file.getvalue(), count, last)


def _rows(request: DataRequest, model: type[Any], after: str | None) -> Iterator[Any]:
    """Yield the rows after this id, ordered by id, read a few at a time."""
    rows = _wanted(request, model).order_by("pk")
    if model is Message:
        rows = rows.select_related("account")
    while True:
        page = list((rows.filter(pk__gt=after) if after else rows)[:ROWS_AT_ONCE])
        yield from page
        if len(page) < ROWS_AT_ONCE:
            return
        after = page[-1].pk


def _wanted(request: DataRequest, model: type[Any]) -> QuerySet[Any]:
    """Return the firm's rows, or, in an export about a person, only rows about that person."""
    # Ids grow with time. Rows newer than the request are left out, or the export might never end.
    rows: QuerySet[Any] = model.objects.filter(firm_id=request.about_firm_id, pk__lt=request.pk)
    if request.kind == RequestKind.FIRM_EXPORT:
        return rows
    address = decrypt_field(request, "subject")
    if model is MailAccount or not address:
        return rows.none()
    firms_messages = Message.objects.filter(firm_id=request.about_firm_id)
    messages = mentioning(firms_messages, address).values("pk")
    about = Q(pk__in=mentioning(rows, address).values("pk"))
    for field in model._meta.concrete_fields:
        if field.related_model is Message and field.name != "classified_upto":
            about |= Q(**{f"{field.attname}__in": messages})
    return rows.filter(about)


def _store(request: DataRequest, name: str, content: bytes) -> None:
    ExportPart.objects.create(
        firm_id=request.firm_id,
        request=request,
        number=request.parts,
        name=name,
        content=zlib.compress(content),
    )
    request.parts += 1


def _finish(request: DataRequest) -> None:
    firm = Firm.objects.get(pk=request.about_firm_id)
    if request.kind == RequestKind.FIRM_EXPORT:
        users = "".join(f"{json.dumps(user)}\n" for user in _users(firm))
        _store(request, "users.jsonl", users.encode())
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "kind": request.kind,
        "firm": facts_of(firm),
        "exported_at": timezone.now().isoformat(),
        "rows": request.counts,
        "left_out": LEFT_OUT,
    }
    _store(request, "manifest.json", json.dumps(manifest, indent=1).encode())
    # In the same transaction: otherwise a killed job would write these files again, and an export
    # whose parts an erasure has deleted in between would be called ready without a single file.
    request.status, request.finished_at = RequestStatus.READY, timezone.now()
    request.expires_at = request.finished_at + LIFETIME
    request.save(update_fields=["parts", "status", "finished_at", "expires_at"])


def _users(firm: Firm) -> Iterator[dict[str, str]]:
    """Yield the users that the firm's rows name, without passwords and rights."""
    ids: set[Any] = set()
    for model in exported_models().values():
        for column in user_columns_of(model):
            rows = model.objects.filter(firm_id=firm.pk, **{f"{column}__isnull": False})
            ids.update(rows.order_by().values_list(column, flat=True).distinct())
    for user in get_user_model()._default_manager.filter(pk__in=ids).order_by("pk"):
        yield {
            "id": str(user.pk),
            "username": user.get_username(),
            "email": getattr(user, "email", ""),
            "first_name": getattr(user, "first_name", ""),
            "last_name": getattr(user, "last_name", ""),
        }


class _Pieces:
    """What a zip is written to: gives out what was written since it was last asked."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, piece: bytes) -> int:
        """Keep the bytes."""
        self._written += piece
        return len(piece)

    def flush(self) -> None:
        """Do nothing: all is kept in memory."""

    def close(self) -> None:
        """Do nothing: a zip does not close the file that it is written to."""

    def take(self) -> bytes:
        """Return what was written since."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


def zip_pieces(request: DataRequest) -> Iterator[bytes]:
    """Yield a complete export's zip. Ask for the pieces outside transactions and scopes.

    Raises:
        WrongState: the export was deleted meanwhile.
    """
    pieces = _Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, parts_of_file in groupby(_stored_parts(request), lambda part: part.name):
            if not name:
                for part in parts_of_file:
                    for one, content in _files_in(zlib.decompress(part.content)):
                        whole.writestr(one, content)
                        yield pieces.take()
                continue
            info = zipfile.ZipInfo(name, timezone.now().timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            with whole.open(info, "w", force_zip64=True) as target:
                for part in parts_of_file:
                    target.write(zlib.decompress(part.content))
                    yield pieces.take()
    yield pieces.take()


def _stored_parts(request: DataRequest) -> Iterator[ExportPart]:
    """Yield the parts, each read in a transaction of its own.

    One transaction for all would, on SQLite, keep everybody from writing while a large zip is made.
    """
    for number in range(request.parts):
        with firm_scope(request.firm_id, reading=True):
            same = DataRequest.objects.filter(
                pk=request.pk, status=RequestStatus.READY, finished_at=request.finished_at
            )
            part = ExportPart.objects.filter(request__in=same, number=number).first()
        if part is None:
            raise WrongState("The zip was deleted meanwhile: it expired, or a person was erased.")
        yield part


def _files_in(content: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        for one in files.infolist():
            yield one.filename, files.read(one)
