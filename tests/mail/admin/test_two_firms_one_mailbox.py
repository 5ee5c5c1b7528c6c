"""Two firms may have the same mailbox; Mailroom writes to it for one of them at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from mail.admin.account import MailAccountAdmin
from mail.errors import WrongState
from mail.gmail.simulator.server import SimulatorServer
from mail.models import MailAccount, Mode
from mail.services.mailboxes import modes
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.operation import locked_row
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.concurrency.test_admission import on_postgresql
from tests.jobs.admin.pages import messages_of, submit
from tests.mail.admin.test_connect import NEW, browser_of, connect
from tests.mail.mail_kit import drain, only, stored
from tests.support.databases import is_waited_for
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-24")]


def account_of(firm: Firm) -> MailAccount:
    return only(stored(MailAccount), address=NEW, firm_id=firm.pk)


def modes_of_both(firm: Firm, other_firm: Firm) -> tuple[str, str]:
    return account_of(firm).mode, account_of(other_firm).mode


@pytest.fixture(autouse=True)
def connected(google: SimulatorServer, firm: Firm, other_firm: Firm) -> Client:
    """Connect the mailbox in both firms; return the browser of its owner in the other firm."""
    google.simulator.add_alias(NEW, "grace@other.example")
    owner, others = browser_of(firm), browser_of(other_firm)
    connect(owner)
    connect(others)
    return others


def test_only_one_firm_switches_it_on(connected: Client, firm: Firm, other_firm: Firm) -> None:
    modes.activate(account_of(firm))
    answer = submit(connected, account_of(other_firm), "activate")
    assert "for another firm" in messages_of(answer) + answer.content.decode()
    assert modes_of_both(firm, other_firm) == (Mode.ACTIVE, Mode.SUGGEST)

    modes.suggest_only(account_of(firm))
    modes.activate(account_of(other_firm))
    assert modes_of_both(firm, other_firm) == (Mode.SUGGEST, Mode.ACTIVE)


def test_who_connects_it_again_finds_it_switched_on_elsewhere(firm: Firm, other_firm: Firm) -> None:
    modes.activate(account_of(firm))
    disconnect_account(account_of(firm), keep_days=30)
    drain()
    modes.activate(account_of(other_firm))
    connect(browser_of(firm, name="ada"), account=account_of(firm))
    assert account_of(firm).connection == "connected"
    assert modes_of_both(firm, other_firm) == (Mode.SUGGEST, Mode.ACTIVE)


def activate(account: MailAccount) -> None:
    """Make the mailbox active, on a thread with its own connection."""
    try:
        modes.activate(account)
    finally:
        connection.close()


@on_postgresql
def test_who_waits_for_the_other_firm_to_switch_it_on_keeps_it_from_nothing(
    firm: Firm, other_firm: Firm
) -> None:
    first, second = sorted([account_of(firm), account_of(other_firm)], key=lambda one: one.pk)
    with ThreadPoolExecutor(1) as thread:
        with firm_scope(first.firm_id):
            locked_row(first)
            other = thread.submit(activate, second)
            wait_until(is_waited_for, "the other firm's waits")
            modes.activate(first)
        with pytest.raises(WrongState, match="for another firm"):
            other.result()


@on_postgresql
def test_of_two_who_switch_it_on_at_once_one_does(firm: Firm, other_firm: Firm) -> None:
    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            modes.activate(account_of(firm))
            other = thread.submit(activate, account_of(other_firm))
            wait_until(lambda: is_waited_for() or other.done(), "the other firm's waits")
        with pytest.raises(WrongState, match="for another firm"):
            other.result()
    assert modes_of_both(firm, other_firm) == (Mode.ACTIVE, Mode.SUGGEST)


@on_postgresql
def test_of_two_who_hold_their_own_rows_locked_one_switches_it_on(
    connected: Client, firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has locked its own row, and would deadlock if it then waited for the other's row."""
    owner = browser_of(firm, Role.ADMIN, name="ada")
    both_are_there = Barrier(2, timeout=1)
    may = MailAccountAdmin.may

    def may_after_the_other(self: Any, request: Any, *about: Any) -> bool:
        if request.method == "POST":
            with suppress(BrokenBarrierError):
                both_are_there.wait()
        return may(self, request, *about)

    monkeypatch.setattr(MailAccountAdmin, "may", may_after_the_other)

    def activate(browser: Client, account: MailAccount) -> int:
        try:
            return int(submit(browser, account, "activate").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        ours = threads.submit(activate, owner, account_of(firm))
        theirs = threads.submit(activate, connected, account_of(other_firm))
        assert sorted([ours.result(), theirs.result()]) == [302, 409]
    assert sorted(modes_of_both(firm, other_firm)) == [Mode.ACTIVE, Mode.SUGGEST]
