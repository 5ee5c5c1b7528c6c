"""Scheduled syncs: which mailboxes they reach, and that at most one waits for each mailbox."""

from __future__ import annotations

import pytest

from jobs.engine.clock import stopped_at
from jobs.models import JobQueue, Schedule
from jobs.schedules import defaults
from jobs.schedules.defaults import store_default_schedules
from jobs.schedules.tick import tick
from mail.models import MailAccount
from mail.services.mailboxes.accounts import open_account
from mail.services.queueing import request_sync
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import FirmFactory
from tests.jobs.schedules.kit import MINUTE, START, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.req("S-02", "M-04")]


@pytest.fixture
def schedules(system_firm: Firm) -> None:
    """Store the default schedules, with the clock at START."""
    with stopped_at(START):
        store_default_schedules()


def tick_after(minutes: int) -> list[JobQueue]:
    with stopped_at(START + minutes * MINUTE):
        tick()
    return [job for job in jobs() if job.job_type == "sync"]


def test_the_shipped_schedules_and_their_settings(settings: object) -> None:
    assert {
        name: (declared["job_type"], declared["payload"], every())
        for name, (declared, every) in defaults._defaults.items()
        if declared["group_name"] == "mailbox"
    } == {
        "Sync mailboxes": ("sync", {}, 15 * 60),
        "Scan mailboxes in full": ("sync", {"force_full": True}, 3600),
        "Sync labels": ("labels.sync.gmail", {}, 3600),
        "Renew watches": ("watch.renew.gmail", {}, 24 * 3600),
    }
    for name, setting, value, seconds in (
        ("Sync mailboxes", "SYNC_FALLBACK_INTERVAL_MINUTES", 5, 300),
        ("Scan mailboxes in full", "SYNC_FULL_INTERVAL_HOURS", 2, 7200),
        ("Sync labels", "LABELS_SYNC_INTERVAL_MINUTES", 10, 600),
        ("Renew watches", "WATCH_RENEW_INTERVAL_HOURS", 12, 43200),
    ):
        setattr(settings, setting, value)
        assert defaults._defaults[name][1]() == seconds


def test_every_active_mailbox_of_an_active_firm_is_synced(
    firm: Firm, other_firm: Firm, schedules: None
) -> None:
    mine = open_account(firm, "ann@acme.example")
    theirs = open_account(other_firm, "bob@globex.example")
    off = open_account(firm, "old@acme.example")
    gone = open_account(FirmFactory(name="Gone", slug="gone", active=False), "x@gone.example")
    with all_firms("test"):
        MailAccount.objects.filter(pk=off.pk).update(active=False)

    assert tick_after(14) == []
    made = tick_after(15)

    assert {job.payload["account_id"] for job in made} == {str(mine.pk), str(theirs.pk)}
    assert str(gone.pk) not in str([job.payload for job in made])
    assert {(job.job_type, job.firm_id) for job in made} == {
        ("sync", firm.pk),
        ("sync", other_firm.pk),
    }
    assert {job.lock_key for job in made} == {f"gmail-sync:{one.pk}" for one in (mine, theirs)}
    with all_firms("test"):
        assert Schedule.objects.get(name="Sync mailboxes").last_error == ""


def test_scheduled_syncs_coalesce_with_what_waits(firm: Firm, schedules: None) -> None:
    account = open_account(firm, "ann@acme.example")
    with firm_scope(firm):
        asked_for = request_sync(account)
    (only,) = tick_after(15)
    assert only.pk == asked_for.job_id
    assert len(tick_after(30)) == 1
    made = tick_after(60)
    assert sorted(job.payload["force_full"] for job in made) == [False, True]
    with firm_scope(firm):
        assert request_sync(account, force_full=True).created is False
    assert len(tick_after(120)) == 2
    assert {job.priority for job in made} == {1}
