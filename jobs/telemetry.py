"""Turns the queue's events into log lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

_log = structlog.get_logger("jobs")


def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
    """Write one line; problems as warnings."""
    write = _log.warning if problem else _log.info
    write(event, **fields)
