"""The six kinds of conditions of a routing rule, and which conditions are refused."""

from __future__ import annotations

from typing import Any

import pytest

from mail.errors import RoutingInvalid
from mail.rules.routing import RouteFacts, parse_match, route_matches

pytestmark = pytest.mark.req("M-08")

ORDER = RouteFacts(
    sender_address="Shop@Orders.example",
    subject="Your Order 17",
    headers=(
        ("list-id", "<shop.orders.example>"),
        ("X-Kind", "inquiry"),
        ("Reply-To", "Eva Malá <eva@buyer.example>"),
        ("X-Forwarded-From", "desk@shop.example"),
    ),
    text="---------- Forwarded message\nFrom: Jan <jan.novak@firm.example>\nHello",
)


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({"all": True}, True),
        ({"sender_email": "shop@orders.example"}, True),
        ({"sender_email": "SHOP@ORDERS.EXAMPLE"}, True),
        ({"sender_email": "hop@orders.example"}, False),
        ({"sender_domain": "Orders.Example"}, True),
        ({"sender_domain": "example"}, False),
        ({"sender_domain": "more.orders.example"}, False),
        ({"subject_contains": "oRDER 1"}, True),
        ({"subject_contains": "invoice"}, False),
        ({"header_match": {"List-Id": r"^<shop\."}}, True),
        ({"header_match": {"List-Id": "SHOP", "x-kind": "^inquiry$"}}, True),
        ({"header_match": {"List-Id": "shop", "X-Kind": "^order$"}}, False),
        ({"header_match": {"X-Missing": "."}}, False),
        ({"forwarded_from": "shop@orders.example"}, True),
        ({"forwarded_from": "eva@buyer.example"}, True),
        ({"forwarded_from": "Desk@Shop.example"}, True),
        ({"forwarded_from": "jan.novak@firm.example"}, True),
        ({"forwarded_from": "novak@firm.example"}, False),
        ({"forwarded_from": "jan.novak@firm.exam"}, False),
        ({"forwarded_from": "nobody@firm.example"}, False),
        ({"sender_domain": "orders.example", "subject_contains": "order"}, True),
        ({"sender_domain": "orders.example", "subject_contains": "invoice"}, False),
        ({"all": True, "subject_contains": "invoice"}, False),
    ],
    ids=str,
)
def test_all_that_is_given_must_hold(match: dict[str, Any], holds: bool) -> None:
    assert route_matches(parse_match(match), ORDER) is holds


def test_a_message_without_anything_matches_all_and_nothing_else() -> None:
    nothing = RouteFacts("", "", (), "")
    assert route_matches(parse_match({"all": True}), nothing)
    for match in ({"sender_domain": "x.example"}, {"forwarded_from": "a@x.example"}):
        assert not route_matches(parse_match(match), nothing)


@pytest.mark.parametrize(
    ("match", "field"),
    [
        ({}, "match"),
        (None, "match"),
        ([], "match"),
        ({"all": False}, "match.all"),
        ({"all": "yes"}, "match.all"),
        ({"all": 1}, "match.all"),
        ({"subject": "x"}, "match.subject"),
        ({"sender_email": "nobody"}, "match.sender_email"),
        ({"sender_email": "*@x.example"}, "match"),
        ({"sender_domain": "a@x.example"}, "match.sender_domain"),
        ({"subject_contains": ""}, "match.subject_contains"),
        ({"subject_contains": 7}, "match.subject_contains"),
        ({"header_match": {}}, "match.header_match"),
        ({"header_match": {"List-Id": "("}}, "match.header_match.List-Id"),
        ({"header_match": {"List-Id": "(?=x)"}}, "match.header_match.List-Id"),
        ({"header_match": {"List Id": "x"}}, "match.header_match.List Id.[key]"),
        ({"forwarded_from": "x.example"}, "match.forwarded_from"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named(match: Any, field: str) -> None:
    with pytest.raises(RoutingInvalid) as raised:
        parse_match(match)
    assert [fault["field"] for fault in raised.value.errors] == [field]
