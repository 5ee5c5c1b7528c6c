"""Requests that come at the same time are all counted, so that none exceeds the bound."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tenants.models import Firm, Role
from tenants.throttles import CallerThrottle
from tests.jobs.api.conftest import Api, at, key_for

pytestmark = [pytest.mark.req("O-01"), pytest.mark.django_db(transaction=True)]

CALLERS = 8
REQUESTS = 80
ALLOWED = 30


def test_of_requests_at_once_exactly_so_many_are_answered(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", ALLOWED)
    at(monkeypatch, 30)
    key = key_for(firm, Role.VIEWER)

    def ask(_: int) -> int:
        try:
            return int(Api(key).get("locks/").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(CALLERS) as callers:
        answers = Counter(callers.map(ask, range(REQUESTS)))
    assert answers == {200: ALLOWED, 429: REQUESTS - ALLOWED}
