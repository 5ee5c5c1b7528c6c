"""What schemathesis needs to ask this API, in the suite and in the soak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from schemathesis.checks import CHECKS, load_all_checks

from tests.jobs.api.conftest import FirmRows

load_all_checks()
# What the schema allows may be refused all the same: a cursor nobody gave out, a payload that
# does not fit its job's type.
NOT_HELD: Any = CHECKS.get_by_names(["positive_data_acceptance"])

schema = schemathesis.openapi.from_wsgi("/api/v1/schema/?format=json", get_wsgi_application())


def aim(case: schemathesis.Case[Any], rows: FirmRows) -> None:
    """Let every other id be one that exists: made-up ones lead to 404 alone."""
    targets = {
        "/jobs/{": rows.dead.pk,
        "/dlq/{": rows.dead_letter.pk,
        "/locks/{": rows.lock.pk,
        "/pauses/{": rows.pause.pk,
        "/rate-limits/{": rows.rate_limit.pk,
        "/breakers/{": rows.breaker.pk,
    }
    target = next((str(pk) for part, pk in targets.items() if part in case.path), None)
    for name, made_up in case.path_parameters.items():
        with suppress(ValueError):
            if target is not None and UUID(str(made_up)).int % 2:
                case.path_parameters[name] = target


@contextmanager
def one_connection() -> Iterator[None]:
    """Keep the connection, and with it the transaction around, over the requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)
