"""Sends requests that the schema of the API allows, many times: `python -m tests.soak.api`.

Every role sends that many requests to a test database, and so do platform staff. Each request is
rolled back, so that the next one finds the same rows. A 5xx, or an answer that the schema does not
have, is reported with its request, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FlakyStrategyDefinition

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.core.result import Ok

    from tenants.models import Role
    from tests.support.fuzzing import Targets

REQUESTS = 20_000
# How many requests go to one operation before the next operation has its turn.
TURN = 20


@dataclass
class Report:
    """The result of one role's requests."""

    role: Role | None
    answers: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def requests(self) -> int:
        """How many requests the role has sent."""
        return self.answers.total()

    def __str__(self) -> str:
        counts = ", ".join(f"{status}: {count:,}" for status, count in sorted(self.answers.items()))
        who = "Platform staff" if self.role is None else self.role.label
        return f"{who}: {self.requests:,} requests ({counts})"


def main() -> int:
    """Run; return 0 if every answer was one that the schema has."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.api")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="made as each role")
    wanted: int = parser.parse_args().requests
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    # Most requests are refused, and each refusal would be logged.
    logging.disable(logging.CRITICAL)
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    from tenants.models import Role
    from tests.support.fuzzing import undisturbed
    from tests.support.rehearsals import without_process

    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        with undisturbed(), without_process():
            return max(_ask_as(role, wanted) for role in (*Role, None))
    finally:
        teardown_databases(databases, verbosity=0)


def _ask_as(role: Role | None, wanted: int) -> int:
    """Send the requests in a transaction that is rolled back; print the result, return 0 or 1."""
    from django.db import transaction

    from tests.factories.tenants import FirmFactory
    from tests.jobs.api.conftest import fill
    from tests.support.fuzzing import issued, schema, targets_of

    report, begun = Report(role), time.monotonic()
    with transaction.atomic():
        rows = fill(FirmFactory(name="Acme", slug="acme"))
        fill(FirmFactory(name="Globex", slug="globex"))
        user, key = issued(rows.firm, role)
        targets = targets_of(rows, user)
        # A result without `ok()` would be an error of the schema itself.
        operations = [cast("Ok[Any]", result).ok() for result in schema.get_all_operations()]
        for operation in cycle(operations):
            if report.requests >= wanted:
                break
            _ask(operation, report, targets, key, min(TURN, wanted - report.requests))
        transaction.set_rollback(True)
    _write(f"{report} in {time.monotonic() - begun:.0f} s")
    for failure, count in report.failures.most_common():
        _write(f"  {count:,} times {failure}")
    return 1 if report.failures else 0


def _ask(operation: Any, report: Report, targets: Targets, key: str, count: int) -> None:
    """Send up to `count` different requests to one operation."""

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Case[Any]) -> None:
        _ask_once(case, report, targets, key)

    # Data that schemathesis keeps between cases changes what it generates. It then raises this
    # error, and the rest of the turn is left out; the answers so far are in the report.
    with suppress(FlakyStrategyDefinition):
        ask()


def _ask_once(case: Case[Any], report: Report, targets: Targets, key: str) -> None:
    """Send one request, note the answer, and undo what the request did."""
    from schemathesis.core.failures import FailureGroup

    from tests.support.fuzzing import NOT_HELD, aim, undone

    aim(case, targets)
    headers = {"Authorization": f"Bearer {key}"}
    with undone():
        try:
            answer = case.call(headers=headers)
            report.answers[answer.status_code] += 1
            case.validate_response(answer, headers=headers, excluded_checks=NOT_HELD)
        except FailureGroup as found:
            for failure in found.exceptions:
                place = f"{case.operation.label}: {failure.title}"
                if place not in report.failures:
                    _write(f"{place}\n{failure.message}\n{case.as_curl_command()}")
                report.failures[place] += 1


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
