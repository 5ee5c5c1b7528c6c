"""Schemathesis over the OpenAPI schema, in this process: no 5xx, and no undocumented answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle
from typing import Any

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from schemathesis.generation.meta import TestPhase

from tenants.models import Role
from tests.jobs.api.conftest import FirmRows
from tests.support.addresses import ID_IN_PATH, resource_of
from tests.support.fuzzing import (
    NOT_HELD,
    Targets,
    aim,
    issued,
    schema,
    targets_of,
    undisturbed,
    undone,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-02")]

# How many random requests each operation gets, beside those that cover each parameter.
EXAMPLES = 12
# None stands for platform staff, for whom some addresses are reserved.
ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN, None)


@dataclass(frozen=True)
class Asked:
    """The API keys of the callers, and the rows that they may ask for."""

    keys: dict[Role | None, str]
    targets: Targets


# Schemathesis leaves the operation out of the name of a test without parameters.
@pytest.fixture(params=["each role"])
def asked(acme: FirmRows, globex: FirmRows) -> Asked:
    """Return the API keys of each role, and the rows that may be asked for."""
    people = {role: issued(acme.firm, role) for role in ROLES}
    owner = people.pop(Role.ADMIN)
    readers = tuple(user for user, _ in people.values())
    keys = {role: key for role, (_, key) in people.items()}
    return Asked({**keys, Role.ADMIN: owner[1]}, targets_of(acme, owner[0], readers))


@pytest.fixture(autouse=True)
def _undisturbed() -> Iterator[None]:
    """Lift the bounds of requests, and keep everything in the test's own transaction."""
    with undisturbed():
        yield


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_api(case: schemathesis.Case[Any], asked: Asked) -> None:
    aim(case, asked.targets)
    headers = {"Authorization": f"Bearer {asked.keys[_role(case)]}"}
    with undone():
        case.call_and_validate(headers=headers, excluded_checks=NOT_HELD)


def test_every_address_with_an_id_finds_a_row(asked: Asked) -> None:
    operations = [result.ok() for result in schema.get_all_operations()]
    with_id = [one for one in operations if "{" in one.path]
    assert {resource_of(one.path) for one in with_id} == asked.targets.ids.keys()
    # Platform staff find every row; other callers may not see workers.
    headers = {"Authorization": f"Bearer {asked.keys[None]}"}
    for one in with_id:
        for target in asked.targets.ids[resource_of(one.path)]:
            url = ID_IN_PATH.sub(target, one.path)
            with undone():
                answer = Client().generic(one.method.upper(), url, headers=headers)
            assert answer.status_code != HTTPStatus.NOT_FOUND, url


_turns = cycle(ROLES)


def _role(case: schemathesis.Case[Any]) -> Role | None:
    """Let an admin, whom nothing is refused, send what covers the schema; otherwise take turns."""
    if case.meta is None or case.meta.phase.name is TestPhase.FUZZING:
        return next(_turns)
    return Role.ADMIN
