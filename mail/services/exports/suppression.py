"""Keeps erased persons out: a sync checks mail against keyed hashes of their addresses."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from itertools import chain
from pathlib import PurePath

from django.db.models.functions import Now

from mail.models import SuppressionList
from mail.services.exports.subjects import BEFORE, CODED_AT
from mail.text.parsed import ParsedMail
from mail.text.words import UNSPACED
from tenants.encryption import decrypt_field, encrypt_field

KEY_BYTES = 32
_ADDRESS = re.compile(
    r"([^\s<>()\[\]\\,;:\"@=|]{1,64})@([\w-]{1,63}(?:\.[\w-]{1,63}){0,7}\.\w[\w-]{0,62})(?<!-)"
)
_CODED_AT = re.compile("|".join(map(re.escape, CODED_AT)), re.IGNORECASE)
_BEGINNING = re.compile(f"{BEFORE}(?!$)")
# The domain before the words that follow it in a text without spaces between words.
_SHORTER = re.compile(rf".*\.(?:(?!{UNSPACED})[\w-])+(?={UNSPACED})")


class Suppression:
    """A firm's suppression list as it is now. Must be created in the firm's scope."""

    def __init__(self, firm_id: int) -> None:
        row: SuppressionList | None = SuppressionList.objects.filter(firm_id=firm_id).first()
        self._digests = frozenset(row.digests if row is not None else ())
        self._key = decrypt_field(row, "key") if row is not None and row.digests else ""

    def mentions_erased(self, mail: ParsedMail) -> bool:
        """Say whether the message names an erased person, as sender, recipient or in its text."""
        headers = (value for _, value in mail.headers)
        # Long headers are stored cut off, but the addresses in them are stored whole.
        people = (one.address for one in (*mail.to, *mail.cc, *mail.bcc))
        files = [one.filename for one in mail.attachments]
        # With and without the extension, because it looks like the end of a domain.
        names = (*files, *(PurePath(name).stem for name in files))
        texts = (mail.text, mail.html or "", mail.hidden_text, mail.subject)
        return self.names_erased(chain(headers, people, names, texts))

    def names_erased(self, texts: Iterable[str]) -> bool:
        """Say whether one of the texts names an erased person."""
        return bool(self._digests) and any(
            _digest(self._key, one) in self._digests for one in addresses_in(texts)
        )


def addresses_in(texts: Iterable[str]) -> set[str]:
    """Return every address that a text may mean by what looks like one, in lower case.

    In `*anna@customer.example*`, for example, the asterisk may be part of the address or not.
    """
    return {
        f"{local[begin:]}@{end}".lower()
        for text in texts
        for local, domain in _ADDRESS.findall(_CODED_AT.sub("@", text))
        for begin in {0, *(found.start() for found in _BEGINNING.finditer(local))}
        for end in {domain, *(found[0] for found in _SHORTER.finditer(domain))}
    }


def suppress(firm_id: int, address: str) -> None:
    """Put the address, in lower case, on the firm's list. Must run in the firm's scope."""
    row: SuppressionList | None = (
        SuppressionList.objects.select_for_update(no_key=True).filter(firm_id=firm_id).first()
    )
    if row is None:
        new = SuppressionList(firm_id=firm_id)
        encrypt_field(new, "key", secrets.token_hex(KEY_BYTES))
        SuppressionList.objects.bulk_create([new], ignore_conflicts=True)
        row = SuppressionList.objects.select_for_update(no_key=True).get(firm_id=firm_id)
    digest = _digest(decrypt_field(row, "key"), address)
    if digest not in row.digests:
        row.digests.append(digest)
        row.changed_at = Now()
        row.save(update_fields=["digests", "changed_at"])


def _digest(key: str, address: str) -> str:
    return hmac.new(key.encode(), address.encode(), hashlib.sha256).hexdigest()
