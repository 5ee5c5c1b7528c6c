"""Imports a table of an older system: waiting jobs are enqueued, finished ones become history.

A chunk is one transaction that also stores a key for each imported row. After an import was
interrupted, another one imports the other rows, and none twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.connection import ConnectionDoesNotExist

from interfaces.correlation import new_correlation_id
from jobs import registry
from jobs.engine.clock import database_now
from jobs.engine.enqueue import enqueue_many
from jobs.engine.job_arguments import MAX_KEY_LENGTH
from jobs.engine.new_job import EnqueueSpec
from jobs.errors import Fault, LegacyImportInvalid
from jobs.models import IdempotencyKey
from jobs.operations.legacy.finished import store_finished
from jobs.operations.legacy.rows import LegacyRow, Mapped, RowFaulty, read_row
from jobs.operations.legacy.shapes import SHAPES, Shape
from jobs.operations.legacy.table import LegacyTable, has_rows
from jobs.operations.operation import By
from jobs.payload_validator import text_faults
from jobs.states import Status
from tenants.audit import as_actor, record_operation
from tenants.models import Firm
from tenants.scope import firm_scope

# All skipped rows are counted; the reasons of the first ones are listed, up to this number.
MOST_REASONS = 100
# How often a chunk is tried when another import stores its keys at the same time.
RACE_REPEATS = 3


@dataclass(frozen=True)
class ImportSpec:
    """What to import, and how to read it; `table` "" means the table that the shape names."""

    shape: str
    firm: Firm
    table: str = ""
    mapped: Mapped = field(default_factory=Mapped)
    database: str = "default"
    # FAILED, or DLQ so that an operator decides on each failed job.
    failed_as: Status = Status.FAILED
    dry_run: bool = False


@dataclass(frozen=True)
class Skipped:
    """Why a row was not imported."""

    id: str
    field: str
    code: str
    message: str


@dataclass
class ImportReport:
    """What became of the rows. `history` counts finished jobs by status."""

    table: str
    correlation_id: str
    dry_run: bool
    read: int = 0
    enqueued: int = 0
    history: Counter[str] = field(default_factory=Counter)
    already_there: int = 0
    skipped: int = 0
    reasons: list[Skipped] = field(default_factory=list)
    reasons_left_out: int = 0
    # The table of the older system's queue, if it has rows: they are pickled and not imported.
    left_in_queue: str = ""

    @property
    def imported(self) -> int:
        """How many rows became jobs here."""
        return self.enqueued + self.history.total()

    def skip(self, row_id: str, faults: Sequence[Fault]) -> None:
        """Count a row that is not imported, and say why."""
        self.skipped += 1
        room = max(0, MOST_REASONS - len(self.reasons))
        self.reasons += [
            Skipped(_encodable(row_id), one.field, one.code, _encodable(one.message))
            for one in faults[:room]
        ]
        self.reasons_left_out += len(faults[room:])

    def add(self, part: ImportReport) -> None:
        """Add what became of a chunk."""
        self.read += part.read
        self.enqueued += part.enqueued
        self.history += part.history
        self.already_there += part.already_there
        self.skipped += part.skipped
        room = max(0, MOST_REASONS - len(self.reasons))
        self.reasons += part.reasons[:room]
        self.reasons_left_out += part.reasons_left_out + len(part.reasons[room:])

    def as_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {**asdict(self), "history": dict(sorted(self.history.items()))}


def import_legacy_jobs(spec: ImportSpec, *, by: By = None) -> ImportReport:
    """Import the table, and audit it; a dry run writes nothing that stays.

    Raises:
        LegacyImportInvalid: the shape, the table, the database or a payload's field is unknown.
        UnknownJobType: a type that the table is mapped to is not declared.
    """
    shape, table = _checked(spec)
    report = ImportReport(table.name, new_correlation_id(), spec.dry_run)
    for rows in table.chunks():
        report.add(_import_chunk(rows, spec, shape, report, by))
    if shape.pickled_queue and has_rows(spec.database, shape.pickled_queue):
        report.left_in_queue = shape.pickled_queue
    return report


def _checked(spec: ImportSpec) -> tuple[Shape, LegacyTable]:
    shape = SHAPES.get(spec.shape)
    if shape is None:
        message = f"must be one of {', '.join(SHAPES)}"
        raise LegacyImportInvalid([Fault("from", "unknown", message)])
    for name in {*spec.mapped.types.values(), spec.mapped.every_type} - {""}:
        registry.get(name)
    if unknown := spec.mapped.unknown_fields():
        raise LegacyImportInvalid(unknown)
    name = spec.table or shape.table
    if not name:
        raise LegacyImportInvalid(
            [
                Fault(
                    "table",
                    "missing",
                    f"{shape.name} needs --table: it has no table name of its own",
                )
            ]
        )
    columns = spec.mapped.columns() if shape.takes_columns or spec.mapped.fields else []
    try:
        return shape, LegacyTable.find(spec.database, name, shape, columns)
    except ConnectionDoesNotExist as error:
        message = f"the setting DATABASES has no {spec.database!r}"
        raise LegacyImportInvalid([Fault("database", "unknown", message)]) from error


def _import_chunk(
    rows: Sequence[dict[str, Any]], spec: ImportSpec, shape: Shape, whole: ImportReport, by: By
) -> ImportReport:
    for attempt in range(1, RACE_REPEATS + 1):
        part = ImportReport(whole.table, whole.correlation_id, spec.dry_run, read=len(rows))
        try:
            with firm_scope(spec.firm):
                _import_rows(rows, spec, shape, part)
                if part.imported and not whole.imported:
                    _audit(spec, part, by)
                if spec.dry_run:
                    transaction.set_rollback(True)
        except IntegrityError:
            if attempt == RACE_REPEATS:
                raise
            continue
        return part
    raise AssertionError("unreachable")


def _audit(spec: ImportSpec, part: ImportReport, by: By) -> None:
    """Audit the import with its first imported chunk; the correlation id leads to its jobs."""
    record_operation(
        as_actor(by),
        "jobs.import",
        firm_id=spec.firm.pk,
        target=("table", part.table),
        after={"shape": spec.shape, "correlation_id": part.correlation_id},
    )


def _import_rows(
    rows: Sequence[dict[str, Any]], spec: ImportSpec, shape: Shape, part: ImportReport
) -> None:
    """Import a chunk in the open transaction and the firm's scope."""
    keys = {str(raw["key"]): f"import:{part.table}:{raw['key']}" for raw in rows}
    for row_id in list(keys):
        if faults := _key_faults(keys[row_id]):
            part.skip(row_id, faults)
            del keys[row_id]
    known = set(
        IdempotencyKey.objects.filter(key__in=list(keys.values())).values_list("key", flat=True)
    )
    waiting, finished = [], []
    for raw in rows:
        row_id = str(raw["key"])
        if row_id not in keys:
            continue
        if keys[row_id] in known:
            part.already_there += 1
            continue
        try:
            row = read_row(raw, shape, spec.mapped, spec.firm.pk)
        except RowFaulty as error:
            part.skip(row_id, error.faults)
            continue
        if row.status != Status.PENDING:
            finished.append(row)
        elif row.payload is None:
            part.skip(row.id, row.faults)
        elif faults := row.time_faults():
            part.skip(row.id, faults)
        else:
            waiting.append(row)
    imported = _enqueue(waiting, spec, part) | _store(finished, spec, part)
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(firm_id=spec.firm.pk, key=keys[row_id], job_id=job_id)
        for row_id, job_id in imported.items()
    )


