"""Settings of answers that could have no effect are refused when they are entered."""

from __future__ import annotations

from typing import Any

import pytest

from mail.errors import ReplyInvalid
from mail.models import Contact, ReplySettings, ReplyStyle, ReplyTemplate
from mail.services.drafting.reply_rows import RowType, create_reply_row
from tenants.models import Firm

pytestmark = pytest.mark.django_db


def faults_of(model: type[RowType], firm: Firm, **settings: Any) -> list[str]:
    with pytest.raises(ReplyInvalid) as refused:
        create_reply_row(model, firm.pk, **settings)
    return [one["field"] for one in refused.value.errors]


@pytest.mark.parametrize("pattern", ["ann@", "@shop.example", "ann@shop@example", "ann smith"])
def test_a_contact_is_an_address_a_domain_or_a_pattern(firm: Firm, pattern: str) -> None:
    assert faults_of(Contact, firm, pattern=pattern, blocked=True) == ["pattern"]


@pytest.mark.parametrize("pattern", ["ann@shop.example", "shop.example", "*@*.shop.example"])
def test_each_form_of_the_documents_is_taken(firm: Firm, pattern: str) -> None:
    assert create_reply_row(Contact, firm.pk, pattern=pattern, blocked=True).pattern == pattern


@pytest.mark.parametrize("text", ["Hi {nope}", "Hi {Name}", "Hi { name }"])
def test_a_template_fills_in_what_it_knows_alone(firm: Firm, text: str) -> None:
    assert faults_of(ReplyTemplate, firm, name="t", text=text) == ["text"]
    known = "{name} {subject} {sign_off} {owner} {}"
    assert create_reply_row(ReplyTemplate, firm.pk, name="t", text=known).text == known


@pytest.mark.parametrize(
    ("model", "field", "more"),
    [
        (ReplySettings, "default_style", {}),
        (ReplyTemplate, "style", {"name": "t", "text": "Hi"}),
        (Contact, "style", {"pattern": "shop.example"}),
    ],
)
def test_a_style_has_to_be_there(
    firm: Firm, other_firm: Firm, model: type[RowType], field: str, more: dict[str, Any]
) -> None:
    create_reply_row(ReplyStyle, other_firm.pk, name="warm")
    assert faults_of(model, firm, **{field: "warm"}, **more) == [field]
    create_reply_row(ReplyStyle, firm.pk, name="warm")
    assert getattr(create_reply_row(model, firm.pk, **{field: "warm"}, **more), field) == "warm"
