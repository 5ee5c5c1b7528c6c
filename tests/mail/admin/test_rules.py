"""Rules in the admin: written as lines, tried, enabled, changed, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import Direction, MailAccount, MailLabel, Rule
from tenants.models import Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.mail_kit import Mailbox, letter, only, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-10", "M-22")]

WRITTEN = "any of:\n  not label: Paid\n  subject contains: invoice"
FORM: dict[str, Any] = {
    "name": "Invoices",
    "account_id": "",
    "scope": "global",
    "scope_ref": "",
    "conditions": WRITTEN,
    "category": "",
    "actions": "archive\napply_label: Clients",
    "priority": "100",
    "safe_mode": "default",
    "seen": "",
}


@pytest.fixture(autouse=True)
def paid(mailbox: Mailbox) -> None:
    """Store the label that the rules name."""
    with firm_scope(mailbox.firm):
        MailLabel.objects.create(account=mailbox.account, gmail_label_id="Label_7", name="Paid")


def browser_of(mailbox: Mailbox, role: Role = Role.ADMIN) -> Client:
    """Return a browser in which a member of the firm is signed in."""
    user = UserFactory(
        username=f"{role}@acme.example",
        is_staff=True,
        member_of=mailbox.firm,
        member_of__role=role,
    )
    client = Client()
    client.force_login(user)
    return client


def page(name: str, *args: Any) -> str:
    return reverse(f"admin:mail_rule_{name}", args=args)


def act(client: Client, name: str, rule: Rule, /, **answers: Any) -> Any:
    """Open an operation's page and send its form."""
    opened = client.get(page(name, rule.pk))
    assert opened.status_code == 200, opened.content
    seen = opened.context["seen"]
    return client.post(page(name, rule.pk), {**answers, "seen": seen}, follow=True)


def test_a_rule_is_written_tried_enabled_changed_and_deleted(mailbox: Mailbox) -> None:
    client = browser_of(mailbox)
    mailbox.receive(letter("Invoice 7"))
    mailbox.store_all()
    made = client.post(page("new"), FORM, follow=True)
    assert made.status_code == 200, made.content
    rule = only(stored(Rule))
    assert rule.conditions == {
        "op": "or",
        "children": [
            {"op": "not", "children": [{"type": "label_present", "label": "Paid"}]},
            {"type": "subject_contains", "value": "invoice"},
        ],
    }
    assert rule.actions[1] == {"action": "apply_label", "parameters": {"label": "Clients"}}

    assert client.get(page("enable", rule.pk)).status_code == 409
    tried = act(client, "try", rule, reason="")
    assert "Invoice 7" in tried.content.decode()
    assert act(client, "enable", rule, reason="").status_code == 200
    assert only(stored(Rule)).enabled

    form = client.get(page("edit", rule.pk)).context["form"]
    assert form.initial["conditions"] == WRITTEN
    assert form.initial["actions"] == FORM["actions"]
    changed = {**FORM, "category": "fyi", "reason": "as well"}
    changed.pop("seen")
    act(client, "edit", rule, **changed)
    rule = only(stored(Rule))
    assert (rule.category, rule.enabled) == ("fyi", False)

    gone = act(client, "remove", rule, reason="")
    assert gone.redirect_chain[-1][0] == page("changelist")
    assert stored(Rule) == []


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("conditions", "invoice", "line 1 has no colon"),
        ("conditions", "subject matches: (", "missing"),
        ("conditions", "label: Payed", "no label of any mailbox"),
        ("actions", "explode", "none of"),
        ("actions", "snooze {amount}", "not JSON"),
        ("scope", "domain", "domain"),
    ],
)
def test_what_cannot_be_used_is_said_at_its_field(
    mailbox: Mailbox, field: str, value: str, part: str
) -> None:
    answer = browser_of(mailbox).post(page("new"), {**FORM, field: value})
    assert answer.status_code == 400
    form = answer.context["form"]
    faults = [str(fault) for faults in form.errors.values() for fault in faults]
    assert any(part in fault for fault in faults), form.errors
    assert stored(Rule) == []


