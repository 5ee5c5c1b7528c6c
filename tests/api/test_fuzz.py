"""Schemathesis over the OpenAPI schema, in this process: no 5xx, and no answer the schema lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks

from config.wsgi import application
from tenants.api.throttles import CallerThrottle, FirmThrottle
from tenants.models import Role
from tests.api.conftest import FirmRows, key_for

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-02")]

# Requests per operation and role.
EXAMPLES = 20

load_all_checks()
# What the schema allows may be refused all the same: a cursor nobody gave out, a payload that
# does not fit its job's type.
NOT_HELD = CHECKS.get_by_names(["positive_data_acceptance"])


schema = schemathesis.openapi.from_wsgi("/api/v1/schema/?format=json", application)


@pytest.fixture(params=[Role.VIEWER, Role.ADMIN])
def key(request: pytest.FixtureRequest, acme: FirmRows) -> str:
    """Return the key of somebody who may read, and of somebody who may do everything."""
    return key_for(acme.firm, request.param)


def aim(case: schemathesis.Case, rows: FirmRows) -> None:
    """Let every other id be one that exists: made-up ones lead to 404 alone."""
    targets = {"/jobs/{": rows.dead.pk, "/dlq/{": rows.dead_letter.pk, "/locks/{": rows.lock.pk}
    target = next((str(pk) for part, pk in targets.items() if part in case.path), None)
    for name, made_up in case.path_parameters.items():
        with suppress(ValueError):
            if target is not None and UUID(str(made_up)).int % 2:
                case.path_parameters[name] = target


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fuzzer ask as often as it likes."""
    for throttle in (CallerThrottle, FirmThrottle):
        monkeypatch.setattr(throttle, "rate", "1000000/s", raising=False)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Keep the test's connection, and with it its transaction, over the requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.usefixtures("one_connection", "unbounded")
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_api(
    case: schemathesis.Case, key: str, acme: FirmRows, globex: FirmRows
) -> None:
    aim(case, acme)
    headers = {"Authorization": f"Bearer {key}"}
    case.call_and_validate(headers=headers, excluded_checks=NOT_HELD)
