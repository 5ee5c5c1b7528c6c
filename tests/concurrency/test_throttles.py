"""Requests that come at once: each is counted, so that none is one too many."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client

from tenants import request_counts
from tenants.api import keys
from tenants.api.throttles import CallerThrottle
from tenants.audit import SERVICE
from tenants.models import Firm, Membership, Role
from tenants.scope import firm_scope

pytestmark = [pytest.mark.req("O-01"), pytest.mark.django_db(transaction=True)]

CALLERS = 8
REQUESTS = 80
ALLOWED = 30


def test_of_requests_at_once_exactly_so_many_are_answered(
    firm: Firm, django_user_model: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", ALLOWED)
    monkeypatch.setattr(request_counts, "_NOW", {connection.vendor: "1800000030"})
    user = django_user_model.objects.create_user("ann")  # type: ignore[attr-defined]  # a model
    with firm_scope(firm):
        Membership.objects.create(firm=firm, user=user, role=Role.VIEWER)
    key, _ = keys.issue(user, firm, Role.VIEWER, lifetime=None, by=SERVICE)

    def ask(_: int) -> int:
        try:
            headers = {"Authorization": f"Bearer {key}"}
            return Client().get("/api/v1/jobs/admin/locks/", headers=headers).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(CALLERS) as callers:
        answers = Counter(callers.map(ask, range(REQUESTS)))
    assert answers == {200: ALLOWED, 429: REQUESTS - ALLOWED}
