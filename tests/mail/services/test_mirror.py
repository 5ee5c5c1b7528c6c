"""What is stored equals the mailbox, whatever happens there and however syncs go."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import JobQueue
from mail.models import MailThread
from mail.services import ingest
from mail.services.accounts import open_account
from mail.services.ingest import ingest_message, ingest_page
from mail.services.sync import sync_mailbox
from tenants.scope import all_firms
from tests.mail.mail_kit import Mailbox, letter, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-04")]


def in_gmail(mailbox: Mailbox) -> dict[str, set[str]]:
    """Return the labels of all messages in Gmail, spam and trash too."""
    page = mailbox.gmail.list_messages("", max_results=500, everywhere=True)
    return {
        one["id"]: set(mailbox.gmail.get_message(one["id"], fmt="minimal").get("labelIds", []))
        for one in page.get("messages", [])
    }


def in_store(mailbox: Mailbox) -> dict[str, set[str]]:
    messages = [one for one in mailbox.messages() if one.account_id == mailbox.account.pk]
    found = {message.gmail_message_id: set(message.labels) for message in messages}
    assert len(found) == len(messages)
    return found


def sync(mailbox: Mailbox) -> None:
    sync_mailbox(mailbox.account, mailbox.gmail)


def run_ingests(mailbox: Mailbox) -> None:
    """Run the ingest jobs that wait, and leave the others."""
    with all_firms("test"):
        jobs = JobQueue.objects.filter(
            job_type__in=["ingest.gmail", "ingest.page.gmail"],
            status="pending",
            payload__account_id=str(mailbox.account.pk),
        )
        waiting = [(job.pk, job.payload) for job in jobs]
    for job_id, payload in waiting:
        if "gmail_message_ids" in payload:
            ingest_page(mailbox.account, mailbox.gmail, payload["gmail_message_ids"])
        else:
            ingest_message(mailbox.account, mailbox.gmail, payload["gmail_message_id"])
        with all_firms("test"):
            JobQueue.objects.filter(pk=job_id).update(
                status="completed", ready=False, live_key=None
            )


def delete(mailbox: Mailbox, gmail_message_id: str) -> None:
    """Delete a message for good."""
    messages = mailbox.gmail._resources.messages
    mailbox.gmail._execute(messages.delete(userId="me", id=gmail_message_id))


def check_equal(mailbox: Mailbox) -> None:
    """Check that the store has the inbox and the sent mail, and of nothing anything else than Gmail."""
    gmail, store = in_gmail(mailbox), in_store(mailbox)
    hidden = {"TRASH", "SPAM"}
    read = {"INBOX", "SENT"}
    wanted = {one for one, labels in gmail.items() if labels & read and not labels & hidden}
    assert wanted <= store.keys()
    assert store == {one: gmail.get(one) for one in store}
    threads = [one for one in stored(MailThread) if one.account_id == mailbox.account.pk]
    assert all(thread.message_count for thread in threads)
    assert sum(thread.message_count for thread in threads) == len(store)


def test_label_changes_and_deletions_reach_the_store(mailbox: Mailbox) -> None:
    kept, archived, deleted = mailbox.receive_many(3)
    sync(mailbox)
    run_ingests(mailbox)
    mailbox.gmail.modify_message(kept, add=["STARRED"], remove=["UNREAD"])
    mailbox.gmail.modify_message(archived, remove=["INBOX"])
    delete(mailbox, deleted)
    sync(mailbox)
    assert in_store(mailbox) == {kept: {"INBOX", "STARRED"}, archived: {"UNREAD"}}
    assert len(stored(MailThread)) == 2


def test_mail_that_comes_back_to_the_inbox_is_read(mailbox: Mailbox) -> None:
    sync(mailbox)
    spam = mailbox.receive(labels=("SPAM", "UNREAD"))
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox) == {}
    mailbox.gmail.modify_message(spam, add=["INBOX"], remove=["SPAM"])
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox) == {spam: {"INBOX", "UNREAD"}}


def test_mail_that_comes_out_of_the_trash_is_read(mailbox: Mailbox) -> None:
    sync(mailbox)
    trashed = mailbox.receive(labels=("INBOX", "TRASH"))
    mailbox.simulator.expire_history(mailbox.account.address)
    sync(mailbox)
    mailbox.gmail.modify_message(trashed, remove=["TRASH"])
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox) == {trashed: {"INBOX"}}


def test_lost_history_is_made_good_by_comparing(mailbox: Mailbox) -> None:
    kept, archived, deleted = mailbox.receive_many(3)
    sync(mailbox)
    run_ingests(mailbox)
    mailbox.gmail.modify_message(kept, add=["STARRED"])
    mailbox.gmail.modify_message(archived, remove=["INBOX"])
    delete(mailbox, deleted)
    mailbox.simulator.expire_history(mailbox.account.address)
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox) == {kept: {"INBOX", "UNREAD", "STARRED"}, archived: {"UNREAD"}}


@pytest.mark.parametrize("what", ["labels", "deletion"])
def test_a_change_while_a_message_is_fetched_is_not_lost(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    sync(mailbox)
    arrived = mailbox.receive()
    sync(mailbox)
    parse = ingest.parse_message

    def slow(*arguments: object, **options: object) -> object:
        # After Gmail's answer, before the store.
        monkeypatch.setattr(ingest, "parse_message", parse)
        if what == "labels":
            mailbox.gmail.modify_message(arrived, remove=["UNREAD"])
        else:
            delete(mailbox, arrived)
        sync(mailbox)
        return parse(*arguments, **options)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ingest, "parse_message", slow)
    run_ingests(mailbox)
    check_equal(mailbox)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("receive"), st.sampled_from(["INBOX", "SENT", "SPAM", "STARRED", "DRAFT"])
        ),
        st.tuples(
            st.sampled_from(["add", "remove"]),
            st.integers(0, 30),
            st.sampled_from(["INBOX", "UNREAD", "STARRED", "TRASH", "SPAM", "IMPORTANT"]),
        ),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.sampled_from(["sync", "sync", "scan", "ingest", "crash", "expire"])),
    ),
    max_size=40,
)


class PowerCut(Exception):
    """A worker died."""


def play(mailbox: Mailbox, step: tuple[Any, ...]) -> None:
    """Do what the step says, to the mailbox or to the syncs; of a message that is there."""
    match step:
        case "receive", label:
            mailbox.receive(letter(f"Letter {uuid4()}"), labels=(label,))
        case ("add" | "remove") as what, which, label:
            if one := chosen(mailbox, which):
                mailbox.gmail.modify_message(one, **{what: [label]})
        case "delete", which:
            if one := chosen(mailbox, which):
                delete(mailbox, one)
        case (("sync" | "scan") as what,):
            sync_mailbox(mailbox.account, mailbox.gmail, force_full=what == "scan")
        case ("ingest",):
            run_ingests(mailbox)
        case ("crash",):
            crash_in_sync(mailbox)
        case ("expire",):
            mailbox.simulator.expire_history(mailbox.account.address)


def chosen(mailbox: Mailbox, which: int) -> str | None:
    """Return one of the messages that are no drafts."""
    there = sorted(one for one, labels in in_gmail(mailbox).items() if "DRAFT" not in labels)
    return there[which % len(there)] if there else None


def crash_in_sync(mailbox: Mailbox) -> None:
    """Let a worker die after a page was applied, before the cursor's move is committed."""

    def die(*_: object) -> None:
        raise PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mail.services.sync._advance_cursor", die)
        patch.setattr("mail.services.sync._seed_cursor", die)
        with pytest.raises(PowerCut):
            sync(mailbox)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_after_any_history_the_store_equals_the_mailbox(
    mailbox: Mailbox, steps: list[tuple[object, ...]]
) -> None:
    account = open_account(mailbox.firm, f"{uuid4().hex}@acme.example")
    fresh = Mailbox(mailbox.firm, account, mailbox.simulator)
    cursors: list[int] = []
    for step in [*steps, ("sync",), ("ingest",), ("sync",)]:
        play(fresh, step)
        cursor = fresh.reload().history_cursor
        if cursor is not None:
            cursors.append(cursor)
    check_equal(fresh)
    assert cursors == sorted(cursors)
