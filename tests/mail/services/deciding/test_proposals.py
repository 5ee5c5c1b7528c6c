"""Actions that a model proposes: offered if asked for, checked, then done or put to approval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from mail.labels import PAUSE_LABEL
from mail.llm.proposals import MAX_PROPOSALS, NO_ACTION, NO_LIST, ODD_FIELDS, TOO_MANY
from mail.models import (
    Action,
    ActionStatus,
    Approval,
    Decision,
    Direction,
    DirectionKind,
    MailAccount,
    MailLabel,
    Message,
    Mode,
    PausedBy,
    Rule,
    Scope,
)
from mail.services.approvals.notice import all_facts_of
from mail.services.deciding import classify, proposals
from mail.services.deciding.proposals import (
    ASKED_BEFORE,
    CONTRADICTED,
    DISCARDED,
    NOT_NOW,
    UNKNOWN_LABEL,
)
from mail.services.deciding.requests import enqueue_order
from mail.services.mailboxes.content_access import grant_content
from mail.services.rules.directions import change_direction, create_direction
from tenants.audit import Actor
from tenants.models import Role
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import new_member
from tests.mail.llm.model_server import ModelServer, model_server
from tests.mail.mail_kit import Mailbox, drain, letter, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-11", "M-13")]

FYI = {"category": "fyi", "confidence": 0.9, "rationale": "A notice."}


@pytest.fixture(params=["anthropic", "openai"])
def server(request: pytest.FixtureRequest, settings: Settings) -> Iterator[ModelServer]:
    """Serve a model, and let the product use it by either SDK."""
    with model_server() as served:
        settings.LLM_PROVIDER = request.param
        settings.LLM_MODEL = "model-1"
        settings.LLM_API_KEY = "sk-1"
        settings.LLM_BASE_URL = served.url
        yield served


@pytest.fixture
def invoices(mailbox: Mailbox) -> str:
    """Return the id of a label that the person says is for invoices."""
    return labelled(mailbox, "Invoices", description="Bills of our suppliers")


@pytest.fixture
def rule(mailbox: Mailbox) -> Direction:
    """Return the firm's rule for the model."""
    return create_direction(
        mailbox.firm.pk, kind=DirectionKind.LLM_RULE, text="Archive what GitHub writes."
    )


def labelled(mailbox: Mailbox, name: str, **fields: Any) -> str:
    """Create a label in the mailbox, and store it; return Gmail's id."""
    label_id = str(mailbox.gmail.create_label(name)["id"])
    with firm_scope(mailbox.firm):
        MailLabel.objects.create(
            account=mailbox.account, gmail_label_id=label_id, name=name, **fields
        )
    return label_id


def proposal(action: str, **fields: Any) -> dict[str, Any]:
    return {"action": action, "confidence": 0.9, "rationale": "Your rule.", **fields}


def judged(mailbox: Mailbox, server: ModelServer, *actions: Any) -> str:
    """Let a message arrive for which the model proposes these actions; return Gmail's id."""
    server.answers = [{**FYI, "actions": list(actions)}]
    # Each message differs, because Gmail would store equal ones only once.
    number = len(server.asked)
    arrived = mailbox.receive(letter(f"Notice {number}", List_Id="<news.example>"))
    mailbox.store_all()
    drain()
    return arrived


def asked_for() -> list[tuple[str, str]]:
    """Return the actions, with their statuses, except those of Mailroom's own labels."""
    found = [one for one in stored(Action) if "🤖" not in str(one.parameters)]
    return sorted((one.action_type, one.status) for one in found)


def told(server: ModelServer) -> str:
    """Return the last request to the model as text."""
    return json.dumps(server.asked[-1], ensure_ascii=False)


def test_without_a_word_of_the_persons_no_action_is_offered_or_taken(
    mailbox: Mailbox, server: ModelServer
) -> None:
    labelled(mailbox, "Private matters")
    judged(mailbox, server, proposal("archive"), proposal("trash"))
    assert "Private matters" not in told(server)
    assert "apply_label" not in told(server)
    assert asked_for() == []
    assert "actions" not in only(stored(Decision)).explanations


