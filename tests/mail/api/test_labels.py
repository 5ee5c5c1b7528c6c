"""Labels over REST and in the admin: described by people, seen by readers of the mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from mail.models import MailAccount, MailLabel
from mail.services.queueing import LABELS_TYPE, WATCH_TYPE
from mail.services.syncing.labels import ensure_label
from tenants.models import Role
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries
from tests.mail.mail_kit import Mailbox, jobs, stored
from tests.mail.push_kit import TOPIC

if TYPE_CHECKING:
    from tenants.models import Firm

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-07", "M-22")]

ROOT = "/api/v1/mail/"


class Api:
    """Sends requests as members of firms; each role of a firm is one person."""

    def __init__(self) -> None:
        self.keys: dict[tuple[int, Role], str] = {}

    def __call__(self, firm: Firm, role: Role, method: str, path: str, body: Any = None) -> Any:
        """Send one request as a member of the firm."""
        from tests.jobs.api.conftest import key_for

        if (firm.pk, role) not in self.keys:
            self.keys[firm.pk, role] = key_for(firm, role)
        headers = {"Authorization": f"Bearer {self.keys[firm.pk, role]}"}
        return getattr(Client(), method)(
            ROOT + path, body, content_type="application/json", headers=headers
        )


@pytest.fixture
def api() -> Api:
    """Return the API."""
    return Api()


@pytest.fixture
def label(mailbox: Mailbox) -> MailLabel:
    """Return a label of the person's."""
    ensure_label(mailbox.account, mailbox.gmail, "Offers")
    (row,) = stored(MailLabel)
    assert isinstance(row, MailLabel)
    return row


def make_private(label: MailLabel) -> None:
    with all_firms("test"):
        MailAccount.objects.filter(pk=label.account_id).update(shared=False)


def test_labels_are_listed_shown_and_described(
    mailbox: Mailbox, api: Api, label: MailLabel
) -> None:
    (listed,) = api(mailbox.firm, Role.VIEWER, "get", "labels/").json()["results"]
    assert listed == api(mailbox.firm, Role.VIEWER, "get", f"labels/{label.pk}/").json()
    assert (listed["name"], listed["description"], listed["key"]) == ("Offers", "", None)
    assert listed["available_to_classifier"] is True
    body = {"description": "From suppliers", "available_to_classifier": False, "reason": "why"}
    refused = api(mailbox.firm, Role.VIEWER, "patch", f"labels/{label.pk}/", body)
    assert refused.status_code == 403
    changed = api(mailbox.firm, Role.OPERATOR, "patch", f"labels/{label.pk}/", body)
    assert changed.status_code == 200
    assert changed.json() == {
        **listed,
        "description": "From suppliers",
        "available_to_classifier": False,
    }
    api(mailbox.firm, Role.OPERATOR, "patch", f"labels/{label.pk}/", {"description": "x"})
    (row,) = stored(MailLabel)
    assert (row.description, row.available_to_classifier) == ("x", False)
    assert [entry.act for entry in audit_entries(label.pk)] == ["label.describe"] * 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"description": 1}, "description"),
        ({"available_to_classifier": "perhaps"}, "available_to_classifier"),
        ({"name": "Other"}, "name"),
    ],
)
def test_a_wrong_field_is_named(
    mailbox: Mailbox, api: Api, label: MailLabel, body: dict[str, object], field: str
) -> None:
    answer = api(mailbox.firm, Role.OPERATOR, "patch", f"labels/{label.pk}/", body)
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == [field]


def test_labels_are_listed_by_mailbox(mailbox: Mailbox, api: Api, label: MailLabel) -> None:
    path = f"labels/?account_id={label.account_id}"
    assert len(api(mailbox.firm, Role.VIEWER, "get", path).json()["results"]) == 1
    path = f"labels/?account_id={label.pk}"
    assert api(mailbox.firm, Role.VIEWER, "get", path).json()["results"] == []


@pytest.mark.req("M-23", "T-03")
def test_names_are_for_readers_of_the_mailbox(
    mailbox: Mailbox, api: Api, label: MailLabel, other_firm: Firm
) -> None:
    assert api(other_firm, Role.ADMIN, "get", f"labels/{label.pk}/").status_code == 404
    make_private(label)
    assert api(mailbox.firm, Role.ADMIN, "get", f"labels/{label.pk}/").status_code == 404
    assert api(mailbox.firm, Role.ADMIN, "get", "labels/").json()["results"] == []
    client = browser(mailbox.firm)
    address = reverse("admin:mail_maillabel_change", args=[label.pk])
    assert client.get(address).status_code == 404
    assert "Offers" not in client.get(reverse("admin:mail_maillabel_changelist")).content.decode()


def browser(firm: Firm) -> Client:
    user = UserFactory(is_staff=True, member_of=firm, member_of__role=Role.ADMIN)
    client = Client()
    client.force_login(user)
    return client


def test_a_label_is_described_in_the_admin(mailbox: Mailbox, label: MailLabel) -> None:
    client = browser(mailbox.firm)
    address = reverse("admin:mail_maillabel_describe", args=[label.pk])
    assert client.get(address).status_code == 200
    answer = client.post(address, {"description": "From suppliers", "seen": " True"})
    assert answer.status_code == 302
    (row,) = stored(MailLabel)
    assert (row.description, row.available_to_classifier) == ("From suppliers", False)


def test_labels_are_synced_and_watches_renewed_on_demand(
    mailbox: Mailbox, api: Api, settings: Settings
) -> None:
    path = f"accounts/{mailbox.account.pk}"
    first = api(mailbox.firm, Role.OPERATOR, "post", f"{path}/sync-labels/", {})
    assert first.json() == {"job_id": str(jobs(LABELS_TYPE)[0].pk), "created": True}
    refused = api(mailbox.firm, Role.OPERATOR, "post", f"{path}/renew-watch/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
    settings.GMAIL_PUBSUB_TOPIC = TOPIC
    renewed = api(mailbox.firm, Role.OPERATOR, "post", f"{path}/renew-watch/", {"reason": "x"})
    assert renewed.status_code == 200
    assert len(jobs(WATCH_TYPE)) == 1
    assert api(mailbox.firm, Role.VIEWER, "post", f"{path}/sync-labels/", {}).status_code == 403


@pytest.mark.parametrize("name", ["sync-labels", "renew-watch"])
def test_the_mailboxs_page_offers_both(mailbox: Mailbox, settings: Settings, name: str) -> None:
    settings.GMAIL_PUBSUB_TOPIC = TOPIC
    client = browser(mailbox.firm)
    page = client.get(reverse("admin:mail_mailaccount_change", args=[mailbox.account.pk]))
    assert "Not watched yet" in page.content.decode()
    address = reverse(f"admin:mail_mailaccount_{name}", args=[mailbox.account.pk])
    assert address in page.content.decode()
    assert client.post(address, {"reason": ""}).status_code == 302
    assert len(jobs()) == 1
