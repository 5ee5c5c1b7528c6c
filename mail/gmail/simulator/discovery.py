"""Gmail's discovery document, as shipped with Google's client: routes, parameters, schemas.

The simulator learns every route and every shape from here; nothing about the wire format is
written down twice.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from googleapiclient.discovery_cache import get_static_doc

from mail.gmail.simulator.answer import ApiError, invalid_argument

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types

QueryValue = str | int | bool | tuple[str, ...]
"""A query parameter after conversion; repeated ones are tuples."""

_INTEGER_PATTERN = {"int64": r"^-?\d{1,19}$", "uint64": r"^\d{1,20}$"}
_INTEGER_RANGE = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the Gmail API."""

    name: str
    """Without the leading ``gmail.users.``, for instance ``messages.get``."""
    verb: str
    pattern: re.Pattern[str]
    parameters: Mapping[str, Mapping[str, Any]]
    request_schema: str | None
    response_schema: str | None
    scopes: frozenset[str]
    """Any one of these permits the call."""
    takes_upload: bool


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(get_static_doc("gmail", "v1"))
    return document


def _walk(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from resource.get("methods", {}).values()
    for child in resource.get("resources", {}).values():
        yield from _walk(child)


@functools.cache
def methods() -> tuple[Method, ...]:
    """Return every method of the API; fixed paths before those with an id in the same place."""
    found = [
        Method(
            name=spec["id"].removeprefix("gmail.users."),
            verb=spec["httpMethod"],
            pattern=re.compile(
                "/" + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(spec["flatPath"]))
            ),
            parameters=spec["parameters"],
            request_schema=spec.get("request", {}).get("$ref"),
            response_schema=spec.get("response", {}).get("$ref"),
            scopes=frozenset(spec["scopes"]),
            takes_upload="mediaUpload" in spec,
        )
        for spec in _walk(_document())
    ]
    return tuple(sorted(found, key=lambda method: method.pattern.groups))


def find_method(verb: str, path: str) -> tuple[Method, dict[str, str]]:
    """Return the method behind a request line and its (still quoted) path parameters.

    Raises:
        ApiError: 404, no method has this verb and path.
    """
    for method in methods():
        if method.verb == verb and (match := method.pattern.fullmatch(path)):
            return method, match.groupdict()
    raise ApiError(404, "notFound", "The requested URL was not found on this server.")


def read_query(method: Method, query: Mapping[str, Sequence[str]]) -> dict[str, QueryValue]:
    """Return the typed query parameters.

    Raises:
        ApiError: 400, a parameter is unknown, missing, repeated or of the wrong type.
    """
    common = _document()["parameters"]
    values: dict[str, QueryValue] = {}
    for name, texts in query.items():
        spec = method.parameters.get(name)
        if spec is None or spec["location"] != "query":
            if name not in common:
                raise invalid_argument(
                    f'Invalid JSON payload received. Unknown name "{name}": '
                    "Cannot bind query parameter."
                )
            continue
        converted = tuple(_convert(name, spec, text) for text in texts)
        if spec.get("repeated"):
            values[name] = tuple(str(value) for value in converted)
        elif len(converted) == 1:
            values[name] = converted[0]
        else:
            raise invalid_argument(f"Invalid value at '{name}': not a repeated field.")
    for name, spec in method.parameters.items():
        if spec["location"] == "query" and spec.get("required") and name not in values:
            raise invalid_argument(f"Missing required parameter: {name}")
    return values


def _convert(name: str, spec: Mapping[str, Any], text: str) -> str | int | bool:
    if "enum" in spec and text not in spec["enum"]:
        raise invalid_argument(f"Invalid value at '{name}' (TYPE_ENUM), \"{text}\"")
    kind: Literal["string", "integer", "boolean"] = spec["type"]
    if kind == "boolean":
        if text not in _BOOLEANS:
            raise invalid_argument(f"Invalid value at '{name}' (TYPE_BOOL), \"{text}\"")
        return _BOOLEANS[text]
    if kind == "integer":
        low, high = _INTEGER_RANGE[spec["format"]]
        if not re.fullmatch(r"-?\d{1,10}", text) or not low <= int(text) <= high:
            raise invalid_argument(
                f"Invalid value at '{name}' (TYPE_{spec['format'].upper()}), \"{text}\""
            )
        return int(text)
    pattern = _INTEGER_PATTERN.get(spec.get("format", ""))
    if pattern and not re.fullmatch(pattern, text):
        raise invalid_argument(
            f"Invalid value at '{name}' (TYPE_{spec['format'].upper()}), \"{text}\""
        )
    return text


def check_body(method: Method, body: object) -> None:
    """Check a decoded request body against the method's schema.

    Raises:
        ApiError: 400, naming the first unknown, missing or ill-typed field.
    """
    if method.request_schema is None:
        if body not in (None, {}):
            raise invalid_argument("Invalid JSON payload received. No request body is expected.")
        return
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]  # ships no types

    error = best_match(_request_validator(method.name).iter_errors(body))
    if error is not None:
        where = ".".join(str(step) for step in error.absolute_path) or "message"
        # Only the messages of these two validators name fields; the others would quote the content.
        names_fields = error.validator in ("additionalProperties", "required")
        fault = error.message if names_fields else f"{error.validator} {error.validator_value}"
        raise invalid_argument(f"Invalid JSON payload received at '{where}': {fault}")


@functools.cache
def _request_validator(method_name: str) -> Draft202012Validator:
    method = next(method for method in methods() if method.name == method_name)
    return _validator(str(method.request_schema), request_of=method_name)


@functools.cache
def answer_validator(schema_name: str) -> Draft202012Validator:
    """Return a validator of answers: known fields only, integers of 64 bits as strings."""
    return _validator(schema_name, request_of=None)


def _validator(root: str, *, request_of: str | None) -> Draft202012Validator:
    definitions = {
        name: _json_schema(schema, request_of=request_of)
        for name, schema in _document()["schemas"].items()
    }
    # Imported with the first body, because workers of a Google mailbox never see one.
    from jsonschema import Draft202012Validator

    return Draft202012Validator({"$ref": f"#/$defs/{root}", "$defs": definitions})


def _json_schema(schema: Mapping[str, Any], *, request_of: str | None) -> dict[str, Any]:
    """Translate one schema of the discovery dialect into today's JSON Schema.

    ``request_of`` names the method whose required fields are marked, None for answers.
    """
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    kind = schema["type"]
    if kind == "array":
        return {"type": "array", "items": _json_schema(schema["items"], request_of=request_of)}
    if kind == "object":
        fields = schema.get("properties", {})
        translated = {
            name: _json_schema(field, request_of=request_of) for name, field in fields.items()
        }
        required = [
            name
            for name, field in fields.items()
            if f"gmail.users.{request_of}" in field.get("annotations", {}).get("required", ())
        ]
        return {
            "type": "object",
            "properties": translated,
            "required": required,
            "additionalProperties": False,
        }
    if "enum" in schema:
        # Google's guides write these words in upper case, the document in lower case; both are
        # accepted.
        capitals = [word.upper() for word in schema["enum"]] if request_of else []
        return {"enum": [*schema["enum"], *capitals]}
    if pattern := _INTEGER_PATTERN.get(schema.get("format", "")):
        return {"type": "string", "pattern": pattern}
    return {"type": kind}
