"""Addresses that lead nowhere say so."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from mail.models import Message

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("row", ["1", "0198c7a2-0000-7000-8000-000000000000", "%00", ""])
def test_no_row_is_viewed_on_site(row: str, admin_user: User, client: Client) -> None:
    client.raise_request_exception = False
    client.force_login(admin_user)
    kind = ContentType.objects.get_for_model(Message)
    assert client.get(f"/admin/r/{kind.pk}/{row}/").status_code == 404
