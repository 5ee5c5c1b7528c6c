"""Logging: structlog and the standard library through one formatter, to standard error."""

from __future__ import annotations

from typing import Any

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

# Keys whose values never belong in a log line, whoever wrote it.
FORBIDDEN_KEYS = frozenset({"payload", "body", "token", "secret", "password", "authorization"})


def drop_forbidden_keys(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Remove keys that may carry mail text or secrets."""
    for key in FORBIDDEN_KEYS & event.keys():
        del event[key]
    return event


SHARED_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    drop_forbidden_keys,
]


def logging_config(log_format: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING for `log_format` ("console" or "json")."""
    renderer: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [
            # The default formatter prints local variables: payloads and mail text among them.
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "default": {
                "()": "structlog.stdlib.ProcessorFormatter",
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