@pytest.mark.req("M-07", "M-09")
def test_a_label_that_is_described_is_put_on(
    mailbox: Mailbox, server: ModelServer, invoices: str
) -> None:
    labelled(mailbox, "Secret plans", available_to_classifier=False)
    arrived = judged(mailbox, server, proposal("apply_label", label="invoices"))
    said = told(server)
    assert "Bills of our suppliers" in said
    assert "Secret plans" not in said
    assert "🤖" not in said
    assert "Invoices" in mailbox.labels(arrived)
    assert asked_for() == [("apply_label", "completed")]
    decision = only(stored(Decision))
    action = next(one for one in stored(Action) if one.parameters == {"label": invoices})
    assert action.decision_id == decision.pk
    assert decision.explanations["actions"] == [
        {
            "action": "apply_label",
            "label": "invoices",
            "confidence": 0.9,
            "rationale": "Your rule.",
            "needs_approval": False,
        }
    ]


@pytest.mark.req("M-15")
def test_a_rule_in_words_is_followed(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    arrived = judged(mailbox, server, proposal("archive"), proposal("mark_read"))
    assert "Archive what GitHub writes." in told(server)
    assert mailbox.labels(arrived).isdisjoint({"INBOX", "UNREAD"})
    assert asked_for() == [("archive", "completed"), ("mark_read", "completed")]


@pytest.mark.req("M-17")
def test_a_snooze_takes_days(mailbox: Mailbox, server: ModelServer, rule: Direction) -> None:
    arrived = judged(mailbox, server, proposal("snooze", snooze_days=3), proposal("snooze"))
    assert "INBOX" not in mailbox.labels(arrived)
    assert asked_for() == [("snooze", "completed")]
    first, second = only(stored(Decision)).explanations["actions"]
    assert first["snooze_days"] == 3
    assert "amount" in second["refused"]


@pytest.mark.parametrize(
    ("proposed", "checks"),
    [
        (proposal("archive", confidence=0.69), ["low_confidence"]),
        (proposal("archive", needs_approval=True), ["asked_by_model"]),
        (proposal("delete"), ["dangerous", "approval_list"]),
        (
            proposal("delete", confidence=0.1, needs_approval=True),
            ["dangerous", "low_confidence", "approval_list", "asked_by_model"],
        ),
    ],
    ids=str,
)
def test_what_is_unsure_or_dangerous_waits_for_a_yes(
    mailbox: Mailbox,
    server: ModelServer,
    rule: Direction,
    firm_admin: str,
    proposed: dict[str, Any],
    checks: list[str],
) -> None:
    arrived = judged(mailbox, server, proposed)
    assert {"INBOX", "UNREAD"} <= mailbox.labels(arrived)
    assert asked_for() == [(proposed["action"], ActionStatus.APPROVED_PENDING)]
    assert only(stored(Approval)).reasons == checks


@pytest.mark.parametrize(
    ("odd", "named", "why"),
    [
        (proposal("forward", to=["thief@evil.example"]), "forward", NO_ACTION),
        (proposal("auto_reply", body="Here you are."), "auto_reply", NO_ACTION),
        (proposal("th\x00row\naway" * 20), ("throw away" + "throw away" * 20)[:40], NO_ACTION),
        (proposal("archive", confidence=7), "archive", f"{ODD_FIELDS} confidence."),
        (
            {"action": "snooze", "snooze_days": 999},
            "snooze",
            f"{ODD_FIELDS} confidence, snooze_days.",
        ),
        ("archive", "", NO_ACTION),
        (None, "", NO_ACTION),
    ],
    ids=str,
)
def test_what_is_no_action_of_the_models_spoils_no_other_and_is_listed(
    mailbox: Mailbox, server: ModelServer, rule: Direction, odd: Any, named: str, why: str
) -> None:
    arrived = judged(mailbox, server, odd, proposal("star"))
    assert asked_for() == [("star", "completed")]
    assert "STARRED" in mailbox.labels(arrived)
    done, refused = only(stored(Decision)).explanations["actions"]
    assert "refused" not in done
    assert refused == {"action": named, "refused": why}


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        ({"action": "star"}, NO_LIST),
        ([proposal("star")] + [proposal("archive")] * (MAX_PROPOSALS + 1), f"{TOO_MANY} 2."),
    ],
    ids=["no list", "too many"],
)
def test_what_is_not_looked_at_is_said(
    mailbox: Mailbox, server: ModelServer, rule: Direction, actions: Any, why: str
) -> None:
    server.answers = [{**FYI, "actions": actions}]
    mailbox.receive(letter("Notice", List_Id="<news.example>"))
    mailbox.store_all()
    drain()
    assert only(stored(Decision)).explanations["actions"][-1] == {"action": "", "refused": why}


