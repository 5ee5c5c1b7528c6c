"""Logging: structlog and the standard library through one formatter, to standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from config.console import render_console
from interfaces.correlation import current_correlation_id
from jobs.execution.telemetry import Lines

# Keys whose values never belong in a log line, whoever wrote it.
FORBIDDEN_KEYS = frozenset({"payload", "body", "token", "secret", "password", "authorization"})


def drop_forbidden_keys(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Remove keys that may carry mail text or secrets."""
    for key in FORBIDDEN_KEYS & event.keys():
        del event[key]
    return event


def add_correlation_id(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Name the request or job that is running."""
    correlation_id = current_correlation_id()
    if correlation_id is not None:
        event.setdefault("correlation_id", correlation_id)
    return event


SHARED_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    add_correlation_id,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    drop_forbidden_keys,
]


def _spell(event: EventDict, **_: object) -> str:
    """Return the line as JSON; a text that is no Unicode does not cost it."""
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        return json.dumps(event, default=repr)


class LineFormatter(structlog.stdlib.ProcessorFormatter):
    """Writes a record as a line, or as the many lines that it stands for."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or lines."""
        if not isinstance(record.msg, Lines):
            return super().format(record)
        moment = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        of_all = {
            "event": record.msg.event,
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": moment,
        }
        # The first one removes what only a record by itself has.
        rest = tuple(self.processors)[1:]
        return "\n".join([_line(rest, record, fields | of_all) for fields in record.msg.fields])


def _line(processors: Sequence[Processor], record: logging.LogRecord, event: Any) -> str:
    for process in processors:
        event = process(None, record.levelname, event)
    return str(event)


def logging_config(log_format: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING for `log_format` ("console" or "json")."""
    renderer: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_spell)]
        if log_format == "json"
        else [render_console]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "default": {
                "()": LineFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *renderer,
                ],
                "foreign_pre_chain": SHARED_PROCESSORS,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "default"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # googleapiclient logs each request's address at INFO and warns of a missing file cache.
            "googleapiclient": {"level": "ERROR"},
        },
    }


def configure_structlog() -> None:
    """Send structlog's lines through the standard library, so that all lines look alike."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED_PROCESSORS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
