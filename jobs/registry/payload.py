"""The base of payload schemas; reads a payload by its type's schema, and says what that refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import DatabaseError
from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticUserError,
    Secret,
    SecretBytes,
    SecretStr,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic_core import to_jsonable_python

from jobs.errors import Fault, HandlerError, PayloadInvalid

# Default factories that make an equal value each time.
_CONSTANT = (None, dict, frozenset, list, set, tuple)
NO_ENVELOPE = {"tenant_id": 0, "version": "", "correlation_id": ""}

MAX_FAULTS = 50
# Errors of a validator that say nothing about the payload: a lookup of its own failed, or it asks
# something of the queue.
PASSING = (DatabaseError, OSError, HandlerError)
_CODES = {"missing": "missing", "extra_forbidden": "unknown_field"}


class JobPayload(BaseModel):
    """The base of every payload schema: the envelope, and no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    # Fields with content from elsewhere, whose keys are not checked for secrets.
    free_form: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:
        # Code that builds a payload may leave the envelope out; stored payloads have it.
        tenant_id: StrictInt = 0
        version: StrictStr = ""
        correlation_id: StrictStr = ""
    else:
        tenant_id: StrictInt
        version: StrictStr
        correlation_id: StrictStr

        def __init__(self, /, **fields: Any) -> None:
            """Build a payload by hand, as a test does; the envelope may be left out."""
            super().__init__(**{**NO_ENVELOPE, **fields})

        # Otherwise pydantic would call it for every payload that it reads, and demand no envelope.
        __init__.__pydantic_base_init__ = True


def made_defaults(payload: JobPayload) -> dict[str, Any]:
    """Return, as JSON by key, the values that a `default_factory` made for the missing fields.

    They are stored with the job, because each attempt would make other ones. Those of nested models
    are not.
    """
    keys = _made_fields(type(payload))
    if not keys or not (missing := keys.keys() - payload.model_fields_set):
        return {}
    return {keys[name]: _as_written(payload, name) for name in missing}


def _as_written(payload: JobPayload, name: str) -> Any:
    """Return a field's value as the schema writes it, such as bytes in base64; see `plain_value`."""
    value = getattr(payload, name)
    try:
        written = payload.model_dump(mode="json", include={name}, by_alias=True, round_trip=True)
    except ValueError:
        return value
    # Empty for a field that dumps leave out.
    return value if _hides(value) else next(iter(written.values()), plain_value(value))


def plain_value(value: object) -> Any:
    """Return a field's value, with the pydantic models in it, as plain JSON.

    One that cannot be JSON, or holds a secret, stays as it is: the queue refuses it by its path.
    """
    try:
        plain = to_jsonable_python(value, round_trip=True)
    except ValueError:
        return value
    return value if _hides(value) else plain


def _hides(value: object) -> bool:
    """Say whether the value holds a secret, in whose place pydantic writes asterisks."""
    return any(True for _ in secrets_in(value))


def secrets_in(value: object) -> Iterator[object]:
    """Yield what each of pydantic's secrets in a value holds."""
    if isinstance(value, SecretStr | SecretBytes | Secret):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        yield from secrets_in(vars(value))
    elif is_dataclass(value):
        yield from secrets_in([getattr(value, field.name) for field in fields_of(value)])
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from secrets_in(item)


@cache
def _made_fields(model: type[JobPayload]) -> dict[str, str]:
    """Return the key in payloads of each field whose default a function makes."""
    return {
        name: field.validation_alias or name
        for name, field in model.model_fields.items()
        if field.default_factory not in _CONSTANT and isinstance(field.validation_alias, str | None)
    }


def is_older(version: str, than: str) -> bool:
    """Say whether a payload version precedes another; False if one is not made of numbers."""
    try:
        return _parts(version) < _parts(than)
    except ValueError:
        return False


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def read_by_schema(job_type: str, model: type[JobPayload], text: str) -> JobPayload:
    """Return the payload in `text` as the type's model.

    Raises:
        PayloadInvalid: the schema refuses it, or a validator of the schema raised.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise PayloadInvalid(job_type, schema_faults(error)) from None
    except PASSING:
        raise
    except Exception as error:
        raise PayloadInvalid(job_type, _faults_up_to(model, text, error)) from error


def schema_faults(error: ValidationError) -> list[Fault]:
    """Translate pydantic's errors; the messages must not contain the values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        Fault(
            field=".".join(str(part) for part in item["loc"]) or "payload",
            code=_CODES.get(
                item["type"], "wrong_type" if item["type"].endswith("_type") else item["type"]
            ),
            message=item["msg"],
        )
        for item in found[:MAX_FAULTS]
    ]


def _faults_up_to(model: type[JobPayload], text: str, error: Exception) -> list[Fault]:
    """Return the fault of the validator that raised `error`, after those of the fields before.

    Pydantic does not say which field's validator it was. Fields are read in their order, so it is
    the first field with which reading raises. A validator of the whole model belongs to no field.
    """
    payload = json.loads(text)
    given: dict[str, Any] = {}
    before: list[Fault] = []
    for name, field in model.model_fields.items():
        # Without the version, no validator runs that comes after all fields.
        if name == "version":
            continue
        key = field.validation_alias if isinstance(field.validation_alias, str) else name
        if key in payload:
            given[key] = payload[key]
        try:
            model.model_validate_json(json.dumps(given))
        except ValidationError as refused:
            before = [one for one in schema_faults(refused) if one.code != "missing"]
        except Exception as raised:  # noqa: BLE001 - a validator may raise anything
            if name in JobPayload.model_fields or not given:
                # The envelope has no validators, so one of the raw payload raised, which misses
                # later fields.
                break
            return [*before, _fault_of(key, raised)]
    return [_fault_of("payload", error)]


def _fault_of(field: str, error: Exception) -> Fault:
    """Return the fault of a validator that raised; only Django's own error is written for people.

    Pydantic raises one too if the module of the schema lacks a name that its annotations use.
    """
    if isinstance(error, PydanticUserError) and error.code == "class-not-fully-defined":
        unknown = error.message.partition(", then call")[0]
        hint = "import it in the payload's module, not under TYPE_CHECKING alone"
        return Fault(field, "schema_incomplete", f"{unknown}: {hint}")
    if isinstance(error, DjangoValidationError):
        with suppress(Exception):  # the text may name parameters that are missing
            return Fault(field, "value_error", "; ".join(error.messages))
    return Fault(field, "function_failed", f"its validator raised {type(error).__name__}")
