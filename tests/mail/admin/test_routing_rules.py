"""The form of routing rules: what it says of conditions that it cannot take."""

from __future__ import annotations

import pytest
from django.test import Client

from tenants.models import Firm, Role
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-08", "O-03")]


def test_conditions_that_are_no_object_are_not_called_a_payload(firm: Firm) -> None:
    browser = Client()
    browser.force_login(UserFactory(is_staff=True, member_of=firm, member_of__role=Role.ADMIN))
    form = {"name": "Shop", "position": 1, "route": "pipeline", "match": "[1]"}
    answer = browser.post("/admin/mail/routingrule/new/", form)
    assert answer.context["form"].errors["match"] == ["This must be an object: { … }."]
