"""GmailClient, the product's client of Gmail, run against the simulator."""

from __future__ import annotations

import threading

import pytest

from mail.gmail import errors
from mail.gmail.client import GmailClient
from mail.gmail.connect import google_client, local_gmail, simulator_client
from mail.gmail.oauth import AccessToken
from mail.gmail.simulator.transport import SimulatorHttp
from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-02")


@pytest.fixture
def stored(simulator) -> str:
    raw = letter(message_id="fees@sail.example", attachment=("fees.pdf", b"%PDF-1.4"))
    return simulator.import_message(ADDRESS, raw).gmail_message_id


def test_the_profile_names_the_mailbox_and_its_cursor(gmail, stored):
    profile = gmail.profile()

    assert profile["emailAddress"] == ADDRESS
    assert (profile["messagesTotal"], profile["threadsTotal"]) == (1, 1)
    assert int(profile["historyId"]) > 0


def test_listing_searches_and_pages(gmail, simulator, stored):
    other = simulator.import_message(ADDRESS, letter("Other")).gmail_message_id

    first = gmail.list_messages("in:inbox", max_results=1)
    second = gmail.list_messages("in:inbox", first["nextPageToken"], 1)

    assert first["messages"] + second["messages"] == [
        {"id": other, "threadId": other},
        {"id": stored, "threadId": stored},
    ]
    assert "messages" not in gmail.list_messages("subject:nothing")


def test_messages_threads_and_attachments_are_read(gmail, stored):
    message = gmail.get_message(stored)
    attachment_id = message["payload"]["parts"][1]["body"]["attachmentId"]

    assert gmail.get_attachment(stored, attachment_id) == b"%PDF-1.4"
    assert "payload" not in gmail.get_message(stored, "minimal")
    assert [item["id"] for item in gmail.get_thread(stored)["messages"]] == [stored]


def test_labels_are_made_listed_and_put_on(gmail, stored):
    label = gmail.create_label("Boats")

    assert label in gmail.list_labels()
    assert gmail.modify_message(stored, add=[label["id"]], remove=["INBOX"])["labelIds"] == [
        label["id"],
        "UNREAD",
    ]
    gmail.batch_modify([stored], add=["INBOX"], remove=["UNREAD"])
    assert gmail.get_message(stored, "minimal")["labelIds"] == ["INBOX", label["id"]]
    with pytest.raises(errors.GmailConflict):
        gmail.create_label("boats")


def test_trash_and_untrash(gmail, stored):
    assert "TRASH" in gmail.trash(stored)["labelIds"]
    assert "TRASH" not in gmail.untrash(stored)["labelIds"]


def test_history_pages_and_expires(gmail, simulator, stored):
    start = gmail.profile()["historyId"]
    for subject in ("a", "b"):
        simulator.import_message(ADDRESS, letter(subject))

    assert len(gmail.history(start)["history"]) == 2
    simulator.expire_history(ADDRESS)
    with pytest.raises(errors.GmailHistoryExpired):
        gmail.history(start)


def test_what_is_gone_is_not_found(gmail):
    with pytest.raises(errors.GmailNotFound) as raised:
        gmail.get_message("0" * 16)
    assert raised.value.status == 404


def test_each_thread_has_its_own_connection(simulator):
    opened = []

    def open_http() -> SimulatorHttp:
        opened.append(threading.get_ident())
        return SimulatorHttp(simulator, ADDRESS)

    gmail = GmailClient(open_http)
    gmail.profile()
    gmail.profile()
    thread = threading.Thread(target=gmail.profile)
    thread.start()
    thread.join()

    assert len(opened) == len(set(opened)) == 2


def test_the_local_mailbox_is_made_on_first_use(tmp_path):
    store = tmp_path / "fresh" / "gmail.sqlite3"

    profile = simulator_client("New@Harbour.example", store).profile()

    assert profile["emailAddress"] == "new@harbour.example"
    assert local_gmail(store) is local_gmail(store)
    assert local_gmail(store).addresses() == ["new@harbour.example"]


class NoToken:
    """A source of tokens whose account must be connected again."""

    def fresh(self, refused: str | None) -> AccessToken:
        raise errors.GmailNeedsReauth(reason="invalid_grant")


def test_without_a_token_google_is_not_asked_at_all():
    with pytest.raises(errors.GmailNeedsReauth):
        google_client(NoToken()).profile()


def test_a_thread_keeps_its_connection_from_one_client_to_the_next():
    first, second = (google_client(NoToken())._http().http for _ in range(2))
    assert first is second
    other = []
    thread = threading.Thread(target=lambda: other.append(google_client(NoToken())._http().http))
    thread.start()
    thread.join()
    assert other != [first]
