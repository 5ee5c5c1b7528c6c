"""The sample's expected categories: complete, in the vocabulary, and the same in both places."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from mail.llm.base import Category
from tests.mail.sample.samples import all_samples, expected, inbox, readme_section

ROW = re.compile(r"^\| `([^`]+)` \| .+? \| (.+?) \|$", re.MULTILINE)
SENT_ROW = re.compile(r"^\| `([^`]+)` \| .+? \|$", re.MULTILINE)
FEWEST = {category: 2 if category is Category.WAITING else 5 for category in Category}


@pytest.mark.req("M-09")
def test_every_received_message_has_expected_categories_and_a_reason() -> None:
    assert list(expected()) == [sample.name for sample in inbox()]
    known = {category.value for category in Category}
    for name, row in expected().items():
        assert set(row.categories) <= known, name
        assert len(set(row.categories)) == len(row.categories), name
        assert row.why, name


@pytest.mark.req("M-09")
def test_every_category_is_shown_often_enough() -> None:
    best = Counter(row.categories[0] for row in expected().values())
    assert {category for category in Category if best[category.value] < FEWEST[category]} == set()


@pytest.mark.req("M-09")
def test_most_messages_leave_no_doubt() -> None:
    clear = [row for row in expected().values() if len(row.categories) == 1]
    assert len(clear) >= 0.7 * len(expected())


def test_the_readme_says_the_same_as_the_table_for_machines() -> None:
    rows = ROW.findall(readme_section("Inbox"))
    shown = {name: tuple(re.findall(r"`(\w+)`", categories)) for name, categories in rows}
    assert shown == {name: row.categories for name, row in expected().items()}


def test_the_readme_names_every_sent_message() -> None:
    sent = [sample.name for sample in all_samples() if not sample.received_mail]
    assert SENT_ROW.findall(readme_section("Sent")) == sent
