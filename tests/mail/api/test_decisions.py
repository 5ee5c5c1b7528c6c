"""Decisions over REST: the firm sees what was decided, only readers of the mailbox see why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models.base import id_at
from jobs.testing import drain
from mail.models import Action, ContentGrant, Decision, MailAccount, Message
from mail.services.queueing import request_sync
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.factories.tenants import new_member
from tests.jobs.api.conftest import at, fields
from tests.mail.mail_kit import Mailbox, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-22")]

ROOT = "/api/v1/mail/"
CANARY = "Aubergine"
CONTENT = {"rationale", "explanations"}
OF_A_ROW = [
    "id", "firm", "account_id", "thread_id", "message_id", "source", "category", "confidence",
    "labelled", "rationale", "job_id", "created_at",
]  # fmt: skip


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role = Role.VIEWER, user: Any = None) -> None:
        self.user = user or new_member(firm, role, "")
        key = keys.issue(self.user, firm, role, lifetime=None, by=SERVICE)[0]
        self.headers = {"Authorization": f"Bearer {key}"}

    def get(self, path: str = "decisions/", **query: Any) -> Any:
        return Client().get(ROOT + path, query, headers=self.headers)

    def ids(self, **query: Any) -> list[str]:
        """Return the ids of the decisions that are listed."""
        answer = self.get(**query)
        assert answer.status_code == 200, answer.content
        return [row["id"] for row in answer.json()["results"]]


def decide(message: Message, **columns: Any) -> Decision:
    """Store a decision about the message, whose reasons quote it."""
    columns = {
        "source": "offline",
        "category": "fyi",
        "confidence": 0.75,
        "rationale": f"It offers one {CANARY}.",
        "explanations": {"salient_features": [CANARY], "labelled": True},
        **columns,
    }
    with firm_scope(message.firm_id):
        decision: Decision = Decision.objects.create(
            account_id=message.account_id, message=message, **columns
        )
    return decision


@pytest.fixture
def messages(mailbox: Mailbox) -> list[Message]:
    """Return two messages that nobody has judged."""
    mailbox.receive_many(2)
    mailbox.store_all()
    return mailbox.messages()


def close(mailbox: Mailbox, owner: Any = None) -> None:
    """Make the mailbox private, for this owner or for nobody."""
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner=owner)


def test_they_are_listed_and_shown_with_what_followed_from_them(mailbox: Mailbox) -> None:
    mailbox.receive()
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    (message,), (decision,) = mailbox.messages(), stored(Decision)
    api = Api(mailbox.firm)
    (row,) = api.get().json()["results"]
    shown = api.get(f"decisions/{decision.pk}/").json()
    assert list(row) == OF_A_ROW
    assert row.items() <= shown.items()
    assert shown.keys() - row.keys() == {"explanations", "action_ids"}
    assert (row["message_id"], row["thread_id"]) == (str(message.pk), str(message.thread_id))
    assert (row["source"], row["category"], row["labelled"]) == ("offline", "needs_response", True)
    assert (row["confidence"], row["rationale"]) == (decision.confidence, decision.rationale)
    assert row["job_id"] == str(decision.job_id)
    assert row["created_at"].endswith("Z")
    assert shown["explanations"] == decision.explanations
    asked = [str(one.pk) for one in stored(Action) if one.decision_id == decision.pk]
    assert shown["action_ids"] == asked != []
    assert api.get(f"actions/{asked[0]}/").json()["decision_id"] == str(decision.pk)


def test_a_verdict_too_unsure_for_a_label_says_so(
    mailbox: Mailbox, messages: list[Message]
) -> None:
    decision = decide(messages[0], explanations={"labelled": False}, rationale="", job_id=None)
    shown = Api(mailbox.firm).get(f"decisions/{decision.pk}/").json()
    assert (shown["labelled"], shown["rationale"], shown["job_id"]) == (False, None, None)
    assert (shown["explanations"], shown["action_ids"]) == ({"labelled": False}, [])


def test_they_are_filtered(mailbox: Mailbox, messages: list[Message]) -> None:
    (one, other), long_ago = messages, datetime(2020, 1, 1, tzinfo=UTC)
    old = decide(one, pk=id_at(long_ago), created_at=long_ago)
    new = decide(other, source="person", category="waiting")
    api = Api(mailbox.firm)
    assert api.ids() == [str(new.pk), str(old.pk)]
    soon = (long_ago + timedelta(seconds=1)).isoformat()
    for query in (
        {"message_id": one.pk}, {"thread_id": one.thread_id}, {"source": "offline"},
        {"category": "fyi"}, {"created_before": soon}, {"account_id": one.account_id, "source": "offline"},
        {"created_after": long_ago.isoformat(), "created_before": soon}, {"firm": "acme", "category": "fyi"},
    ):  # fmt: skip
        assert api.ids(**query) == [str(old.pk)], query
    assert api.ids(created_after=soon) == [str(new.pk)]
    for query in (
        {"message_id": uuid4()}, {"thread_id": uuid4()}, {"account_id": uuid4()}, {"source": "model"},
        {"category": "payment_request"}, {"created_before": long_ago.isoformat()},
        {"created_after": "2999-01-01"}, {"thread_id": one.thread_id, "message_id": other.pk},
    ):  # fmt: skip
        assert api.ids(**query) == [], query


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", "nobody"),
        ("category", "spam"),
        ("account_id", "1"),
        ("created_after", "yesterday"),
        ("cursor", "nonsense"),
        ("status", "new"),
    ],
)
def test_a_wrong_filter_is_named(field: str, value: str, mailbox: Mailbox) -> None:
    assert list(fields(Api(mailbox.firm).get(**{field: value}))) == [field]


def test_pages_hold_still_while_decisions_are_made(
    mailbox: Mailbox, messages: list[Message]
) -> None:
    made = [str(decide(messages[number % 2]).pk) for number in range(5)]
    api, seen, cursor = Api(mailbox.firm), [], {}
    while True:
        page = api.get(limit=2, **cursor).json()
        assert len(page["results"]) <= 2
        seen += [row["id"] for row in page["results"]]
        decide(messages[0])
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == made[::-1]


def test_a_longer_list_costs_no_more_queries(
    mailbox: Mailbox, messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first request of a minute deletes old throttle counters, which is one statement more.
    at(monkeypatch, 30)
    api = Api(mailbox.firm)

    def queries(rows: int) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert len(api.ids()) == rows
        return len(asked)

    decide(messages[0])
    api.ids()
    few = queries(1)
    for number in range(20):
        decide(messages[number % 2])
    assert queries(21) == few < 20


@pytest.mark.req("M-23")
@pytest.mark.parametrize("role", list(Role))
def test_who_may_not_read_the_mailbox_sees_what_was_decided_and_not_why(
    role: Role, mailbox: Mailbox, messages: list[Message]
) -> None:
    close(mailbox)
    decision = decide(messages[0])
    api = Api(mailbox.firm, role)
    for path in ("decisions/", f"decisions/{decision.pk}/"):
        answer = api.get(path)
        assert (answer.status_code, CANARY.encode() in answer.content) == (200, False), path
    shown = api.get(f"decisions/{decision.pk}/").json()
    assert {name for name in CONTENT if shown[name] is None} == CONTENT
    assert (shown["category"], shown["confidence"], shown["source"]) == ("fyi", 0.75, "offline")
    assert api.ids() == [str(decision.pk)]


@pytest.mark.req("M-23")
def test_the_owner_and_who_was_granted_the_mailbox_are_told_why(
    mailbox: Mailbox, messages: list[Message]
) -> None:
    owner, granted = (
        Api(mailbox.firm, user=new_member(mailbox.firm, Role.VIEWER, name))
        for name in ("owner", "granted")
    )
    close(mailbox, owner.user)
    decision = decide(messages[0])
    with firm_scope(mailbox.firm):
        ContentGrant.objects.create(
            account=mailbox.account, user=granted.user, kind="granted", granted_by="owner"
        )
    for api in (owner, granted):
        shown = api.get(f"decisions/{decision.pk}/").json()
        assert {name: shown[name] for name in CONTENT} == {
            "rationale": decision.rationale, "explanations": decision.explanations,
        }  # fmt: skip
        assert api.get().json()["results"][0]["rationale"] == decision.rationale


@pytest.mark.req("T-03")
def test_another_firm_finds_nothing(
    mailbox: Mailbox, messages: list[Message], other_firm: Firm
) -> None:
    decision = decide(messages[0])
    api = Api(other_firm, Role.ADMIN)
    for query in ({}, {"message_id": messages[0].pk}, {"thread_id": messages[0].thread_id}):
        assert api.ids(**query) == []
    for pk in (decision.pk, uuid4()):
        answer = api.get(f"decisions/{pk}/")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_nobody_writes_a_decision(mailbox: Mailbox, messages: list[Message]) -> None:
    decision = decide(messages[0])
    api = Api(mailbox.firm, Role.ADMIN)
    for path in ("decisions/", f"decisions/{decision.pk}/"):
        for method in ("post", "patch", "put", "delete"):
            answer = getattr(Client(), method)(ROOT + path, headers=api.headers)
            assert answer.status_code == 405, (method, path)
