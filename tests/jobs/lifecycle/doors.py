"""The ways by which an operator acts: each returns the code of a refusal, or an empty text."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from interfaces.commands import EXIT_REFUSED, CommandRefused
from jobs.errors import JobError
from jobs.operations import dead_letters, jobs
from tenants.models import Firm, Role
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import submit
from tests.jobs.api.conftest import Api, key_for
from tests.jobs.lifecycle.subject import Subject

REASON = "because"
OF_JOBS = ("retry", "cancel")

# A door runs the operation of this name on the subject.
Door = Callable[[str, Subject], str]


def engine(firm: Firm) -> Door:
    """Return the door of Python code, which calls the operations."""

    def operate(name: str, subject: Subject) -> str:
        try:
            if name in OF_JOBS:
                getattr(jobs, name)(subject.job_id, reason=REASON)
            elif name == "reprocess":
                dead_letters.reprocess(subject.letter_id, reason=REASON)
            else:
                getattr(dead_letters, name)(subject.letter_id, REASON)
        except JobError as refusal:
            return refusal.code
        return ""

    return operate


def cli(firm: Firm) -> Door:
    """Return the door of the command line."""

    def operate(name: str, subject: Subject) -> str:
        command, row_id = _row(name, subject, "jobs", "dlq")
        try:
            call_command(
                command, name, str(row_id), "--reason", REASON, "--json", stdout=StringIO()
            )
        except CommandRefused as refusal:
            return refusal.code if refusal.returncode == EXIT_REFUSED else repr(refusal)
        return ""

    return operate


def api(firm: Firm) -> Door:
    """Return the door of REST, with the API key of an operator of the firm."""
    caller = Api(key_for(firm, Role.OPERATOR))

    def operate(name: str, subject: Subject) -> str:
        place, row_id = _row(name, subject, "jobs", "dlq")
        body = {"reason": REASON}
        answer = caller.post(f"{place}/{row_id}/{name}/", body)
        if answer.status_code in (200, 202):
            return ""
        assert answer.status_code == 409, answer.content
        return str(json.loads(answer.content)["code"])

    return operate


def admin(firm: Firm) -> Door:
    """Return the door of the admin, in the browser of an operator of the firm."""
    browser = browser_of(firm, Role.OPERATOR)

    def operate(name: str, subject: Subject) -> str:
        row = subject.job if name in OF_JOBS else subject.letter
        page = reverse(f"admin:jobs_{row._meta.model_name}_{name}", args=[row.pk])
        if browser.get(page).status_code == 409:
            return _sent_all_the_same(browser, page)
        answer = submit(browser, row, name, reason=REASON)
        assert answer.status_code == 302, answer.content
        return ""

    return operate


def _sent_all_the_same(browser: Client, page: str) -> str:
    """Send the form although its page was refused: the form is refused, too."""
    answer = browser.post(page, {"seen": "", "reason": REASON})
    assert answer.status_code == 409, answer.content
    return "wrong_state"


def _row(name: str, subject: Subject, of_job: str, of_letter: str) -> tuple[str, Any]:
    if name in OF_JOBS:
        return of_job, subject.job_id
    return of_letter, subject.letter_id


DOORS: dict[str, Callable[[Firm], Door]] = {
    "service": engine,
    "cli": cli,
    "api": api,
    "admin": admin,
}
