"""Validates payloads: the envelope, limits, forbidden keys, and the type's own schema.

Payloads are validated at enqueue and again before the handler runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson
from django.utils.functional import LazyObject

from interfaces.plain_json import ENCODED, PLAIN, is_text, plain
from interfaces.redaction import quotable
from jobs import registry
from jobs.conf import PAYLOAD_MAX_BYTES, PAYLOAD_MAX_DEPTH
from jobs.errors import Fault, PayloadInvalid
from jobs.registry import JobPayload, JobType
from jobs.registry.payload import MAX_FAULTS, PASSING, read_by_schema
from tenants.models import Firm

__all__ = ["JobPayload", "PayloadInvalid", "validate_payload"]

# Keys with exactly these names are refused in a payload. Masking what people see covers more names:
# see `is_secret_key`.
SECRET_KEYS = frozenset({
    "password", "passwd", "secret", "client_secret", "token", "access_token", "refresh_token",
    "id_token", "api_key", "apikey", "authorization", "private_key", "cookie",
})  # fmt: skip
FOREIGN_TENANT = Fault("tenant_id", "foreign_tenant", "is not the id of the job's firm")

# Every value of these types is valid JSON.
PLAIN_TYPES = frozenset({str, int, bool, type(None)})
CONTAINERS = frozenset({dict, list, tuple})


def validate_payload(job_type: str, payload: Mapping[str, Any], *, firm: Firm | int) -> JobPayload:
    """Check `payload` and return it as the type's model, brought to the current version.

    Raises:
        PayloadInvalid: `errors` lists each fault; its subclass UnknownJobType for an unknown type.
    """
    firm_id = firm if isinstance(firm, int) else firm.pk
    return read_payload(registry.get(job_type), payload, firm_id)[1]


def read_payload(
    declared: JobType, payload: Mapping[str, Any], firm_id: int
) -> tuple[str, JobPayload]:
    """Return the payload as it is stored, and as the type's model.

    Raises:
        PayloadInvalid: as `validate_payload`.
    """
    try:
        text = encode_payload(declared, payload)
        return text, parse_payload(declared, text, firm_id)
    except PayloadInvalid as error:
        named = {fault.field for fault in error.faults}
        later = [one for one in _later_faults(declared, payload, firm_id) if one.field not in named]
        if not later:
            raise
        raise PayloadInvalid(declared.name, [*error.faults, *later][:MAX_FAULTS]) from error


def _later_faults(declared: JobType, payload: object, firm_id: int) -> Iterator[Fault]:
    """Yield the faults that the checks after the first failed one would have found."""
    if not isinstance(payload, Mapping):
        return
    if payload.get("version") == declared.version:
        try:
            text = json.dumps(dict(payload), ensure_ascii=False, default=plain)
            text = text.encode(errors="replace").decode()
            read_by_schema(declared.name, declared.payload_model, text)
        except PayloadInvalid as error:
            yield from error.faults
        except (TypeError, ValueError, RecursionError):
            # The payload is not JSON; an earlier check has already reported that.
            pass
    tenant_id = payload.get("tenant_id")
    if type(tenant_id) is int and tenant_id != firm_id:
        yield FOREIGN_TENANT


def encode_payload(declared: JobType, payload: Mapping[str, Any]) -> str:
    """Return the payload as JSON text, checked except for its schema.

    Raises:
        PayloadInvalid: not JSON, too large, too deep, NUL, NaN, a secret key.
    """
    data = _encode_plain(payload) or _encode_checked(declared, payload)
    if len(data) > PAYLOAD_MAX_BYTES:
        message = f"has {len(data)} bytes; at most {PAYLOAD_MAX_BYTES} are allowed"
        raise _refused(declared, "payload", "too_large", message)
    return data.decode()


def parse_payload(declared: JobType, text: str, firm_id: int) -> JobPayload:
    """Return the payload in `text` as the type's model, brought to the current version.

    Raises:
        PayloadInvalid: as `validate_payload`.
    """
    model = _parse_current(declared, text) or _parse_any(declared, text)
    if model.tenant_id != firm_id:
        raise PayloadInvalid(declared.name, [FOREIGN_TENANT])
    return model


def text_faults(name: str, text: str) -> Iterator[Fault]:
    """Yield the faults that keep a text from being stored."""
    if "\x00" in text:
        yield Fault(name, "nul", "the NUL character cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        yield Fault(name, "surrogate", "a lone surrogate is not text")


def _refused(declared: JobType, field: str, code: str, message: str) -> PayloadInvalid:
    return PayloadInvalid(declared.name, [Fault(field, code, message)])


def _parse_current(declared: JobType, text: str) -> JobPayload | None:
    """Parse a payload of the current version, as nearly all are; return None for any other."""
    try:
        # The same as model_validate_json(), without the cost of its options.
        model: JobPayload = declared.payload_model.__pydantic_validator__.validate_json(text)
    except PASSING:
        raise
    except Exception:  # noqa: BLE001 - the caller parses the payload again and reports the faults
        return None
    return model if model.version == declared.version else None


def _parse_any(declared: JobType, text: str) -> JobPayload:
    payload = _decode(declared, text)
    version = payload.get("version")
    if isinstance(version, str) and version != declared.version:
        text = json.dumps(_upcast(declared, payload, version), default=plain)
    return read_by_schema(declared.name, declared.payload_model, text)


def _decode(declared: JobType, text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        raise _refused(declared, "payload", "not_json", "is not readable as JSON") from None
    if not isinstance(payload, dict):
        raise _refused(declared, "payload", "wrong_type", "must be an object")
    return payload


def _upcast(declared: JobType, payload: dict[str, Any], version: str) -> dict[str, Any]:
    """Bring a payload of an older version to the current one, by one upcaster after another."""
    for _ in range(len(declared.upcasters)):
        if version not in declared.upcasters:
            break
        upcasted = _apply_upcaster(declared, payload, version)
        same = upcasted.get("version") in (None, version)
        payload = {**upcasted, "version": declared.version if same else upcasted["version"]}
        version = payload["version"]
        if version == declared.version:
            return payload
    message = f"{version!r} is unknown; {declared.name} reads {declared.version}"
    raise _refused(declared, "version", "unknown_version", message)


def _apply_upcaster(declared: JobType, payload: dict[str, Any], version: str) -> dict[str, Any]:
    try:
        upcasted = dict(declared.upcasters[version](dict(payload)))
        json.dumps(upcasted, default=plain)
    except Exception as error:
        message = f"cannot be converted from version {version!r}: {type(error).__name__}"
        raise _refused(declared, "payload", "upcast_failed", message) from error
    return upcasted


def _encode_plain(payload: Mapping[str, Any]) -> bytes | None:
    """Encode a payload of plain values without faults, as nearly all are; else return None."""
    try:
        if type(payload) is not dict or not _is_plain(payload, 1):
            return None
        data = orjson.dumps(payload)
    except TypeError:
        # orjson refuses keys that are not strings, lone surrogates, integers of over 64 bits.
        return None
    return None if rb"\u0000" in data else data


def _is_plain(value: Any, depth: int) -> bool:
    """Say whether a dict, list or tuple is free of the faults that orjson would accept."""
    if type(value) is dict:
        if not SECRET_KEYS.isdisjoint(map(str.casefold, value)):
            return False
        value = value.values()
    for item in value:
        kind = type(item)
        if kind in PLAIN_TYPES or (kind is float and math.isfinite(item)):
            continue
        if kind not in CONTAINERS or depth == PAYLOAD_MAX_DEPTH or not _is_plain(item, depth + 1):
            return False
    return True


def _encode_checked(declared: JobType, payload: Mapping[str, Any]) -> bytes:
    if not isinstance(payload, Mapping):
        raise _refused(declared, "payload", "wrong_type", "must be an object")
    payload = dict(payload)
    faults = list(form_faults(payload, free_form=declared.payload_model.free_form))[:MAX_FAULTS]
    if faults:
        raise PayloadInvalid(declared.name, faults)
    return json.dumps(
        payload, ensure_ascii=False, separators=(",", ":"), default=plain, allow_nan=False
    ).encode()


def form_faults(
    value: object, *, root: str = "", free_form: Collection[str] | None = None
) -> Iterator[Fault]:
    """Yield every fault of a value that should be JSON; iteratively, as it may be nested deeply.

    Paths begin with `root`. Keys are checked for secrets in all fields but those in `free_form`;
    with None, nowhere.
    """
    pending: list[tuple[str, Any, int]] = [(root, value, 1)]
    while pending:
        path, value, depth = pending.pop()
        if isinstance(value, dict | list | tuple):
            if depth > PAYLOAD_MAX_DEPTH:
                yield Fault(path, "too_deep", f"nested over {PAYLOAD_MAX_DEPTH} levels")
                continue
            if isinstance(value, dict):
                check_secrets = free_form is not None and _field(path) not in free_form
                yield from _key_faults(path, value, check_secrets=check_secrets)
                children = [(_join(path, str(key)), item) for key, item in value.items()]
            else:
                children = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
            pending.extend((place, item, depth + 1) for place, item in reversed(children))
        else:
            yield from _value_faults(path, value)


def _join(path: str, key: str) -> str:
    # Messages name the key.
    key = quotable(key)
    return f"{path}.{key}" if path else key


def _field(path: str) -> str:
    """Return the top-level field of a path, "" at the top."""
    return path.partition(".")[0].partition("[")[0]


def _key_faults(path: str, value: Mapping[Any, Any], *, check_secrets: bool) -> Iterator[Fault]:
    for key in value:
        place = _join(path, str(key))
        if not is_text(key):
            yield Fault(place, "wrong_type", "keys must be strings")
        elif check_secrets and key.casefold() in SECRET_KEYS:
            yield Fault(place, "secret_key", "payloads carry no secrets: pass an id instead")
        else:
            yield from text_faults(place, key)


def _value_faults(path: str, value: object) -> Iterator[Fault]:
    # isinstance() takes a lazy object for the object it wraps, but the encoder refuses it.
    if isinstance(value, LazyObject) or not isinstance(value, PLAIN + ENCODED):
        yield Fault(path, "wrong_type", f"{type(value).__name__} is not JSON")
    elif isinstance(value, str):
        yield from text_faults(path, value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Fault(path, "nan", "NaN and infinity are not JSON")
    # Python does not convert integers of more than 4,300 digits to text.
    elif isinstance(value, int) and value.bit_length() > 1024:
        yield Fault(path, "number_too_large", "integers are limited to 1,024 bits")
