"""One store, many processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from mail.gmail.connect import simulator_client
from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator import store as store_module
from mail.gmail.simulator.api import GmailSimulator
from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-03")


def _work(store: Path, name: str, shared: str) -> list[str]:
    """Import mail and change labels in one of several processes or threads; return the new ids."""
    simulator, gmail = GmailSimulator(store), simulator_client(ADDRESS, store)
    ids = []
    for number in range(25):
        raw = letter(f"{name} {number}")
        ids.append(simulator.import_message(ADDRESS, raw).gmail_message_id)
        simulator.import_message(ADDRESS, letter(f"the same {number}"))
        gmail.modify_message(ids[-1], add=["STARRED"], remove=["UNREAD"])
        gmail.modify_message(shared, add=["STARRED"])
        gmail.modify_message(shared, remove=["STARRED"])
    return ids


def _check(store: Path, shared: str, done: list[list[str]]) -> None:
    gmail = simulator_client(ADDRESS, store)
    ids = [wire_id for part in done for wire_id in part]
    assert len(set(ids)) == len(ids)
    assert gmail.profile()["messagesTotal"] == len(ids) + 25 + 1
    starred = gmail.list_messages("is:starred", max_results=500)["messages"]
    assert {item["id"] for item in starred} == set(ids)
    changes, token = [], None
    while True:
        page = gmail.history("1000", token)
        changes += page["history"]
        if not (token := page.get("nextPageToken")):
            break
    history_ids = [int(change["id"]) for change in changes]
    assert history_ids == sorted(set(history_ids))
    assert page["historyId"] == str(history_ids[-1])
    toggles = [c for c in changes if c["messages"][0]["id"] == shared][1:]
    for earlier, later in pairwise(toggles):
        assert ("labelsAdded" in earlier) != ("labelsAdded" in later)


@pytest.mark.processes
def test_processes_share_one_store_from_its_first_moment(tmp_path):
    store = tmp_path / "gmail.sqlite3"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        created = list(pool.map(_open, [store] * 8))
        shared = GmailSimulator(store).import_message(ADDRESS, letter("shared")).gmail_message_id
        done = list(pool.map(_work, [store] * 2, ("one", "two"), [shared] * 2))

    assert created == [[]] * 8
    _check(store, shared, done)


def _open(store: Path) -> list[str]:
    return GmailSimulator(store).addresses()


def test_threads_share_one_simulator(tmp_path):
    store = tmp_path / "gmail.sqlite3"
    shared = GmailSimulator(store).import_message(ADDRESS, letter("shared")).gmail_message_id
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(_work, [store] * 3, "abc", [shared] * 3))

    _check(store, shared, done)


def test_a_forked_child_opens_its_own_connection(simulator):
    simulator.import_message(ADDRESS, letter("before"))

    child = os.fork()
    if child == 0:
        try:
            created = simulator.import_message(ADDRESS, letter("child")).created
        finally:
            os._exit(0 if created else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert not simulator.import_message(ADDRESS, letter("child")).created
    assert simulator.import_message(ADDRESS, letter("parent")).created


def test_a_store_held_too_long_by_another_is_unavailable_not_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.05)
    path = tmp_path / "gmail.sqlite3"
    waiting = simulator_client(ADDRESS, path)
    waiting.profile()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(GmailUnavailable) as raised:
            waiting.create_label("Boats")
        holder.execute("ROLLBACK")

    assert raised.value.status == 503
    assert waiting.create_label("Boats")["name"] == "Boats"
