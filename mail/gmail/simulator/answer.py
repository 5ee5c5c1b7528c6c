"""An HTTP request and its answer, the same for each of the simulator's transports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, whichever transport it came over."""

    verb: str
    uri: str
    """The absolute URI, or only its path and query."""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: JSON unless a header says otherwise, or nothing with 204."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