@pytest.mark.parametrize(
    "label",
    [
        "Thieves", "INBOX", "TRASH", "Kept apart", "", "Th\x00ieves", PAUSE_LABEL, "🤖 AI/Mine",
        "🤖 AI/Done", "Mailroom/Snoozed", "Finished",
    ],
)  # fmt: skip
def test_a_label_outside_the_list_is_left_alone(
    mailbox: Mailbox, server: ModelServer, invoices: str, label: str
) -> None:
    labelled(mailbox, "Kept apart", available_to_classifier=False)
    for own in (PAUSE_LABEL, "🤖 AI/Mine", "Mailroom/Snoozed"):
        labelled(mailbox, own, description="Whatever you like")
    labelled(mailbox, "Finished", key="done", description="Whatever is done")
    judged(mailbox, server, proposal("apply_label", label=label), proposal("star"))
    assert asked_for() == [("star", "completed")]
    explained, _ = only(stored(Decision)).explanations["actions"]
    assert explained["refused"] == UNKNOWN_LABEL
    # The character NUL is removed, because PostgreSQL cannot store it.
    assert "\x00" not in explained["label"]
    assert mailbox.reload().paused_by == PausedBy.NOTHING
    for unsaid in ("🤖", "Snoozed", "Kept apart", "Finished"):
        assert unsaid not in told(server)


@pytest.mark.parametrize(
    ("given", "meant"), [(" paid ", "paid"), ("PAID", "PAID"), ("Paid", "PAID")]
)
def test_a_label_is_meant_by_its_exact_name_first(
    mailbox: Mailbox, server: ModelServer, given: str, meant: str
) -> None:
    with firm_scope(mailbox.firm):
        for name, purpose in (("PAID", "Of suppliers"), ("paid", "Of customers")):
            MailLabel.objects.create(
                account=mailbox.account,
                gmail_label_id=f"Label_{name}",
                name=name,
                description=purpose,
            )
    judged(mailbox, server, proposal("apply_label", label=given, needs_approval=True))
    assert only(stored(Approval, select_related=("action",))).action.parameters == {
        "label": f"Label_{meant}"
    }


def test_described_labels_are_told_first(
    mailbox: Mailbox, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MAX_LABELS", 2)
    for name in ("Apples", "Bananas", "Cherries"):
        labelled(mailbox, name)
    labelled(mailbox, "Zoo", description="Animals")
    judged(mailbox, server, proposal("apply_label", label="Cherries"))
    assert [name in told(server) for name in ("Zoo", "Apples", "Bananas")] == [True, True, False]
    (explained,) = only(stored(Decision)).explanations["actions"]
    assert explained["refused"] == UNKNOWN_LABEL


def test_no_more_than_five_are_taken(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    judged(mailbox, server, *[proposal("star")] * 5, proposal("archive"))
    assert asked_for() == [("star", "completed")]
    explained = only(stored(Decision)).explanations["actions"]
    refusals = [one.get("refused", "") for one in explained]
    assert refusals == ["", *[CONTRADICTED] * 4, f"{TOO_MANY} 1."]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("star", "unstar"),
        ("mark_read", "mark_unread"),
        ("archive", "trash"),
        ("trash", "delete"),
        ("snooze", "archive"),
        ("apply_label", "remove_label"),
    ],
)
def test_of_proposals_about_the_same_the_first_is_taken(
    mailbox: Mailbox, server: ModelServer, invoices: str, first: str, second: str
) -> None:
    fields = {"label": "Invoices", "snooze_days": 2}
    judged(mailbox, server, proposal(first, **fields), proposal(second, **fields))
    assert asked_for() == [(first, "completed")]
    _, explained = only(stored(Decision)).explanations["actions"]
    assert explained["refused"] == CONTRADICTED


