"""The pages' own words are English, and say so, in a project of another language."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import operation_url

pytestmark = pytest.mark.req("O-03")

ENGLISH = {"lang": "en", "dir": "ltr"}
# Elements that no tag ends.
VOID = {"br", "hr", "img", "input", "link", "meta"}


class Cards(HTMLParser):
    """Notes the language and the direction of each card of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self._open: list[dict[str, str | None]] = [{}]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        said = {**self._open[-1], **{name: given[name] for name in ENGLISH if name in given}}
        if "queue-card" in (given.get("class") or "").split():
            self.found.append(said)
        if tag not in VOID:
            self._open.append(said)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and len(self._open) > 1:
            self._open.pop()


@pytest.mark.parametrize("language", ["ar", "de"])
def test_what_is_english_is_marked_as_english(
    firm_admin: Client, acme: FirmRows, settings: Settings, language: str
) -> None:
    settings.LANGUAGE_CODE = language
    rows = (acme.waiting, acme.dead_letter, acme.schedule, acme.bulk_run, acme.lock)
    addresses = [operation_url(row, "change") for row in rows]
    addresses += [operation_url(acme.dead_letter, "discard"), operation_url(acme.dead, "edit")]
    addresses += [reverse(f"admin:jobs_jobqueue_{page}") for page in ("new", "views")]
    addresses.append(reverse("admin:jobs_deadletterqueue_groups"))
    for address in addresses:
        page = firm_admin.get(address).content.decode()
        assert f'<html lang="{language}"' in page
        cards = Cards(page).found
        assert cards, address
        assert all(card == ENGLISH for card in cards), address
