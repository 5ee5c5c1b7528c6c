"""Schemathesis over the OpenAPI schema, in this process: no 5xx, and no answer the schema lacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.generation.meta import TestPhase

from tenants.models import Role
from tests.jobs.api.conftest import FirmRows, key_for
from tests.support.bounds import unbounded
from tests.support.fuzzing import NOT_HELD, aim, one_connection, schema

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-02")]

# Made-up requests per operation, beside those that cover what the schema says of each parameter.
EXAMPLES = 12
ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


# Without a parameter schemathesis leaves the operation out of a test's name.
@pytest.fixture(params=["each role"])
def keys(acme: FirmRows) -> dict[Role, str]:
    """Return the keys of those who may read, who may act, and who may do everything."""
    return {role: key_for(acme.firm, role, username=f"fuzzing-{role}") for role in ROLES}


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
    case: schemathesis.Case[Any], keys: dict[Role, str], acme: FirmRows, globex: FirmRows
) -> None:
    aim(case, acme)
    headers = {"Authorization": f"Bearer {keys[_role(case)]}"}
    case.call_and_validate(headers=headers, excluded_checks=NOT_HELD)


_turns = cycle(ROLES)


def _role(case: schemathesis.Case[Any]) -> Role:
    """Let an admin, whom nothing is refused, send what covers the schema; else roles take turns."""
    if case.meta is None or case.meta.phase.name is TestPhase.FUZZING:
        return next(_turns)
    return Role.ADMIN
