"""Reading a mailbox: nothing lost, nothing twice, the cursor only forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from jobs.errors import PayloadInvalid
from jobs.states import Priority
from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator.faults import Fault
from mail.labels import LabelKey
from mail.models import EventType, MailAccount, MailEvent, SyncStatus
from mail.services import queueing
from mail.services.queueing import request_backfill, request_sync
from mail.services.syncing import sync
from mail.services.syncing.labels import ensure_own_labels
from mail.services.syncing.sync import backfill_page, sync_mailbox
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, jobs, letter, stored

pytestmark = pytest.mark.django_db

OWNER_LETTER = "Owner <owner@acme.example>"


def enqueued() -> list[str]:
    """Return Gmail's ids of the messages that wait to be ingested."""
    alone = [job.payload["gmail_message_id"] for job in jobs("ingest.gmail")]
    pages = [job.payload["gmail_message_ids"] for job in jobs("ingest.page.gmail")]
    return [*alone, *(one for page in pages for one in page)]


def synced(mailbox: Mailbox) -> int:
    """Sync once and return the cursor."""
    sync_mailbox(mailbox.account, mailbox.gmail)
    cursor = mailbox.reload().history_cursor
    assert cursor is not None
    return cursor


@pytest.mark.req("M-04")
def test_the_first_sync_scans_and_seeds_the_cursor(mailbox: Mailbox) -> None:
    arrived = mailbox.receive_many(3)
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.full
    assert sorted(enqueued()) == sorted(arrived)
    assert mailbox.reload().history_cursor == int(mailbox.gmail.profile()["historyId"])
    assert mailbox.account.sync_status == SyncStatus.NORMAL
    assert mailbox.account.last_sync_at is not None


@pytest.mark.req("M-04")
def test_later_syncs_read_only_what_is_new(mailbox: Mailbox) -> None:
    mailbox.receive()
    synced(mailbox)
    new = mailbox.receive(letter("Another question"))
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert not report.full
    assert report.listed == 1
    assert enqueued()[1:] == [new]


@pytest.mark.req("M-04")
def test_a_second_sync_changes_nothing(mailbox: Mailbox) -> None:
    mailbox.receive_many(2)
    cursor = synced(mailbox)
    assert sync_mailbox(mailbox.account, mailbox.gmail, force_full=True).enqueued == 0
    assert len(enqueued()) == 2
    assert mailbox.reload().history_cursor == cursor


@pytest.mark.req("M-04")
def test_history_is_read_to_its_last_page(mailbox: Mailbox) -> None:
    synced(mailbox)
    arrived = mailbox.receive_many(230)
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.pages == 3
    assert sorted(enqueued()) == sorted(arrived)


@pytest.mark.req("M-04")
def test_a_scan_lists_every_page(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "PAGE_SIZE", 4)
    arrived = mailbox.receive_many(10)
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.pages == 3
    assert sorted(enqueued()) == sorted(arrived)


