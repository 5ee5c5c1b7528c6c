"""A list answers only parameters that it declares, so nobody can search for what is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client, RequestFactory
from django.urls import reverse
from unfold.contrib.filters.admin import TextFilter

from interfaces.admin.filters import LinkFilter
from tenants.admin.user import UserAdmin
from tenants.models import AuditEntry
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.jobs.admin.conftest import FirmRows, url_name
from tests.jobs.admin.pages import messages_of, now

pytestmark = pytest.mark.req("O-03", "T-03")

JOBS = reverse("admin:jobs_jobqueue_changelist")
USERS = reverse("admin:auth_user_changelist")
# For some lists a lookup of something that their pages mask or hide, and how its value begins.
HIDDEN = [
    ("jobs_jobqueue", "payload__token__startswith", "hunter"),
    ("jobs_jobqueue", "payload__args__0__startswith", "hunter"),
    ("jobs_jobqueue", "result__token__startswith", "hunter"),
    ("jobs_deadletterqueue", "original_job__payload__token__startswith", "hunter"),
    ("jobs_schedule", "payload__text__startswith", "secret"),
    ("tenants_apikey", "key_hash__regex", "^[0-9a-f]"),
    ("tenants_apikey", "user__password__startswith", "!"),
    ("tenants_membership", "user__password__startswith", "!"),
    ("tenants_membership", "user__is_superuser__exact", "0"),
    ("tenants_firm", "membership__user__password__startswith", "!"),
]
EVERY_LIST = [
    pytest.param(model_admin, id=model._meta.label)
    for model, model_admin in admin.site._registry.items()
]


def listing(model_admin: Any) -> str:
    return reverse(f"admin:{url_name(model_admin.model)}_changelist")


def refused(client: Client, address: str, query: dict[str, Any], parameter: str) -> str:
    """Ask with this query; return the page that refuses it and names the parameter."""
    answer = client.get(address, query)
    assert answer.status_code == 400, (address, query)
    assert "cl" not in answer.context
    assert answer.context["parameter"] == parameter
    text = answer.content.decode()
    assert "Nothing was changed" in text
    assert "Overview" in text  # the page has the admin's sidebar
    return text


def said(text: str) -> str:
    """Return the text of a refusal without its frame, which has a new token each time."""
    return text.partition("<code>")[2]


def guess_in_vain(client: Client, name: str, lookup: str, beginning: str) -> None:
    """Check that a right and a wrong guess at something hidden get the same answer."""
    address = reverse(f"admin:{name}_changelist")
    right, wrong = (
        said(refused(client, address, {lookup: guess}, lookup))
        for guess in (beginning, f"{beginning}XXX")
    )
    assert right == wrong
    assert "The list has no such parameter. Known are " in right


def choices(model_admin: Any) -> Iterator[tuple[str, list[str]]]:
    """Return the list's dropdowns with the values that each offers, without those set by links."""
    for declared in model_admin.list_filter:
        if not issubclass(declared, (TextFilter, LinkFilter)):
            unfiltered = RequestFactory().get("/")
            options = declared.lookups(declared.__new__(declared), unfiltered, None)
            yield declared.parameter_name, [value for value, _ in options]


def test_a_filter_is_named_by_its_title(staff: Client) -> None:
    page = staff.get(reverse("admin:jobs_jobqueue_changelist"))
    labels = [
        field.label
        for spec in page.context["cl"].filter_specs
        for choice in spec.choices(page.context["cl"])
        for field in choice["form"].fields.values()
    ]
    assert labels[:2] == ["Status", "Held back by"]
    assert "On behalf of (user)" in labels
    assert labels == [label for label in labels if not label.strip().startswith("By ")]


def test_filters_are_applied_from_the_first_page_on(staff: Client) -> None:
    address = reverse("admin:jobs_jobqueue_changelist")
    page = staff.get(address, {"p": "1", "q": "type:noop"}).content.decode()
    form = page.partition('id="filter-form"')[2].partition("</form>")[0]
    assert '<input type="hidden" name="q" value="type:noop">' in form
    assert 'name="p"' not in form


def test_a_right_and_a_wrong_guess_at_what_is_hidden_are_answered_alike(
    member: Client, operator: Client, acme: FirmRows
) -> None:
    secret = {"token": "hunter2", "args": ["hunter2"]}
    JobQueueFactory(firm=acme.firm, payload=secret, result=secret)
    for client in (member, operator):
        for name, lookup, beginning in HIDDEN:
            guess_in_vain(client, name, lookup, beginning)


