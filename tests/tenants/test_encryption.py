"""Encrypted fields: bound to firm, field and row; keys rotate; errors name what is wrong."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from interfaces.commands import Refused
from mail.models import MailAccount, MailCredential
from tenants.encryption import decrypt_field, encrypt_field
from tenants.errors import DecryptionFailed, NoEncryptionKey
from tenants.key_ring import KeyRing, new_key
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.mail import MailAccountFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-01")]

CANARY = "1//refresh-token-canary"


def credential_of(account: MailAccount, text: str = CANARY) -> MailCredential:
    with firm_scope(account.firm_id):
        row = MailCredential(account=account, firm_id=account.firm_id)
        encrypt_field(row, "refresh_token", text)
        row.save()
    return row


def test_a_value_reads_back_and_is_nowhere_in_the_table() -> None:
    row = credential_of(MailAccountFactory())
    with firm_scope(row.firm_id):
        row.refresh_from_db()
    assert decrypt_field(row, "refresh_token") == CANARY
    with all_firms("test"), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM mail_mailcredential")
        rows = cursor.fetchall()
    assert len(rows) == 1
    assert CANARY not in repr(rows)
    assert decrypt_field(row, "access_token") == ""


def test_the_same_text_is_never_stored_alike() -> None:
    first, second = (credential_of(MailAccountFactory()) for _ in range(2))
    assert first.refresh_token != second.refresh_token


@pytest.mark.parametrize("moved_to", ["firm", "field", "row"])
def test_a_value_that_was_moved_cannot_be_read(moved_to: str, other_firm: Firm) -> None:
    row = credential_of(MailAccountFactory())
    name = "refresh_token"
    if moved_to == "firm":
        row.firm_id = other_firm.pk
    elif moved_to == "field":
        name, row.access_token = "access_token", row.refresh_token
    else:
        row = MailCredential(firm_id=row.firm_id, refresh_token=row.refresh_token)
    with pytest.raises(DecryptionFailed, match="altered, or copied"):
        decrypt_field(row, name)


@pytest.mark.parametrize("stored", ["", "x", "v1.ab.!!", "v2.abcdefgh.AAAA", "v1.abcdefgh.AAAA"])
def test_what_is_no_encrypted_value_is_refused_as_such(stored: str) -> None:
    with pytest.raises(DecryptionFailed):
        KeyRing([new_key()]).decrypt(stored, "context")


def test_an_altered_value_is_refused_without_being_shown() -> None:
    ring = KeyRing([new_key()])
    stored = ring.encrypt(CANARY, "context")
    altered = stored[:-5] + ("A" if stored[-5] != "A" else "B") + stored[-4:]
    with pytest.raises(DecryptionFailed) as caught:
        ring.decrypt(altered, "context")
    assert CANARY not in str(caught.value)


def test_a_missing_key_is_named_by_its_id_and_not_by_its_content() -> None:
    old, new = new_key(), new_key()
    stored = KeyRing([old]).encrypt(CANARY, "context")
    with pytest.raises(NoEncryptionKey, match=stored.split(".")[1]) as caught:
        KeyRing([new]).decrypt(stored, "context")
    assert old not in str(caught.value)
    with pytest.raises(NoEncryptionKey, match="FIELD_ENCRYPTION_KEYS is not set"):
        KeyRing([]).encrypt(CANARY, "context")


def test_a_project_that_sets_no_key_is_told_so(settings: Settings, firm: Firm) -> None:
    del settings.FIELD_ENCRYPTION_KEYS
    with pytest.raises(NoEncryptionKey, match="FIELD_ENCRYPTION_KEYS is not set"):
        encrypt_field(MailCredential(firm=firm, account_id=1), "refresh_token", CANARY)


@pytest.mark.parametrize("text", ["short", "not base64 !", "A" * 100])
def test_a_text_that_is_no_key_is_named_by_its_place(text: str) -> None:
    with pytest.raises(ValueError, match="key 2 is not 32 bytes") as caught:
        KeyRing([new_key(), text])
    assert text not in str(caught.value)


def rotate(**options: Any) -> dict[str, Any]:
    out = io.StringIO()
    call_command("rotate_keys", json=True, stdout=out, **options)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_rotation_encrypts_every_row_with_the_first_key(settings: Settings) -> None:
    old, new = new_key(), new_key()
    settings.FIELD_ENCRYPTION_KEYS = (old,)
    rows = [credential_of(MailAccountFactory(), f"{CANARY} {number}") for number in range(3)]

    settings.FIELD_ENCRYPTION_KEYS = (new, old)
    assert rotate() == {"changed": 3, "already_current": 0}
    assert rotate() == {"changed": 0, "already_current": 3}

    settings.FIELD_ENCRYPTION_KEYS = (new,)
    with all_firms("test"):
        stored = [MailCredential.objects.get(pk=row.pk) for row in rows]
    assert [decrypt_field(row, "refresh_token") for row in stored] == [
        f"{CANARY} {number}" for number in range(3)
    ]


def test_rotation_names_the_rows_whose_key_is_lost_and_does_the_others(settings: Settings) -> None:
    lost, old, new = new_key(), new_key(), new_key()
    settings.FIELD_ENCRYPTION_KEYS = (lost,)
    unreadable = credential_of(MailAccountFactory())
    settings.FIELD_ENCRYPTION_KEYS = (old,)
    credential_of(MailAccountFactory())
    settings.FIELD_ENCRYPTION_KEYS = (new, old)
    with pytest.raises(Refused, match=str(unreadable.pk)) as caught:
        call_command("rotate_keys", stdout=io.StringIO())
    assert "1 rows were encrypted again" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_new_key_is_usable() -> None:
    out = io.StringIO()
    call_command("rotate_keys", new_key=True, stdout=out)
    KeyRing([out.getvalue().strip()])