def _enqueue(rows: Sequence[LegacyRow], spec: ImportSpec, part: ImportReport) -> dict[str, UUID]:
    """Enqueue what waits; return the jobs by row."""
    specs = [
        EnqueueSpec(
            row.declared.name,
            row.payload,
            at=row.time("due"),
            expires_at=row.time("expires"),
            correlation_id=part.correlation_id,
        )
        for row in rows
    ]
    results = enqueue_many(specs, firm=spec.firm)
    created = sum(result.created for result in results)
    part.enqueued += created
    # For the others a live job already has the idempotency key that the type computes.
    part.already_there += len(results) - created
    return {row.id: result.job_id for row, result in zip(rows, results, strict=True)}


def _store(rows: Sequence[LegacyRow], spec: ImportSpec, part: ImportReport) -> dict[str, UUID]:
    """Store the finished rows as history; return the jobs by row."""
    stored = store_finished(
        rows,
        spec.firm.pk,
        part.correlation_id,
        failed_as=spec.failed_as,
        now=database_now(),
    )
    part.history.update(str(job.status) for job in stored)
    return {row.id: job.job_id for row, job in zip(rows, stored, strict=True)}


def _key_faults(key: str) -> list[Fault]:
    if len(key) > MAX_KEY_LENGTH:
        message = f"together with the table's name, is longer than {MAX_KEY_LENGTH} characters"
        return [Fault("id", "too_long", message)]
    return list(text_faults("id", key))


def _encodable(text: str) -> str:
    """Escape characters that cannot be encoded: the older table's bytes may be damaged."""
    return text.encode(errors="backslashreplace").decode()
