"""Parses request bodies: strict JSON of limited size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import IO, Any

from rest_framework.parsers import BaseParser

from interfaces.api.problems import Fault, Refusal
from interfaces.strict_json import RepeatedKey, without_repeats

MAX_BODY_BYTES = 1_000_000


class StrictJSONParser(BaseParser):
    """Refuses repeated keys, NaN and large bodies, which JSON parsers usually accept."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body's value.

        Raises:
            Refusal: 413 for a body over MAX_BODY_BYTES, 400 for one that is not strict JSON.
        """
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "body_too_large",
                f"A body may have at most {MAX_BODY_BYTES:,} bytes.",
            )
        try:
            return json.loads(
                body.decode("utf-8"),
                object_pairs_hook=without_repeats,
                parse_constant=_no_constant,
            )
        except RepeatedKey as error:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "malformed",
                "The body gives a key twice.",
                [Fault(error.key, "repeated", "This key is given twice.")],
            ) from error
        except ValueError as error:
            raise _malformed(str(error)) from error
        except RecursionError as error:
            raise _malformed("The body is nested too deeply.") from error


def _no_constant(word: str) -> None:
    raise _malformed(f"{word} is not valid JSON.")


def _malformed(why: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "malformed", f"The body is not strict JSON: {why}")
