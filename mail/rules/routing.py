"""The conditions of a routing rule: six kinds, of which all that are given must hold. Pure.

    {"all": true}
    {"sender_email": "ann@example.org"}
    {"sender_domain": "example.org"}
    {"subject_contains": "order"}
    {"header_match": {"List-Id": "shop", "X-Shop": "."}}      patterns in RE2's syntax
    {"forwarded_from": "shop@example.org"}     the sender, X-Forwarded-From, Reply-To or in the text

Upper and lower case are alike everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mail.errors import RoutingInvalid
from mail.rules.conditions import (
    PUBLIC_HEADERS,
    Address,
    Domain,
    HeaderName,
    Pattern,
    Text,
    compile_pattern,
)
from mail.rules.matching import MAX_TEXT_LENGTH
from mail.text.addresses import parse_addresses

MAX_HEADERS = 20


def _only_true(value: bool) -> bool:
    if not value:
        raise ValueError("can only be true")
    return value


class RouteMatch(BaseModel):
    """The conditions; what is None is not asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    all: Annotated[bool, AfterValidator(_only_true)] | None = None
    sender_email: Address | None = None
    sender_domain: Domain | None = None
    subject_contains: Text | None = None
    header_match: dict[HeaderName, Pattern] | None = Field(
        default=None, min_length=1, max_length=MAX_HEADERS
    )
    forwarded_from: Address | None = None

    @property
    def looks_into_mail(self) -> bool:
        """Whether it reads more of the mail than people without access to it may see."""
        private = {name.lower() for name in self.header_match or {}} - PUBLIC_HEADERS
        return bool(private) or self.subject_contains is not None or self.forwarded_from is not None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("has no condition; to match all mail say `all`")
        if any("*" in (address or "") for address in (self.sender_email, self.forwarded_from)):
            raise ValueError("takes whole addresses; for a domain say `sender_domain`")
        return self


@dataclass(frozen=True)
class RouteFacts:
    """The facts about a message that the conditions use."""

    sender_address: str
    subject: str
    headers: tuple[tuple[str, str], ...]
    text: str

    def header_values(self, name: str) -> tuple[str, ...]:
        """Return the values of a header, in order."""
        wanted = name.lower()
        return tuple(value for header, value in self.headers if header.lower() == wanted)


def parse_match(match: Any) -> RouteMatch:
    """Return the conditions, checked.

    Raises:
        RoutingInvalid: they cannot be used; `errors` says where and why.
    """
    try:
        return RouteMatch.model_validate(match, strict=True)
    except ValidationError as error:
        faults = [
            {
                "field": ".".join(["match", *(str(part) for part in one["loc"])]),
                "code": "invalid",
                "message": one["msg"].removeprefix("Value error, "),
            }
            for one in error.errors(include_url=False)
        ]
        raise RoutingInvalid(faults) from None


def route_matches(match: RouteMatch, facts: RouteFacts) -> bool:
    """Say whether every condition that is given holds."""
    sender = facts.sender_address.lower()
    asked = (
        (match.sender_email, lambda value: sender == value),
        (match.sender_domain, lambda value: "@" in sender and sender.rpartition("@")[2] == value),
        (match.subject_contains, lambda value: value.casefold() in _bounded(facts.subject)),
        (match.header_match, lambda value: _headers_match(value, facts)),
        (match.forwarded_from, lambda value: _is_forwarded_from(value, facts)),
    )
    return all(holds(value) for value, holds in asked if value is not None)


def _headers_match(wanted: dict[str, str], facts: RouteFacts) -> bool:
    return all(
        any(
            compile_pattern(pattern).search(value[:MAX_TEXT_LENGTH])
            for value in facts.header_values(name)
        )
        for name, pattern in wanted.items()
    )


def _is_forwarded_from(address: str, facts: RouteFacts) -> bool:
    named = {facts.sender_address.lower()}
    for header in ("X-Forwarded-From", "Reply-To"):
        named |= {one.key for one in parse_addresses(facts.header_values(header))}
    if address in named:
        return True
    # A whole address: not the end of a longer one, nor its beginning.
    whole = rf"(?<![\w.+-]){re.escape(address)}(?![\w-]|\.\w)"
    return re.search(whole, _bounded(facts.text)) is not None


def _bounded(text: str) -> str:
    return text[:MAX_TEXT_LENGTH].casefold()
