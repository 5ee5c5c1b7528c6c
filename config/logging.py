"""Logging: structlog and the standard library through one formatter, to standard error."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from copy import copy
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import KeyValueRenderer
from structlog.types import EventDict, Processor, WrappedLogger

from interfaces.correlation import current_correlation_id
from interfaces.log_lines import Line
from interfaces.redaction import redact
from interfaces.tables import printable
from jobs.execution.telemetry import FinishedAttempt, FinishedAttempts, Lines, fields_of

RenderAttempts = Callable[[dict[str, str], FinishedAttempts], Iterable[str]]

# Keys whose values never belong in a log line, whoever wrote it. A `request` of Django's is shown
# with its query, which may be a search in somebody's mail; the event has the path anyway.
FORBIDDEN_KEYS = frozenset(
    {"payload", "body", "token", "secret", "password", "authorization", "request"}
)
# The links in e-mails about approvals, with which anybody may decide; REST's addresses carry no
# such secret.
_SIGNED_LINK = re.compile(r"(?<!/mail)/approvals/[^/\s]+")

TRACEBACK_LIMIT = 64_000

_console_line = KeyValueRenderer(
    key_order=["timestamp", "level", "event", "logger"], drop_missing=True
)
# Five times as slow, but tracebacks are readable. The default exception formatter prints local
# variables: payloads and mail text among them.
_console_traceback = ConsoleRenderer(colors=False, exception_formatter=plain_traceback)


def drop_forbidden_keys(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Remove keys that may carry mail text or secrets."""
    for key in FORBIDDEN_KEYS & event.keys():
        del event[key]
    return event


def hide_signed_links(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Leave the signed part out of an approval's link, which Django logs for refused requests."""
    text = event.get("event")
    if isinstance(text, str):
        event["event"] = _SIGNED_LINK.sub("/approvals/…", text)
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
    hide_signed_links,
]


def _format_error(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """Replace an error by its traceback, redacted: it may quote a statement's values."""
    if not event.get("exc_info"):
        return event
    event = structlog.processors.format_exc_info(logger, name, event)
    if "exception" in event:
        # The end says most.
        event["exception"] = redact(event["exception"][-TRACEBACK_LIMIT:], TRACEBACK_LIMIT)
    return event


def _render_console(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """Return the line as `key=value` pairs, an error with its traceback."""
    event = _format_error(logger, name, event)
    if event.keys() & {"exception", "stack"}:
        # What an error quotes, such as a mail, could steer the reader's terminal.
        return printable(_console_traceback(logger, name, event).expandtabs())
    event.pop("exc_info", None)
    # As plain strings, because the repr of an enum's member is not that of its value.
    plain = {key: str(one) if isinstance(one, str) else one for key, one in event.items()}
    return _console_line(logger, name, plain)


def _to_json(event: EventDict, **_: object) -> str:
    """Return the line as JSON; a string that is not valid Unicode is escaped."""
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        return json.dumps(event, default=repr)


class LineFormatter(structlog.stdlib.ProcessorFormatter):
    """Writes a record as one line, or one of `Lines` as several, by `render_attempts`."""

    writes_lines = True

    def __init__(self, *, render_attempts: RenderAttempts, **options: Any) -> None:
        super().__init__(**options)
        self._render_attempts = render_attempts

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or lines."""
        line: object = record.msg
        if isinstance(line, Line):
            # Only the event: the fields are attributes of the record, which the line gets anyway.
            record = copy(record)
            record.msg = line.event
        if not isinstance(record.msg, Lines):
            return super().format(record)
        moment = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        common = {
            "timestamp": moment,
            "level": record.levelname.lower(),
            "event": record.msg.event,
            "logger": record.name,
        }
        return "\n".join(self._render_attempts(common, record.msg.attempts))


def _console_attempts(common: dict[str, str], attempts: FinishedAttempts) -> Iterable[str]:
    """Return the lines as `key=value` pairs, made from one template for each kind of attempt."""
    fields = " ".join(f"{name}=%r" for name in FinishedAttempt._fields)
    for kind, same in attempts.items():
        known = {**common, **kind._asdict()}
        shared = " ".join(f"{name}={value!r}" for name, value in known.items()).replace("%", "%%")
        yield from map(f"{shared} {fields}".__mod__, same)


def _json_attempts(common: dict[str, str], attempts: FinishedAttempts) -> Iterable[str]:
    """Return the lines as JSON."""
    return (_to_json({**fields, **common}) for fields in fields_of(attempts))


def logging_config(log_format: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING for `log_format` ("console" or "json")."""
    renderer: list[Processor] = [_render_console]
    render_attempts: RenderAttempts = _console_attempts
    if log_format == "json":
        renderer = [
            _format_error,
            structlog.processors.JSONRenderer(_to_json),
        ]
        render_attempts = _json_attempts
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
                "render_attempts": render_attempts,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "default"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # googleapiclient logs each request's address at INFO and warns of a missing file cache.
            "googleapiclient": {"level": "ERROR"},
            # At DEBUG they log what is sent to a model, at INFO each request's address.
            **{
                name: {"level": "WARNING"}
                for name in ("anthropic", "openai", "httpx2", "httpcore2")
            },
            # requests_oauthlib logs tokens at DEBUG.
            "requests_oauthlib": {"level": "WARNING"},
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
