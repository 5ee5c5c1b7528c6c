"""An HTTP request and its answer, as every door of the simulator hands them in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request as either door hands it in."""

    verb: str
    uri: str
    """Absolute or from the path on, with the query."""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: JSON unless a header says otherwise, or nothing with 204."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
