"""The doctor's command and page: who may see them, what they show, and that they change nothing."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from jobs.queries.doctor import Finding, Severity, examination
from tenants.models import Firm, Role
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-06")]

ILL = Finding("test.ill", Severity.PROBLEM, "It <hurts>.", "Pain is bad.", "DROP TABLE pain;")
ODD = Finding("test.odd", Severity.NOTICE, "It is odd.", "Who knows.", "Look again.")
WELL = Finding("test.well", Severity.OK, "It is well.", "Health is good.")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """Return the list of the doctor's findings; empty until a test fills it."""
    found: list[Finding] = []
    for vendor in examination.CHECKS:
        monkeypatch.setitem(examination.CHECKS, vendor, {"test": lambda: found})
    return found


@pytest.fixture
def staff(db: None) -> Client:
    """Return the browser of a member of platform staff."""
    client = Client()
    client.force_login(UserFactory(username="root", platform_staff=True))
    return client


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("queue_doctor", *arguments, stdout=out)
    return out.getvalue()


def test_no_line_of_the_commands_output_ends_with_blanks(found: list[Finding]) -> None:
    found.append(
        Finding("test.long", Severity.NOTICE, "It is odd. " * 20, "Who knows. " * 20, "Look.")
    )
    assert [line for line in run().splitlines() if line != line.rstrip()] == []


def test_the_command_prints_the_worst_first_and_exits_1_when_something_is_to_mend(
    found: list[Finding],
) -> None:
    found += [WELL, ODD]
    assert "It is odd." in run()
    found.append(ILL)
    out = StringIO()
    with pytest.raises(CommandError, match="1 to mend") as refused:
        call_command("queue_doctor", stdout=out)
    assert refused.value.returncode == 1
    text = out.getvalue()
    assert text.index("It <hurts>.") < text.index("It is odd.") < text.index("It is well.")
    assert "DROP TABLE pain;" in text


def test_the_command_prints_one_object(found: list[Finding]) -> None:
    found += [WELL, ODD, ILL]
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("queue_doctor", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["database"] in ("postgresql", "sqlite")
    assert [one["severity"] for one in answer["findings"]] == ["problem", "notice", "ok"]
    assert answer["findings"][0] == {
        "id": "test.ill",
        "severity": "problem",
        "what": "It <hurts>.",
        "why": "Pain is bad.",
        "mend": "DROP TABLE pain;",
    }
    assert answer["findings"][2]["mend"] is None


def test_sql_to_copy_stands_on_one_line(found: list[Finding]) -> None:
    long = "SELECT " + ", ".join(f"column_{number}" for number in range(100)) + ";"
    found.append(Finding("test.long", Severity.NOTICE, "It is long.", "So what.", long))
    assert long in run()


def test_the_page_shows_what_to_mend_to_platform_staff(staff: Client, found: list[Finding]) -> None:
    found += [WELL, ODD, ILL]
    answer = staff.get(reverse("queue-doctor"))
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "1 thing to mend" in text
    assert text.index("It &lt;hurts&gt;.") < text.index("It is odd.") < text.index("It is well.")
    assert "DROP TABLE pain;" in text
    found.clear()
    found.append(WELL)
    assert "All is well" in staff.get(reverse("queue-doctor")).content.decode()


def test_the_page_of_the_real_checks_opens(staff: Client) -> None:
    answer = staff.get(reverse("queue-doctor"))
    assert "Checked and fine" in answer.content.decode()


@pytest.mark.req("T-03")
@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_members_of_firms_neither_see_the_page_nor_a_link_to_it(
    role: Role, firm: Firm, found: list[Finding]
) -> None:
    found.append(ILL)
    user = UserFactory(username="ada", is_staff=True, member_of=firm, member_of__role=role)
    client = Client()
    client.force_login(user)
    refused = client.get(reverse("queue-doctor"))
    assert refused.status_code == 403
    assert "hurts" not in refused.content.decode()
    assert "queue-doctor" not in client.get(reverse("admin:index")).content.decode()
    assert Client().get(reverse("queue-doctor")).status_code == 302


def test_the_sidebar_of_platform_staff_leads_there(staff: Client) -> None:
    assert reverse("queue-doctor") in staff.get(reverse("admin:index")).content.decode()