def test_what_an_act_changed_is_not_found_by_guessing(firm_admin: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        AuditEntry.objects.create(
            firm=acme.firm,
            act="job.test",
            door="admin",
            target_type="job",
            target_id="1",
            before={"token": "hunter2"},
            after={"token": "hunter2"},
        )
    for column in ("before", "after"):
        guess_in_vain(firm_admin, "tenants_auditentry", f"{column}__token__startswith", "hunter")


@pytest.mark.parametrize("model_admin", EVERY_LIST)
def test_no_list_takes_what_it_does_not_declare(staff: Client, model_admin: Any) -> None:
    for name in ("e", "o", "all", "_facets", "_popup", "pk__gt", "password__startswith"):
        refused(staff, listing(model_admin), {name: "1"}, name)


@pytest.mark.parametrize("model_admin", EVERY_LIST)
def test_every_list_takes_what_it_declares(staff: Client, model_admin: Any) -> None:
    for name, values in choices(model_admin):
        for value in ("", values[0], values[-1]):
            assert staff.get(listing(model_admin), {name: value}).status_code == 200, (name, value)
        text = refused(staff, listing(model_admin), {name: "no-such-value"}, name)
        assert f"must be one of {values[0]}" in text
        refused(staff, listing(model_admin), {name: [values[0], values[-1]]}, name)
    assert staff.get(listing(model_admin), {"p": "1"}).status_code == 200


def test_what_no_list_can_answer_is_refused(member: Client, acme: FirmRows) -> None:
    for page in ("", "0", "-1", "x", "1.5", "²", "9" * 10, "9" * 5000):
        refused(member, JOBS, {"p": page}, "p")
    for query in (
        {"last_error__regex": "("},
        {"payload__name__regex": "("},
        {"payload__foo__bar__contains": "1"},
        {"q": "\0"},
        {"firm": "\0"},
        {"user": "\0"},
    ):
        refused(member, JOBS, query, next(iter(query)))


def test_what_is_refused_is_named_as_text_and_not_as_markup(member: Client, acme: FirmRows) -> None:
    text = refused(member, JOBS, {"<script>": "1"}, "<script>")
    assert "<code>&lt;script&gt;</code>" in text


@pytest.mark.parametrize("term", ["\0", "no-such-name"])
def test_a_choice_that_no_row_can_have_is_offered_none(staff: Client, term: str) -> None:
    asked = {"app_label": "tenants", "model_name": "membership", "field_name": "user"}
    answer = staff.get(reverse("admin:autocomplete"), {**asked, "term": term})
    assert (answer.status_code, answer.json()["results"]) == (200, [])


def test_a_page_past_the_end_of_a_counted_list_is_refused(
    staff: Client, member: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UserAdmin, "list_per_page", 1)
    assert staff.get(USERS, {"p": "2"}).status_code == 200
    refused(staff, USERS, {"p": "7"}, "p")


def test_a_firm_out_of_sight_is_refused_like_one_that_is_not_there(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    foreign, unknown = (
        said(refused(member, JOBS, {"firm": slug}, "firm")) for slug in ("globex", "no-such-firm")
    )
    assert foreign == unknown
    assert member.get(JOBS, {"firm": "acme"}).status_code == 200


@pytest.mark.parametrize(
    ("query", "ids"), [("?payload__token=1", None), ("?e=1", None), ("", "no-id"), ("", "9" * 40)]
)
def test_a_refused_address_acts_on_nothing(
    operator: Client, acme: FirmRows, query: str, ids: str | None
) -> None:
    chosen = {"action": "retry", "_selected_action": ids or str(acme.dead.pk), "index": "0"}
    answer = operator.post(f"{JOBS}{query}", chosen)
    assert answer.status_code == 400
    assert "nothing was changed" in answer.content.decode().lower()
    # The answer has no rows to confirm, so sending its form does nothing.
    sent = {name: answer.context.get(name, "") for name in ("ids", "seen")}
    answer = operator.post(reverse("admin:jobs_jobqueue_bulk_retry"), {**sent, "reason": ""})
    assert "nothing was done" in messages_of(answer)
    assert now(acme.dead).status == "dlq"


def test_a_form_that_is_too_large_says_how_large_it_may_be(
    operator: Client, acme: FirmRows
) -> None:
    address = reverse("admin:jobs_deadletterqueue_reprocess", args=[acme.dead_letter.pk])
    answer = operator.post(address, {"payload": "x" * 3_000_000, "seen": "", "note": ""})
    assert answer.status_code == 413
    text = answer.content.decode().replace("\xa0", " ")
    assert "You sent 2.9 MB; a form may have at most 2.5 MB. Nothing was changed." in text
    assert now(acme.dead_letter).resolution == ""


def test_every_list_that_searches_says_for_what() -> None:
    searching = {
        model: model_admin.search_help_text
        for model, model_admin in admin.site._registry.items()
        if model_admin.search_fields and model is not get_user_model()
    }
    assert [model for model, text in searching.items() if not text] == []