def test_others_see_rules_and_may_not_change_them(mailbox: Mailbox) -> None:
    browser_of(mailbox).post(page("new"), FORM)
    rule, client = only(stored(Rule)), browser_of(mailbox, Role.OPERATOR)
    assert client.get(page("change", rule.pk)).status_code == 200
    for name in ("try", "enable", "disable", "apply", "edit", "remove"):
        assert client.get(page(name, rule.pk)).status_code == 403
    answer = client.post(page("new"), {**FORM, "name": "Mine"})
    assert answer.status_code == 403
    assert only(stored(Rule)).name == "Invoices"


@pytest.mark.req("M-23")
def test_the_owner_of_a_mailbox_makes_rules_for_it_that_others_do_not_see(
    mailbox: Mailbox,
) -> None:
    owner, admin = browser_of(mailbox, Role.VIEWER), browser_of(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner_id=int(owner.session["_auth_user_id"]))
    own = {**FORM, "scope": "account", "account_id": str(mailbox.account.pk)}
    assert owner.post(page("new"), own, follow=True).status_code == 200
    rule = only(stored(Rule))
    assert act(owner, "try", rule, reason="").status_code == 200
    assert admin.get(page("change", rule.pk)).status_code == 404
    assert admin.post(page("new"), {**own, "name": "Spy"}).status_code == 400


@pytest.mark.req("M-23")
def test_the_page_of_a_rule_says_where_it_does_not_look(mailbox: Mailbox) -> None:
    client = browser_of(mailbox)
    client.post(page("new"), {**FORM, "conditions": "subject contains: invoice"})
    rule = only(stored(Rule))
    said = "It does not read mail in 1 private mailbox: admin@acme.example may not read it."
    assert said not in client.get(page("change", rule.pk)).content.decode()
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    assert said in client.get(page("change", rule.pk)).content.decode()
    act(client, "try", rule, reason="")
    act(client, "enable", rule, reason="")
    assert only(stored(Rule)).enabled_by.username == "admin@acme.example"
    colleague = browser_of(mailbox, Role.OPERATOR)
    assert said in colleague.get(page("change", rule.pk)).content.decode()


@pytest.mark.req("M-23")
def test_an_owner_takes_no_rule_or_direction_to_the_mail_of_others(mailbox: Mailbox) -> None:
    owner = browser_of(mailbox, Role.VIEWER)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner_id=int(owner.session["_auth_user_id"]))
    own = {"scope": "account", "account_id": str(mailbox.account.pk)}
    direction = {"text": "Call it FYI.", "kind": "direction", "scope_ref": "", "enabled": "on"}
    for model, form in ((Rule, FORM), (Direction, direction)):
        name = f"admin:mail_{model._meta.model_name}"
        made = owner.post(reverse(f"{name}_new"), {**form, **own}, follow=True)
        assert made.status_code == 200, made.content
        address = reverse(f"{name}_edit", args=[only(stored(model)).pk])
        everybodys = {**form, "scope": "global", "account_id": "", "reason": ""}
        seen = owner.get(address).context["seen"]
        assert owner.post(address, {**everybodys, "seen": seen}).status_code == 403
        assert only(stored(model)).account_id == mailbox.account.pk
        assert owner.post(address, {**form, **own, "reason": "", "seen": seen}).status_code == 302


@pytest.mark.req("M-23", "O-03")
def test_no_button_leads_to_a_rule_that_nobody_would_take(mailbox: Mailbox) -> None:
    mailbox.receive(letter("A question"))
    message = only(mailbox.store_all())
    admin, viewer = browser_of(mailbox), browser_of(mailbox, Role.VIEWER)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=True)
    mail = reverse("admin:mail_message_change", args=[message.pk])

    def offers(client: Any) -> list[bool]:
        new = reverse("admin:mail_rule_new")
        return [new in client.get(where).content.decode() for where in (page("changelist"), mail)]

    assert (offers(admin), offers(viewer)) == ([True, True], [False, False])
    assert viewer.get(page("new")).status_code == 403
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner_id=int(viewer.session["_auth_user_id"]))
    assert offers(viewer) == [True, True]
