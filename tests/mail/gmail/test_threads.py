"""Which messages make a thread, and what threads.* do to them."""

from __future__ import annotations

import pytest
from googleapiclient.errors import HttpError

from tests.mail.gmail.mailbox_kit import ADDRESS, encoded, letter

pytestmark = pytest.mark.req("M-03")


def _thread(users, wire_id: str) -> str:
    return users.messages().get(userId="me", id=wire_id, format="minimal").execute()["threadId"]


@pytest.mark.parametrize(
    ("subject", "reply_to", "joins"),
    [
        ("Re: Mooring fees", "first@sail.example", True),
        ("RE: AW: Fwd:  mooring   FEES", "first@sail.example", True),
        ("Mooring fees", "first@sail.example", True),
        ("Re: Something else", "first@sail.example", False),
        ("Re: Mooring fees", "unknown@sail.example", False),
        ("Re: Mooring fees", "", False),
    ],
)
def test_a_reply_joins_by_reference_and_subject(users, simulator, subject, reply_to, joins):
    first = simulator.import_message(ADDRESS, letter(message_id="first@sail.example"))
    reply = simulator.import_message(ADDRESS, letter(subject, reply_to=reply_to))

    thread = _thread(users, reply.gmail_message_id)
    assert (thread == first.gmail_message_id) is joins


def test_the_order_of_arrival_does_not_split_a_thread(users, simulator):
    reply = letter("Re: Mooring fees", message_id="b@x", reply_to="a@x")
    late = simulator.import_message(ADDRESS, reply)
    root = simulator.import_message(ADDRESS, letter(message_id="a@x"))

    assert _thread(users, root.gmail_message_id) == _thread(users, late.gmail_message_id)


def test_threads_stay_inside_their_mailbox(users, simulator):
    simulator.import_message("bob@sail.example", letter(message_id="a@x"))
    reply = simulator.import_message(ADDRESS, letter("Re: Mooring fees", reply_to="a@x"))

    assert _thread(users, reply.gmail_message_id) == reply.gmail_message_id


@pytest.mark.parametrize(
    ("subject", "reply_to", "joins"),
    [
        ("Re: Mooring fees", "a@x", True),
        ("Re: Mooring fees", "", False),
        ("Another matter", "a@x", False),
        ("Re: Mooring fees", "elsewhere@x", False),
    ],
)
def test_a_given_thread_takes_a_sent_message_only_as_a_true_reply(
    users, simulator, subject, reply_to, joins
):
    first = simulator.import_message(ADDRESS, letter(message_id="a@x")).gmail_message_id
    simulator.import_message(ADDRESS, letter(text="another", message_id="elsewhere@x"))
    raw = letter(subject, reply_to=reply_to, sender=ADDRESS, to="bob@sail.example")
    body = {"raw": encoded(raw), "threadId": first}

    sent = users.messages().send(userId="me", body=body).execute()

    assert sent["threadId"] == (first if joins else sent["id"])


def test_an_unknown_thread_is_not_found(users):
    body = {"raw": encoded(letter()), "threadId": "0" * 16}

    for request in (
        users.messages().send(userId="me", body=body),
        users.threads().get(userId="me", id="0" * 16),
        users.threads().trash(userId="me", id="zzz"),
    ):
        with pytest.raises(HttpError) as refused:
            request.execute()
        assert refused.value.status_code == 404


def test_a_thread_shows_its_messages_oldest_first(users, simulator):
    newer = letter("Re: Mooring fees", reply_to="a@x", date="5 Mar 2025 10:00:00 +0000")
    simulator.import_message(ADDRESS, newer)
    older = letter(message_id="a@x", date="4 Mar 2025 10:00:00 +0000")
    simulator.import_message(ADDRESS, older)

    (summary,) = users.threads().list(userId="me").execute()["threads"]
    got = users.threads().get(userId="me", id=summary["id"], format="minimal").execute()

    dates = [int(message["internalDate"]) for message in got["messages"]]
    assert dates == sorted(dates)
    assert len(dates) == 2


def test_listing_pages_through_threads(users, simulator):
    for number in range(3):
        simulator.import_message(
            ADDRESS, letter(f"no {number}", date=f"{number + 1} Mar 2025 10:00:00 +0000")
        )

    first = users.threads().list(userId="me", maxResults=2).execute()
    rest = (
        users.threads().list(userId="me", maxResults=2, pageToken=first["nextPageToken"]).execute()
    )

    ids = [item["id"] for item in first["threads"] + rest["threads"]]
    assert len(set(ids)) == 3
    assert "nextPageToken" not in rest


def test_modifying_a_thread_leaves_its_draft_alone(users, simulator):
    first = simulator.import_message(ADDRESS, letter(message_id="a@x")).gmail_message_id
    reply = {"raw": encoded(letter("Re: Mooring fees", reply_to="a@x")), "threadId": first}
    users.drafts().create(userId="me", body={"message": reply}).execute()

    users.threads().modify(
        userId="me", id=first, body={"addLabelIds": ["STARRED"], "removeLabelIds": ["INBOX"]}
    ).execute()

    got = users.threads().get(userId="me", id=first, format="minimal").execute()
    assert [message["labelIds"] for message in got["messages"]] == [
        ["STARRED", "UNREAD"],
        ["DRAFT"],
    ]


def test_trash_and_untrash_move_the_whole_thread(users, simulator):
    first = simulator.import_message(ADDRESS, letter(message_id="a@x")).gmail_message_id
    simulator.import_message(ADDRESS, letter("Re: Mooring fees", reply_to="a@x"))

    trashed = users.threads().trash(userId="me", id=first).execute()
    untrashed = users.threads().untrash(userId="me", id=first).execute()

    assert all("TRASH" in message["labelIds"] for message in trashed["messages"])
    assert not any("TRASH" in message["labelIds"] for message in untrashed["messages"])