def test_what_models_write_into_fields_they_do_not_need_is_left_out(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    nothing = {"label": None, "snooze_days": None, "needs_approval": None, "rationale": None}
    judged(
        mailbox, server, proposal("archive", **nothing), proposal("star", snooze_days=0, label=7)
    )
    assert asked_for() == [("archive", "completed"), ("star", "completed")]


def test_an_answer_with_five_actions_may_be_longer(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    judged(mailbox, server, proposal("star", rationale="So. " * 300))
    (explained,) = only(stored(Decision)).explanations["actions"]
    assert len(explained["rationale"]) <= 200
    most = server.asked[-1].get("max_tokens") or server.asked[-1].get("max_completion_tokens")
    assert most == 1500


def test_mail_that_was_trashed_meanwhile_is_left_alone(
    mailbox: Mailbox, server: ModelServer, rule: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = classify.judge

    def judge_slowly(case: Any, classifier: Any) -> Any:
        verdict = judge(case, classifier)
        with firm_scope(mailbox.firm):
            Message.objects.filter(pk=case.target.pk).update(labels=["TRASH"])
        return verdict

    monkeypatch.setattr(classify, "judge", judge_slowly)
    judged(mailbox, server, proposal("star"))
    assert asked_for() == []
    (explained,) = only(stored(Decision)).explanations["actions"]
    assert explained["refused"] == DISCARDED


def test_what_a_rule_does_is_not_asked_for_again(
    mailbox: Mailbox, server: ModelServer, invoices: str
) -> None:
    actions = [
        {"action": "apply_label", "parameters": {"label": "Invoices"}},
        {"action": "star", "parameters": {}},
    ]
    with firm_scope(mailbox.firm):
        Rule.objects.create(
            name="Notices",
            conditions={"type": "subject_contains", "value": "Notice"},
            actions=actions,
            enabled=True,
        )
    judged(
        mailbox, server, proposal("apply_label", label="Invoices", confidence=0.1), proposal("star")
    )
    assert asked_for() == [("apply_label", "completed"), ("star", "completed")]
    explained = only(stored(Decision)).explanations["actions"]
    assert [one["refused"] for one in explained] == [ASKED_BEFORE] * 2
    assert stored(Approval) == []


def test_a_mailbox_is_asked_twenty_questions_at_most(
    mailbox: Mailbox, server: ModelServer, rule: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MAX_OPEN_QUESTIONS", 2)
    for _ in range(3):
        judged(mailbox, server, proposal("delete"), proposal("star"))
    assert [one.reasons for one in stored(Approval)] == [["dangerous", "approval_list"]] * 2
    assert asked_for().count(("star", "completed")) == 3
    last = stored(Decision)[-1].explanations["actions"][0]
    assert "already wait for approval" in last["refused"]


@pytest.mark.req("M-14")
def test_a_question_says_what_it_is_about_and_why(
    mailbox: Mailbox, server: ModelServer, invoices: str
) -> None:
    judged(
        mailbox,
        server,
        proposal("apply_label", label="invoices", confidence=0.5, rationale="It has a total."),
        proposal("snooze", snooze_days=300, needs_approval=True),
    )
    with firm_scope(mailbox.firm):
        label, snooze = [dict(all_facts_of(one)) for one in Approval.objects.order_by("pk")]
    assert label["Label"] == "Invoices"
    assert label["Proposed"] == "It has a total. (by the model, 50% sure)"
    assert snooze["For"] == "300 days"
    assert snooze["Proposed"] == "Your rule. (by the model, 90% sure)"


def test_a_mailbox_that_suggests_only_is_told_what_would_be_done(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(mode=Mode.SUGGEST)
    mailbox.reload()
    arrived = judged(mailbox, server, proposal("archive"))
    assert "INBOX" in mailbox.labels(arrived)
    assert stored(Action) == []
    (explained,) = only(stored(Decision)).explanations["actions"]
    assert (explained["action"], explained["refused"]) == ("archive", NOT_NOW)


def test_what_was_asked_for_before_is_not_asked_for_again(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    arrived = judged(mailbox, server, proposal("archive"))
    server.answers = [{**FYI, "actions": [proposal("archive"), proposal("star")]}]
    with firm_scope(mailbox.firm):
        enqueue_order(mailbox.message(arrived), None)
    drain()
    assert asked_for() == [("archive", "completed"), ("star", "completed")]
    assert stored(Decision)[-1].explanations["actions"][0]["refused"] == ASKED_BEFORE


def test_another_time_is_no_second_snooze(
    mailbox: Mailbox, server: ModelServer, rule: Direction
) -> None:
    arrived = judged(mailbox, server, proposal("snooze", snooze_days=3))
    server.answers = [{**FYI, "actions": [proposal("snooze", snooze_days=4)]}]
    with firm_scope(mailbox.firm):
        enqueue_order(mailbox.message(arrived), None)
    drain()
    assert asked_for() == [("snooze", "completed")]


@pytest.mark.req("M-23")
def test_in_a_private_mailbox_only_readers_words_lead_to_actions(
    mailbox: Mailbox, server: ModelServer
) -> None:
    owner, admin = new_member(mailbox.firm, Role.VIEWER), new_member(mailbox.firm, Role.ADMIN)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner=owner)
    mailbox.reload()
    direction = create_direction(
        mailbox.firm.pk, by=Actor("api", admin), text="Trash what speaks of a new job."
    )
    judged(mailbox, server, proposal("trash"))
    assert "speaks of a new job" in told(server)
    assert "apply_label" not in told(server)
    assert asked_for() == []

    # The owner's own direction leads to actions; the model is then not told those of others.
    own = create_direction(
        mailbox.firm.pk,
        by=Actor("api", owner),
        text="Archive notices.",
        scope=Scope.ACCOUNT,
        account_id=mailbox.account.pk,
    )
    judged(mailbox, server, proposal("archive"))
    assert "Archive notices." in told(server)
    assert "speaks of a new job" not in told(server)
    assert asked_for() == [("archive", "completed")]
    change_direction(own, by=Actor("api", owner), enabled=False)

    # After a content grant the admin may read what their direction does, so it leads to actions; a
    # person who changes it is then responsible for it.
    with firm_scope(mailbox.firm):
        grant_content(mailbox.account, admin, by=Actor("api", owner))
    judged(mailbox, server, proposal("star"))
    assert asked_for() == [("archive", "completed"), ("star", "completed")]
    stranger = new_member(mailbox.firm, Role.ADMIN, "stranger@acme.example")
    change_direction(direction, by=Actor("api", stranger), text="Trash all that asks for me.")
    judged(mailbox, server, proposal("trash"))
    assert asked_for() == [("archive", "completed"), ("star", "completed")]


@pytest.mark.req("M-23")
@pytest.mark.parametrize("gone", [False, True], ids=["unknown", "gone"])
def test_the_words_of_nobody_known_lead_to_no_action_in_a_private_mailbox(
    mailbox: Mailbox, server: ModelServer, *, gone: bool
) -> None:
    owner, admin = new_member(mailbox.firm, Role.VIEWER), new_member(mailbox.firm, Role.ADMIN)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner=owner)
    mailbox.reload()
    create_direction(
        mailbox.firm.pk,
        by=Actor("api", admin) if gone else Actor("cli"),
        text="Trash what speaks of a new job.",
        scope=Scope.ACCOUNT,
        account_id=mailbox.account.pk,
    )
    if gone:
        with all_firms("test"):
            admin.delete()
    judged(mailbox, server, proposal("trash"))
    assert asked_for() == []
