"""Schemathesis over the OpenAPI schema, in this process: no 5xx, and no answer the schema lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from tenants.models import Role
from tests.jobs.api.conftest import FirmRows, key_for
from tests.support.bounds import unbounded
from tests.support.fuzzing import NOT_HELD, aim, one_connection, schema

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-02")]

# Requests per operation and role.
EXAMPLES = 12


@pytest.fixture(params=[Role.VIEWER, Role.OPERATOR, Role.ADMIN])
def key(request: pytest.FixtureRequest, acme: FirmRows) -> str:
    """Return the key of somebody who may read, who may act, and who may do everything."""
    return key_for(acme.firm, request.param)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Ask without bounds, in the test's own transaction."""
    with one_connection(), unbounded():
        yield


@pytest.mark.usefixtures("undisturbed")
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_api(
    case: schemathesis.Case[Any], key: str, acme: FirmRows, globex: FirmRows
) -> None:
    aim(case, acme)
    headers = {"Authorization": f"Bearer {key}"}
    case.call_and_validate(headers=headers, excluded_checks=NOT_HELD)
