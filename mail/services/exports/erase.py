"""Erases a person from a firm's tables; the request's row records the progress.

Mail that mentions the person's address is deleted with everything that belongs to it; if it is
snoozed, it returns to the inbox in Gmail. The text of attachments that mention the address is
dropped. Everywhere else the address is replaced. Audit log entries keep only who, when and which
operation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import SET_NULL, Q
from django.utils import timezone

from jobs.engine.delete_owned import delete_jobs
from jobs.engine.lease import JobLease
from jobs.engine.transactions import in_transaction
from jobs.errors import Fatal
from jobs.errors import WrongState as JobIsOver
from jobs.models import JobQueue
from jobs.queue import cancel
from jobs.states import LIVE
from mail.models import (
    DataRequest,
    Document,
    ExportPart,
    MailThread,
    Message,
    OutboundMessage,
    RequestKind,
    RequestStatus,
)
from mail.services.actions.lost_snoozes import lose_snoozes
from mail.services.documents.documents import drop_contents, forget
from mail.services.documents.search import drop_erased_words
from mail.services.exports.find_subject import ERASED_ENTRY, read_on
from mail.services.exports.subjects import pattern_of, text_columns
from mail.services.operation import audit
from mail.services.timelines.threads import refresh_threads
from tenants.audit import SERVICE
from tenants.encryption import decrypt_field
from tenants.models import AuditEntry
from tenants.scope import all_firms, firm_scope

# Others may write the address meanwhile; if a table is never clean, something is wrong.
MOST_PASSES = 20


@dataclass(frozen=True)
class Step:
    """Whether all is erased; if not, whether the rest waits for jobs in flight."""

    is_over: bool = False
    waits: bool = False
    counts: dict[str, int] = field(default_factory=dict)


def erase_step(request_id: UUID, lease: JobLease) -> Step:
    """Read on for a while, up to the next few rows that mention the person, and erase those.

    Passes over all tables follow each other until one finds nothing.

    Raises:
        LeaseLost: another attempt has taken over; nothing was done.
        Fatal: the address appears again and again.
    """
    with all_firms("exports of a firm may belong to the system firm"):
        lease.require()
        request: DataRequest = DataRequest.objects.select_for_update(no_key=True).get(pk=request_id)
        if request.status == RequestStatus.DONE:
            return Step(is_over=True, counts=request.counts)
        address = decrypt_field(request, "subject")
        position: dict[str, Any] = {"table": "", "pass": 1, "found": False, "waits": False}
        position.update(request.position)
        if not position["table"]:
            _drop_exports(request.about_firm_id, address)
            drop_contents(request.about_firm_id)
        following = read_on(request.about_firm_id, address, position)
        if following is not None:
            model, rows = following
            if not rows:
                return _saved(request, position, Step())
            name = model._meta.db_table
            erased, waiting = _erase(model, rows, address)
            request.counts[name] = request.counts.get(name, 0) + erased
            position["found"] = position["found"] or erased + waiting > 0
            position["waits"] = position["waits"] or waiting > 0
            return _saved(request, position, Step())
        if not position["found"]:
            _finish(request)
            return Step(is_over=True, counts=request.counts)
        if position["pass"] > MOST_PASSES:
            raise Fatal("The address appears again and again: something goes on writing it")
        waits = position["waits"]
        again = {"pass": position["pass"] + (0 if waits else 1)}
        return _saved(request, again, Step(waits=waits))


def _saved(request: DataRequest, position: dict[str, Any], step: Step) -> Step:
    request.position, request.status = position, RequestStatus.RUNNING
    request.save(update_fields=["counts", "position", "status"])
    return step


def _erase(model: type[Any], rows: list[Any], address: str) -> tuple[int, int]:
    """Erase the person from these rows; return how many are done, and how many have to wait.

    A row in which only the database sees the address is neither: it may take other characters for
    letters than Python does.
    """
    done = len(rows)
    if model is Message:
        done = _delete_messages(rows)
    elif model is OutboundMessage:
        model.objects.filter(pk__in=[row.pk for row in rows]).delete()
    elif model is Document:
        forget(rows)
    elif model is JobQueue:
        done = _delete_jobs(rows)
    elif model is AuditEntry:
        for row in rows:
            found = pattern_of(address).search(row.target_id)
            target = {"target_id": ""} if found else {}
            AuditEntry.objects.filter(pk=row.pk).update(**ERASED_ENTRY, **target)
    else:
        return sum(_replace(row, address) for row in rows), 0
    return done, len(rows) - done


def _delete_messages(messages: list[Message]) -> int:
    """Delete messages with all rows that refer to them, even optionally; return how many.

    A message that a snooze is hiding at this moment is not deleted yet: nothing would bring it
    back.
    """
    with firm_scope(messages[0].firm_id):
        busy = lose_snoozes([message.pk for message in messages])
    messages = [message for message in messages if message.pk not in busy]
    ids = [message.pk for message in messages]
    threads = MailThread.objects.filter(pk__in={message.thread_id for message in messages})
    locked = list(threads.select_for_update(no_key=True).order_by("pk"))
    for relation in Message._meta.related_objects:
        model: Any = relation.related_model
        if relation.on_delete is SET_NULL and model is not MailThread:
            model.objects.filter(**{f"{relation.field.name}__in": ids}).delete()
    Message.objects.filter(pk__in=ids).delete()
    refresh_threads(locked)
    return len(ids)


def _delete_jobs(jobs: list[JobQueue]) -> int:
    """Delete the jobs that are over, and ask the others to end."""
    over = []
    for job in jobs:
        status = job.status
        if status in LIVE:
            with suppress(JobIsOver):
                status = cancel(job.pk).status
        if status not in LIVE:
            over.append((job.pk, job.firm_id))
    return in_transaction(lambda: delete_jobs(over))


def _replace(row: Any, address: str) -> bool:
    """Replace the address in every column of the row by a word that is unique to the row.

    Return whether it was there.
    """
    pattern, word = pattern_of(address), f"erased-{row.pk.hex[-8:]}"
    changes: dict[str, Any] = {}
    for column in text_columns(type(row)):
        old = getattr(row, column.attname)
        new = _without(old, pattern, word)
        if new != old:
            most = getattr(column, "max_length", None)
            changes[column.attname] = new[:most] if isinstance(new, str) else new
    if changes:
        type(row).objects.filter(pk=row.pk).update(**changes)
    return bool(changes)


def _without(value: Any, pattern: Any, word: str) -> Any:
    match value:
        case str():
            return pattern.sub(word, value)
        case list():
            return [_without(item, pattern, word) for item in value]
        case dict():
            return {
                _without(key, pattern, word): _without(item, pattern, word)
                for key, item in value.items()
            }
    return value


def _drop_exports(firm_id: int, address: str) -> None:
    """Delete the zips that may contain the person; an export under way starts again."""
    exports = DataRequest.objects.exclude(kind=RequestKind.ERASE_SUBJECT).filter(
        about_firm_id=firm_id
    )
    stored = Q(parts__gt=0)
    ids = list(exports.filter(stored).select_for_update(no_key=True).values_list("pk", flat=True))
    if ids:
        ExportPart.objects.filter(request_id__in=ids).delete()
        changed = DataRequest.objects.filter(pk__in=ids)
        changed.update(parts=0, position={}, counts={}, expires_at=None)
        changed.filter(status=RequestStatus.READY).update(status=RequestStatus.EXPIRED)
    for export in exports.exclude(subject=""):
        if decrypt_field(export, "subject") == address:
            DataRequest.objects.filter(pk=export.pk).update(subject="")


def _finish(request: DataRequest) -> None:
    drop_erased_words()
    request.subject, request.status = "", RequestStatus.DONE
    request.finished_at = timezone.now()
    request.save(update_fields=["subject", "status", "finished_at"])
    audit(
        "subject.erased",
        request,
        SERVICE,
        after={"rows": sum(request.counts.values())},
    )
