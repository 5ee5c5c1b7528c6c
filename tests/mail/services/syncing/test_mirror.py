"""The stored mail equals the mailbox, whatever happens in the mailbox and to syncs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator.faults import Fault
from mail.gmail.simulator.transport import SimulatorHttp
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import MailThread
from mail.services.syncing import ingest
from mail.services.syncing.labels import ensure_label
from mail.services.syncing.sync import backfill_page, sync_mailbox
from tests.mail.mail_kit import Mailbox, letter, stored
from tests.mail.mirror_machine import (
    ARRIVE_IN,
    DELIVERIES,
    FAULTS,
    LABELS,
    METHODS,
    WORK,
    Step,
    World,
    check_equal,
    delete,
    in_store,
    run_ingests,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-04")]

HISTORIES = 200


def sync(mailbox: Mailbox) -> None:
    sync_mailbox(mailbox.account, mailbox.gmail)


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


@pytest.mark.parametrize("method", ["messages", "labels"])
@pytest.mark.parametrize("content", [b"", b"{}"])
def test_an_answer_without_content_deletes_no_mail(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, method: str, content: bytes
) -> None:
    kept = mailbox.receive()
    sync(mailbox)
    run_ingests(mailbox)
    before = in_store(mailbox)
    assert before[kept]
    mailbox.simulator.expire_history(mailbox.account.address)
    answer = SimulatorHttp.request

    def emptied(self: SimulatorHttp, uri: str, *args: Any, **kwargs: Any) -> Any:
        response, body = answer(self, uri, *args, **kwargs)
        return response, content if urlsplit(uri).path.endswith(f"/{method}") else body

    with monkeypatch.context() as broken:
        broken.setattr(SimulatorHttp, "request", emptied)
        with pytest.raises(GmailUnavailable):
            sync(mailbox)
    assert in_store(mailbox) == before
    sync(mailbox)
    check_equal(mailbox)


def test_what_a_person_labelled_while_there_was_no_history_is_stored_too(mailbox: Mailbox) -> None:
    mailbox.receive()
    sync(mailbox)
    run_ingests(mailbox)
    label = ensure_label(mailbox.account, mailbox.gmail, LABEL_NAMES[LabelKey.FYI])
    labelled = mailbox.receive(letter("Labelled by hand"))
    mailbox.gmail.modify_message(labelled, add=[label])
    mailbox.simulator.expire_history(mailbox.account.address)
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox)[labelled] == {"INBOX", "UNREAD", label}
    check_equal(mailbox)


def test_there_is_no_cursor_before_that_was_looked_for(mailbox: Mailbox) -> None:
    mailbox.receive()
    sync(mailbox)
    run_ingests(mailbox)
    mailbox.simulator.expire_history(mailbox.account.address)
    gmail = mailbox.gmail
    list_messages = gmail.list_messages

    def refuse_labelled(query: str, *args: Any, **options: Any) -> Any:
        if "{label:" in query:
            raise GmailUnavailable(status=503, reason="backendError")
        return list_messages(query, *args, **options)

    gmail.list_messages = refuse_labelled
    with pytest.raises(GmailUnavailable):
        sync_mailbox(mailbox.account, gmail)
    assert mailbox.reload().history_cursor is None


def test_a_backfill_that_gives_a_cursor_compares_what_was_stored_before(mailbox: Mailbox) -> None:
    kept, deleted = mailbox.receive_many(2)
    sync(mailbox)
    run_ingests(mailbox)
    mailbox.gmail.modify_message(kept, add=["STARRED"])
    delete(mailbox, deleted)
    mailbox.simulator.expire_history(mailbox.account.address)
    mailbox.simulator.order_fault(Fault(503), method="messages.list")
    with pytest.raises(GmailUnavailable):
        sync(mailbox)
    backfill_page(mailbox.account, mailbox.gmail, query=None, page_token=None, history_id="")
    sync(mailbox)
    run_ingests(mailbox)
    assert in_store(mailbox) == {kept: {"INBOX", "UNREAD", "STARRED"}}


@pytest.mark.parametrize("what", ["labels", "deletion"])
def test_a_change_while_a_message_is_fetched_is_not_lost(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    sync(mailbox)
    arrived = mailbox.receive()
    sync(mailbox)
    parse = ingest.parse_message

    def slow(*arguments: object, **options: object) -> object:
        # This happens after Gmail's answer, before the message is stored.
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


WHICH = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), st.sampled_from(ARRIVE_IN)),
        st.tuples(st.sampled_from(["add", "remove"]), WHICH, st.sampled_from(LABELS)),
        st.tuples(st.just("delete"), WHICH),
        st.tuples(st.sampled_from([*WORK, "expire"])),
        st.tuples(st.just("push"), st.sampled_from(DELIVERIES), WHICH),
        st.tuples(st.just("crash"), st.sampled_from(["sync", "ingest"])),
        st.tuples(
            st.just("fault"),
            st.sampled_from(WORK),
            st.sampled_from(sorted(FAULTS)),
            st.sampled_from(METHODS),
            st.integers(1, 3),
        ),
        st.tuples(st.just("quota"), st.sampled_from(WORK), st.integers(0, 40)),
    ),
    max_size=25,
)


@pytest.mark.req("M-05")
@settings(
    max_examples=HISTORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_after_any_history_the_store_equals_the_mailbox(
    mailbox: Mailbox, small_pages: None, steps: list[Step]
) -> None:
    world = World.of(mailbox.firm, mailbox)
    for step in steps:
        world.play(step)
    world.settle()
    world.check()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages of listings small, so that there are several."""
    monkeypatch.setattr("mail.services.syncing.sync.PAGE_SIZE", 3)
