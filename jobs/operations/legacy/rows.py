"""Reads one row of an older system: its status, its times, and the payload it would have here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from pydantic import AliasChoices, AliasPath

from interfaces.moments import YEARS, is_in_range
from jobs import registry
from jobs.errors import Fault, PayloadInvalid
from jobs.operations.legacy.shapes import MAX_PAYLOAD_LENGTH, Shape, Unreadable
from jobs.operations.legacy.table import COLUMN
from jobs.payload_validator import validate_payload
from jobs.registry import JobPayload, JobType
from jobs.states import Status


@dataclass(frozen=True)
class Mapped:
    """What a row's names mean here: `types` by the older system's names, columns by our fields.

    `every_type` is the type of rows whose name is not in `types`, "" for none. Without `fields`
    the payload is the one that the row holds, and the columns with the names of the type's fields.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    every_type: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def type_of(self, legacy_type: str) -> JobType:
        """Return the type a row's jobs have here.

        Raises:
            UnknownJobType: no mapping names a type, and no type has the row's own name.
        """
        return registry.get(self.types.get(legacy_type) or self.every_type or legacy_type)

    def columns(self) -> list[str]:
        """Return the columns a payload's fields may be in."""
        if self.fields:
            return sorted(set(self.fields.values()))
        return sorted({name for one in self._declared() for name in one.payload_model.model_fields})

    def unknown_fields(self) -> list[Fault]:
        """Return a fault for each mapped field that no type has."""
        models = [one.payload_model for one in self._declared()]
        if any(one.model_config.get("extra") == "allow" for one in models):
            return []
        known = {name for one in models for name in (*one.model_fields, *_aliases(one))}
        types = {*self.types.values(), self.every_type} - {""}
        message = f"is not a field of {' or '.join(sorted(types)) or 'any type'}"
        return [
            Fault(f"field.{name}", "unknown", message) for name in self.fields if name not in known
        ]

    def _declared(self) -> list[JobType]:
        """Return the types that rows may become."""
        names = {*self.types.values(), self.every_type} - {""}
        return [registry.get(name) for name in names] if names else list(registry.all_types())


def _aliases(model: type[JobPayload]) -> Iterator[str]:
    """Yield the aliases of the fields. Not every model has a JSON schema to read them from."""
    for one in model.model_fields.values():
        alias = one.validation_alias
        for name in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            found = name.path[0] if isinstance(name, AliasPath) else name
            if isinstance(found, str):
                yield found


class RowFaulty(Exception):
    """A row that cannot be imported; `faults` say why."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__(faults)


@dataclass(frozen=True)
class LegacyRow:
    """A row that was read. `payload` is None if it would be refused here; `faults` say why."""

    id: str
    declared: JobType
    status: Status
    payload: dict[str, Any] | None
    faults: list[Fault]
    raw: Mapping[str, Any]

    def time(self, *roles: str) -> datetime | None:
        """Return the first of these times that the row has, and that can be stored here."""
        found = (read_time(self.raw.get(role)) for role in roles)
        return next((one for one in found if one is not None and is_in_range(one)), None)

    def time_faults(self) -> list[Fault]:
        """Return why the job cannot wait or expire as the row says; else it would run too early."""
        faults = []
        for role, name in (("due", "due_at"), ("expires", "expires_at")):
            value = self.raw.get(role)
            if value is None or value == "":
                continue
            moment = read_time(value)
            if moment is None:
                faults.append(Fault(name, "unreadable", "is no date and time"))
            elif not is_in_range(moment):
                faults.append(Fault(name, "out_of_range", f"must lie in {YEARS}"))
        due, expires = self.time("due"), self.time("expires")
        if due is not None and expires is not None and expires <= due:
            message = "the job expires before it is due"
            faults.append(Fault("expires_at", "after_expiry", message))
        return faults


def read_row(raw: Mapping[str, Any], shape: Shape, mapped: Mapped, firm_id: int) -> LegacyRow:
    """Return the row's type, status and payload as they are here.

    Raises:
        RowFaulty: the status or the type is unknown.
    """
    status = shape.status_of(raw["status"])
    if status is None:
        raise RowFaulty([Fault("status", "unknown_status", "is not a known status")])
    try:
        declared = mapped.type_of(str(raw.get("job_type") or ""))
    except PayloadInvalid as error:
        raise RowFaulty(error.faults) from error
    payload, faults = None, []
    try:
        found = _payload(raw, shape, mapped, declared)
        # The envelope only completes the payload for the check; enqueue gives the job its own.
        checked = {
            "tenant_id": firm_id,
            "version": declared.version,
            "correlation_id": "-",
            **found,
        }
        validate_payload(declared.name, checked, firm=firm_id)
        payload = found
    except RowFaulty as error:
        faults = error.faults
    except PayloadInvalid as error:
        faults = error.faults
    return LegacyRow(str(raw["key"]), declared, status, payload, faults, raw)


def _payload(
    raw: Mapping[str, Any], shape: Shape, mapped: Mapped, declared: JobType
) -> dict[str, Any]:
    if shape.read_payload is None:
        raise RowFaulty([Fault("payload", "pickled", "is pickled; pickles are not read")])
    found = _stored_payload(raw, shape)
    columns = {
        role.removeprefix(COLUMN): value for role, value in raw.items() if role.startswith(COLUMN)
    }
    if mapped.fields:
        known = {**columns, **found}
        return {ours: known[theirs] for ours, theirs in mapped.fields.items() if theirs in known}
    if shape.takes_columns:
        own = declared.payload_model.model_fields.keys() - {"tenant_id", "version"}
        found = {**{name: value for name, value in columns.items() if name in own}, **found}
        # A column's NULL is no value; a field that must be given is then missing.
        found = {name: value for name, value in found.items() if value is not None}
    return found


def _stored_payload(raw: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return the payload that the row holds."""
    if _read(shape, raw.get("args"), "args"):
        message = "are given by position, but payload fields have names"
        raise RowFaulty([Fault("args", "positional", message)])
    found = _read(shape, raw.get("payload"), "payload")
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise RowFaulty([Fault("payload", "wrong_type", "must be an object")])
    return found


def _read(shape: Shape, text: str | None, name: str) -> Any:
    if text is None or not text.strip() or shape.read_payload is None:
        return None
    if len(text) > MAX_PAYLOAD_LENGTH:
        message = f"is longer than {MAX_PAYLOAD_LENGTH:,} characters"
        raise RowFaulty([Fault(name, "too_large", message)])
    try:
        return shape.read_payload(text)
    except Unreadable as error:
        raise RowFaulty([Fault(name, "unreadable", str(error))]) from error


def read_time(value: object) -> datetime | None:
    """Return a column's value as a time, in UTC if it has no zone; None if it is no time."""
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
