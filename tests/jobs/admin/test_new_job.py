"""New jobs in the admin: the user chooses a type, and its form has the fields of the payload."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel, Field

from jobs.models import JobQueue
from jobs.registry import JobPayload, job
from tenants.models import Role
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, crumbs, messages_of
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03", "O-08")]

CHOOSE = "admin:jobs_jobqueue_new"


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Item(BaseModel):
    sku: str


class ShipPayload(JobPayload):
    """A payload with a field of each kind."""

    order: int = Field(ge=1, description="The order's number.")
    to: str
    customer: UUID | None = None
    speed: Speed = Speed.SLOW
    carrier: Literal["post", "courier"] | None = None
    weight: Decimal | None = None
    insured: bool = False
    signed: bool | None = None
    items: list[Item] = []
    priority: str = "by the payload"


@pytest.fixture(autouse=True)
def ship(job_types: Any) -> None:
    """Declare a type with this payload."""

    @job("test.ship", category="export", payload=ShipPayload)
    def handle(payload: ShipPayload, ctx: Any) -> None:
        """Ship an order.

        By whoever is cheapest.
        """


@pytest.fixture
def developer(acme: FirmRows) -> Client:
    return browser_of(acme.firm, Role.DEVELOPER)


def address(job_type: str = "test.ship") -> str:
    return reverse("admin:jobs_jobqueue_new_of", args=[job_type])


def send(client: Client, job_type: str = "test.ship", **answers: Any) -> Any:
    """Send the form as a browser does: fields keep what is shown unless `answers` has them."""
    form = client.get(address(job_type)).context["form"]
    shown = {field.name: field.value() for field in form}
    filled = {name: value for name, value in shown.items() if value not in (None, False)}
    return client.post(address(job_type), {"seen": "", **filled, **answers})


def payload_of(found: JobQueue) -> dict[str, Any]:
    envelope = JobPayload.model_fields
    return {name: value for name, value in found.payload.items() if name not in envelope}


def test_the_list_leads_to_the_types_and_a_type_to_its_form(developer: Client) -> None:
    listing = developer.get(reverse("admin:jobs_jobqueue_changelist")).content.decode()
    assert reverse(CHOOSE) in listing
    choice = developer.get(reverse(CHOOSE))
    assert crumbs(choice) == ["New job"]
    types = choice.content.decode()
    assert address() in types
    assert "Ship an order." in types
    assert "cheapest" not in types
    page = developer.get(address()).content.decode()
    assert "number." in page
    assert all(word in page for word in ("Customer", "An id, such as", "courier", "JSON: a list."))
    assert "tenant_id" not in page


@pytest.mark.req("T-05")
def test_a_deletion_is_no_new_job(developer: Client) -> None:
    assert b"delete_firm" not in developer.get(reverse(CHOOSE)).content
    form = reverse("admin:jobs_jobqueue_new_of", args=["delete_firm"])
    assert developer.get(form).status_code == 404


def test_a_job_is_enqueued_from_its_fields(developer: Client, acme: FirmRows) -> None:
    customer = uuid4()
    answers = {
        "payload.order": "17",
        "payload.to": "Ada",
        "payload.customer": str(customer),
        "payload.speed": '"fast"',
        "payload.weight": "1.10",
        "payload.insured": "on",
        "payload.signed": "false",
        "payload.items": '[{"sku": "a"}]',
        "at": "2099-01-31T09:00",
        "priority": "1",
        "idempotency_key": "ship:17",
        "reason": "by telephone",
    }
    response = send(developer, **answers)
    assert response.status_code == 302
    (found,) = (one for one in rows(JobQueue) if one.job_type == "test.ship")
    assert response["Location"] == reverse("admin:jobs_jobqueue_change", args=[found.pk])
    assert "test.ship is enqueued" in messages_of(response)
    assert payload_of(found) == {
        "order": 17,
        "to": "Ada",
        "customer": str(customer),
        "speed": "fast",
        "weight": "1.10",
        "insured": True,
        "signed": False,
        "items": [{"sku": "a"}],
        "priority": "by the payload",
    }
    assert (found.firm_id, found.priority, found.scheduled_at.year) == (acme.firm.pk, 1, 2099)
    (entry,) = audit_entries(found.pk)
    assert (entry.act, entry.door, entry.reason) == ("job.enqueue", "admin", "by telephone")
    again = send(developer, **answers)
    assert again["Location"] == response["Location"]
    assert "nothing was enqueued" in messages_of(again)


def test_what_is_left_empty_is_left_to_the_schema(developer: Client) -> None:
    send(developer, **{"payload.order": "17", "payload.to": "Ada"})
    (found,) = (one for one in rows(JobQueue) if one.job_type == "test.ship")
    assert payload_of(found) == {
        "order": 17,
        "to": "Ada",
        "speed": "slow",
        "insured": False,
        "items": [],
        "priority": "by the payload",
    }


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload.order", "0"),
        ("payload.order", "many"),
        ("payload.to", ""),
        ("payload.customer", "nobody"),
        ("payload.speed", '"instant"'),
        ("payload.weight", "heavy"),
        ("payload.items", "[{"),
        ("payload.items", '[{"sku": 1}]'),
        ("payload.items", '[{"sku": "a", "sku": "b"}]'),
        ("at", "soon"),
        ("priority", "9"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(name: str, value: str, developer: Client) -> None:
    response = send(developer, **{"payload.order": "17", "payload.to": "Ada", name: value})
    assert response.status_code == 400
    assert response.context["form"].errors.keys() == {name}
    assert not [one for one in rows(JobQueue) if one.job_type == "test.ship"]


def test_a_function_of_the_type_that_raises_refuses_the_job(
    developer: Client, job_types: Any
) -> None:
    def fail(payload: JobPayload) -> str:
        raise KeyError("Ada")

    job_types["noop"] = replace(job_types["noop"], lock_key=fail)
    response = send(developer, "noop")
    told = " ".join(response.context["form"].non_field_errors())
    assert response.status_code == 400
    assert "lock_key" in told
    assert "KeyError" in told
    assert "Ada" not in response.content.decode()


@pytest.mark.req("T-03")
def test_only_developers_enqueue_and_only_for_their_firms(
    operator: Client, staff: Client, developer: Client, globex: FirmRows
) -> None:
    for url in (reverse(CHOOSE), address()):
        assert operator.get(url).status_code == 403
    assert developer.get(address("no.such.type")).status_code == 404
    listing = operator.get(reverse("admin:jobs_jobqueue_changelist")).content.decode()
    assert reverse(CHOOSE) not in listing
    send(developer, "noop", firm="globex")
    unnamed = send(staff, "noop")
    assert unnamed.context["form"].errors.keys() == {"firm"}
    send(staff, "noop", firm="globex")
    mine, theirs = [one for one in rows(JobQueue) if one.job_type == "noop"][-2:]
    assert (mine.firm.slug, theirs.firm.slug) == ("acme", "globex")
    assert row(theirs.pk).payload["tenant_id"] == globex.firm.pk


@pytest.mark.req("U-05")
@pytest.mark.parametrize(("role", "offered"), [(Role.DEVELOPER, False), (Role.ADMIN, True)])
def test_an_export_of_the_firm_is_offered_to_those_who_may_download_it(
    acme: FirmRows, role: Role, offered: bool
) -> None:
    browser = browser_of(acme.firm, role)
    export = reverse("admin:jobs_jobqueue_new_of", args=["firm_export"])
    assert (export in browser.get(reverse(CHOOSE)).content.decode()) is offered
    assert browser.get(export).status_code == (200 if offered else 403)
    answer = browser.post(export, {"priority": 2, "confirmed": "on"})
    assert answer.status_code == (302 if offered else 403)
    assert [one.job_type for one in rows(JobQueue)].count("firm_export") == offered


@pytest.mark.parametrize(("role", "offered"), [(Role.DEVELOPER, False), (None, True)])
def test_a_type_that_works_for_every_firm_is_offered_to_platform_staff_alone(
    acme: FirmRows, staff: Client, role: Role | None, offered: bool
) -> None:
    browser = staff if role is None else browser_of(acme.firm, role)
    address = reverse("admin:jobs_jobqueue_new_of", args=["dlq_alert"])
    assert (address in browser.get(reverse(CHOOSE)).content.decode()) is offered
    assert browser.get(address).status_code == (200 if offered else 404)
