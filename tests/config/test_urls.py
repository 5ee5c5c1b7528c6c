"""Addresses that lead nowhere say so."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.test.utils import override_script_prefix

from mail.models import Message

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("row", ["1", "0198c7a2-0000-7000-8000-000000000000", "%00", ""])
def test_no_row_is_viewed_on_site(row: str, admin_user: User, client: Client) -> None:
    client.raise_request_exception = False
    client.force_login(admin_user)
    kind = ContentType.objects.get_for_model(Message)
    assert client.get(f"/admin/r/{kind.pk}/{row}/").status_code == 404


def test_an_error_page_leads_back_below_the_prefix_of_a_proxy(client: Client) -> None:
    with override_script_prefix("/mail/"):
        page = client.get("/nowhere/")
    assert page.status_code == 404
    assert 'href="/mail/admin/"' in page.content.decode()