@pytest.mark.req("M-04")
def test_a_crash_between_enqueue_and_cursor_loses_nothing(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = synced(mailbox)
    arrived = mailbox.receive_many(3)

    def crash(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(sync, "_advance_cursor", crash)
        with pytest.raises(RuntimeError, match="power cut"):
            sync_mailbox(mailbox.account, mailbox.gmail)
    assert enqueued() == []
    assert mailbox.reload().history_cursor == cursor
    synced(mailbox)
    assert sorted(enqueued()) == sorted(arrived)


@pytest.mark.req("M-04")
def test_a_crash_between_pages_keeps_the_pages_read(mailbox: Mailbox) -> None:
    cursor = synced(mailbox)
    arrived = mailbox.receive_many(150)
    gmail = mailbox.gmail
    read_page = gmail.history

    def lose_the_second_page(start: str, page_token: str | None = None) -> object:
        if page_token:
            raise GmailUnavailable(reason="timeout")
        return read_page(start, page_token)

    gmail.history = lose_the_second_page
    with pytest.raises(GmailUnavailable):
        sync_mailbox(mailbox.account, gmail)
    halfway = mailbox.reload().history_cursor
    assert halfway is not None
    assert halfway > cursor
    assert len(enqueued()) == 100
    synced(mailbox)
    assert sorted(enqueued()) == sorted(arrived)


@pytest.mark.req("M-04")
def test_the_cursor_never_goes_back(mailbox: Mailbox) -> None:
    cursor = synced(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(history_cursor=cursor + 10_000)
        sync._advance_cursor(mailbox.account, cursor)
        sync._seed_cursor(mailbox.account, cursor)
    assert mailbox.reload().history_cursor == cursor + 10_000


@pytest.mark.req("M-04")
def test_expired_history_leads_to_a_full_scan_and_a_new_cursor(mailbox: Mailbox) -> None:
    cursor = synced(mailbox)
    arrived = mailbox.receive_many(2)
    mailbox.simulator.expire_history(mailbox.account.address)
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.full
    assert sorted(enqueued()) == sorted(arrived)
    new_cursor = mailbox.reload().history_cursor
    assert new_cursor is not None
    assert new_cursor > cursor
    assert mailbox.account.sync_status == SyncStatus.NORMAL
    events = [(event.event_type, event.detail) for event in stored(MailEvent)]
    assert events == [(EventType.HISTORY_EXPIRED, {"cursor": cursor})]


@pytest.mark.req("M-04")
def test_mail_that_arrives_while_scanning_is_found_by_the_next_sync(mailbox: Mailbox) -> None:
    mailbox.receive()
    gmail = mailbox.gmail
    list_page = gmail.list_messages
    late: list[str] = []

    def list_then_receive(*args: object, **kwargs: object) -> object:
        page = list_page(*args, **kwargs)
        late.append(mailbox.receive(letter("Just now")))
        return page

    gmail.list_messages = list_then_receive
    sync_mailbox(mailbox.account, gmail)
    assert late[0] not in enqueued()
    synced(mailbox)
    assert late[0] in enqueued()


@pytest.mark.req("M-04")
def test_a_forced_scan_does_not_carry_the_cursor_past_unread_history(mailbox: Mailbox) -> None:
    synced(mailbox)
    old = mailbox.receive(at=datetime.now(UTC) - timedelta(days=400))
    sync_mailbox(mailbox.account, mailbox.gmail, force_full=True)
    assert enqueued() == [old]


@pytest.mark.req("M-04")
def test_a_scan_leaves_out_old_and_labelled_mail(mailbox: Mailbox, settings: Settings) -> None:
    settings.SYNC_FULL_DAYS = 10
    label_id = ensure_own_labels(mailbox.account, mailbox.gmail)[LabelKey.FYI]
    fresh = mailbox.receive()
    mailbox.receive(letter("Old"), at=datetime.now(UTC) - timedelta(days=12))
    mailbox.receive(letter("Labelled"), labels=("INBOX", label_id))
    sync_mailbox(mailbox.account, mailbox.gmail)
    assert enqueued() == [fresh]


@pytest.mark.req("M-04")
def test_a_scan_reaches_back_to_the_last_sync(mailbox: Mailbox, settings: Settings) -> None:
    settings.SYNC_FULL_DAYS = 10
    synced(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(last_sync_at=datetime.now(UTC) - timedelta(days=20))
    missed = mailbox.receive(at=datetime.now(UTC) - timedelta(days=18))
    mailbox.simulator.expire_history(mailbox.account.address)
    sync_mailbox(mailbox.account, mailbox.gmail)
    assert enqueued() == [missed]


@pytest.mark.req("M-04")
def test_own_label_writes_make_no_new_work(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    mailbox.store_all()
    cursor = synced(mailbox)
    labels = ensure_own_labels(mailbox.account, mailbox.gmail)
    mailbox.gmail.modify_message(arrived, add=[labels[LabelKey.FYI]], remove=["INBOX"])
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.listed == 0
    assert enqueued() == []
    assert synced(mailbox) > cursor


@pytest.mark.req("M-04")
def test_sent_mail_is_read_and_drafts_are_not(mailbox: Mailbox) -> None:
    synced(mailbox)
    sent = mailbox.receive(letter(sender=OWNER_LETTER), labels=("SENT",))
    mailbox.receive(letter("Unfinished", sender=OWNER_LETTER), labels=("DRAFT",))
    mailbox.receive(letter("Junk"), labels=("SPAM",))
    synced(mailbox)
    assert enqueued() == [sent]


@pytest.mark.req("M-04")
def test_waiting_syncs_coalesce_but_never_into_a_running_one(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        first = request_sync(mailbox.account)
        assert request_sync(mailbox.account, history_id="77").job_id == first.job_id
        assert request_sync(mailbox.account, force_full=True).created
    # From here on the first sync runs, and may already have passed mail that arrives now.
    sync._start(mailbox.account)
    with firm_scope(mailbox.firm):
        second = request_sync(mailbox.account)
        assert second.created
        assert request_sync(mailbox.account).job_id == second.job_id
    assert {job.priority for job in jobs("sync")} == {Priority.HIGH}
    assert {job.lock_key for job in jobs("sync")} == {f"gmail-sync:{mailbox.account.pk}"}


@pytest.mark.req("M-03", "M-04")
def test_a_backfill_reads_all_mail_a_page_to_a_job(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "PAGE_SIZE", 3)
    arrived = mailbox.receive_many(5, at=datetime(2003, 5, 1, tzinfo=UTC))
    before = int(mailbox.gmail.profile()["historyId"])
    first = backfill_page(
        mailbox.account, mailbox.gmail, query=None, page_token=None, history_id=""
    )
    assert first.enqueued == 3
    assert mailbox.reload().history_cursor is None
    (next_page,) = jobs("backfill.gmail")
    assert next_page.priority == Priority.LOW
    assert next_page.lock_key == f"gmail-sync:{mailbox.account.pk}"
    late = mailbox.receive(letter("Just now"))
    backfill_page(
        mailbox.account,
        mailbox.gmail,
        **{name: next_page.payload[name] for name in ("query", "page_token", "history_id")},
    )
    assert sorted(enqueued()) == sorted(arrived)
    assert mailbox.reload().history_cursor == before
    synced(mailbox)
    assert late in enqueued()


@pytest.mark.req("M-04")
def test_a_backfill_of_a_search_seeds_no_cursor(mailbox: Mailbox) -> None:
    wanted = mailbox.receive(letter("Invoice 7"))
    mailbox.receive(letter("Lunch", at=datetime(2003, 5, 1, tzinfo=UTC)))
    backfill_page(
        mailbox.account, mailbox.gmail, query="newer_than:7d", page_token=None, history_id=""
    )
    assert enqueued() == [wanted]
    assert mailbox.reload().history_cursor is None


@pytest.mark.req("M-04")
def test_a_second_backfill_is_not_refused_while_the_first_runs(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        first = request_backfill(mailbox.account)
        assert not request_backfill(mailbox.account).created
        assert request_backfill(mailbox.account, query="newer_than:7d").created
    sync._start(mailbox.account)
    with firm_scope(mailbox.firm):
        assert request_backfill(mailbox.account).job_id != first.job_id


@pytest.mark.req("M-23")
@pytest.mark.parametrize(
    "query", ["diagnosis", "newer_than:7d subject:offer", "{in:inbox from:anna}", "has:attachment"]
)
def test_a_backfill_tells_nobody_what_is_in_mail(mailbox: Mailbox, query: str) -> None:
    with (
        firm_scope(mailbox.firm),
        pytest.raises(PayloadInvalid, match=r"query.*not about when or where"),
    ):
        request_backfill(mailbox.account, query=query)


@pytest.mark.req("M-04")
def test_long_searches_and_page_tokens_fit_into_a_key(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        assert request_backfill(mailbox.account, query="in:inbox " * 500).created
        queueing.enqueue_next_page(
            mailbox.account, query=None, page_token="t" * 5000, history_id="1"
        )
    assert len(jobs("backfill.gmail")) == 2


@pytest.mark.req("M-02", "M-04")
def test_a_gmail_that_fails_leaves_everything_as_it_was(mailbox: Mailbox) -> None:
    cursor = synced(mailbox)
    mailbox.receive()
    mailbox.simulator.order_fault(Fault(status=503), method="history.list")
    with pytest.raises(GmailUnavailable):
        sync_mailbox(mailbox.account, mailbox.gmail)
    assert mailbox.reload().history_cursor == cursor
    assert enqueued() == []
