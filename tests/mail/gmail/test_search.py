"""The search language, operator by operator, over one small mailbox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from googleapiclient.errors import HttpError
from hypothesis import given
from hypothesis import strategies as st

from mail.gmail.simulator.answer import ApiError
from mail.gmail.simulator.search import Group, parse_query
from tests.mail.gmail.mailbox_kit import ADDRESS, encoded, letter

pytestmark = pytest.mark.req("M-03")

NOW = datetime.now(UTC)


def _ago(**age: int) -> str:
    return (NOW - timedelta(**age)).strftime("%a, %d %b %Y %H:%M:%S +0000")


def _mailbox() -> dict[str, tuple[bytes, list[str]]]:
    """Return messages by nickname, each with its labels."""
    return {
        "fees": (
            letter("Mooring fees", "The quay costs nine crowns.", message_id="fees@sail.example", date=_ago(days=2)),
            ["INBOX", "UNREAD"],
        ),
        "invoice": (
            letter("Invoice 17", "Please pay the fees soon.", sender='"Mast, Ann" <ann@mast.example>',
                   date=_ago(days=40), attachment=("17.pdf", b"x")),
            ["INBOX", "STARRED", "Label_1"],
        ),
        "old": (letter("Über das Boot", "Grüße vom Kai", date=_ago(days=800)), ["Label_2"]),
        "mine": (
            letter("Plan for June", "We sail at dawn.", sender=ADDRESS, to="crew@sail.example", date=_ago(days=5)),
            ["SENT"],
        ),
        "junk": (letter("Win a boat", "Cheap boats!", date=_ago(days=1)), ["SPAM", "UNREAD"]),
        "bin": (letter("Old quay map", "Superseded.", date=_ago(days=3)), ["TRASH"]),
    }  # fmt: skip


@pytest.fixture
def search(users, simulator):
    """Return a function that searches and returns the nicknames found, newest first."""
    shown = {"labelListVisibility": "labelShow", "messageListVisibility": "show"}
    for name in ("🤖 AI/Needs Response", "Boats & Sails"):
        users.labels().create(userId="me", body={"name": name, **shown}).execute()
    nicknames = {
        simulator.import_message(ADDRESS, raw, labels=labels).gmail_message_id: nickname
        for nickname, (raw, labels) in _mailbox().items()
    }
    body = {"message": {"raw": encoded(letter("Menu", "Soup and fish."))}}
    draft = users.drafts().create(userId="me", body=body).execute()
    nicknames[draft["message"]["id"]] = "draft"

    def find(query: str, **options) -> list[str]:
        answer = users.messages().list(userId="me", q=query, **options).execute()
        return [nicknames[item["id"]] for item in answer.get("messages", [])]

    return find


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "draft fees mine invoice old"),
        ("in:inbox", "fees invoice"),
        ("in:INBOX", "fees invoice"),
        ("in:sent", "mine"),
        ("in:drafts", "draft"),
        ("in:trash", "bin"),
        ("in:spam", "junk"),
        ("in:anywhere", "draft junk fees bin mine invoice old"),
        ("-in:trash -in:spam in:inbox", "fees invoice"),
        ('label:"🤖 AI/Needs Response"', "invoice"),
        ("label:🤖-ai-needs-response", "invoice"),
        ("label:🤖-AI/Needs-Response", "invoice"),
        ("label:boats---sails", "old"),
        ('-label:"🤖 AI/Needs Response" in:inbox', "fees"),
        ("label:inbox", "fees invoice"),
        ("label:nowhere", ""),
        ("-label:nowhere in:inbox", "fees invoice"),
        ("in:inbox newer_than:10d", "fees"),
        ("older_than:1m", "invoice old"),
        ("older_than:2y", "old"),
        ("newer_than:1y", "draft fees mine invoice"),
        ("from:ann@mast.example", "invoice"),
        ("from:mast.example", "invoice"),
        ("from:ANN", "invoice"),
        ('from:"Mast, Ann"', "invoice"),
        ("from:bob", "draft fees old"),
        ("to:crew", "mine"),
        ("to:ada@harbour.example subject:fees", "fees"),
        ("subject:fees", "fees"),
        ('subject:"mooring fees"', "fees"),
        ('subject:"fees mooring"', ""),
        ("subject:(fees mooring)", "fees"),
        ("subject:(invoice OR plan)", "mine invoice"),
        ("subject:{invoice plan}", "mine invoice"),
        ("from:(ann -bob)", "invoice"),
        ("rfc822msgid:fees@sail.example", "fees"),
        ("rfc822msgid:<fees@sail.example>", "fees"),
        ("rfc822msgid:Fees@sail.example", ""),
        ("is:unread", "fees"),
        ("is:read in:inbox", "invoice"),
        ("is:starred", "invoice"),
        ("has:attachment", "invoice"),
        ("-has:attachment in:inbox", "fees"),
        ("fees", "fees invoice"),
        ("FEES crowns", "fees"),
        ("fee", ""),
        ('"nine crowns"', "fees"),
        ('"crowns nine"', ""),
        ("uber kai", "old"),
        ("fees -invoice", "fees"),
        ("crowns OR dawn", "fees mine"),
        ("crowns OR dawn OR soup", "draft fees mine"),
        ("{crowns dawn} in:inbox", "fees"),
        ("in:inbox crowns OR dawn", "fees"),
        ("(crowns quay) OR (sail dawn)", "fees mine"),
        ("-(crowns OR dawn) in:inbox", "invoice"),
        ("-{in:inbox in:sent}", "draft old"),
        ("fees AND crowns", "fees"),
        ("quay", "fees"),
        ("quay in:anywhere", "fees bin"),
        ("OR fees", "fees invoice"),
        ('crowns "OR" dawn', ""),
        ("((fees", "fees invoice"),
        ('"nine crowns', "fees"),
        ("17:30", ""),
        ("in:inbox -", "fees invoice"),
    ],
)  # fmt: skip
def test_queries_find_what_gmail_would(search, query, found):
    assert search(query) == found.split()


def test_dates_are_days_in_pacific_time_or_exact_seconds(users, simulator):
    # 07:30 UTC on the 4th is still the 3rd in Pacific time.
    simulator.import_message(ADDRESS, letter(date="Tue, 04 Mar 2025 07:30:00 +0000"))

    def count(query: str) -> int:
        answer = users.messages().list(userId="me", q=query).execute()
        return len(answer.get("messages", []))

    seconds = int(datetime(2025, 3, 4, 7, 30, tzinfo=UTC).timestamp())
    assert count("after:2025/3/3") == count("before:2025/03/04") == 1
    assert count("after:2025/3/4") == count("before:2025-3-3") == 0
    assert count(f"after:{seconds}") == count(f"before:{seconds + 1}") == 1
    assert count(f"after:{seconds + 1}") == count(f"before:{seconds}") == 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("filename:pdf", ["invoice"]),
        ("filename:17.pdf", ["invoice"]),
        ("filename:7", []),
        ("has:attachment filename:doc", []),
        ("cc:crew@sail.example", ["copied"]),
        ("bcc:boss@sail.example", ["copied"]),
        ("cc:sail", ["copied"]),
        ("cc:boss", []),
        ("list:boats", ["copied"]),
        ("deliveredto:ada", ["copied"]),
        ("larger:100k", ["copied"]),
        ("size:1M", []),
        ("larger:100k smaller:1M", ["copied"]),
        ("smaller:1k subject:fees", ["fees"]),
        ("category:updates", ["copied"]),
        ("category:promotions", []),
        ("category:unheard", []),
    ],
)
def test_operators_of_headers_files_sizes_and_categories(users, simulator, search, query, found):
    raw = (
        b"Cc: The crew <crew@sail.example>\r\nBcc: boss@sail.example\r\n"
        b"List-Id: <boats.sail.example>\r\nDelivered-To: ada@harbour.example\r\n"
        + letter("Copied", "word " * 30_000, date=_ago(days=4))
    )
    labels = ["INBOX", "CATEGORY_UPDATES"]
    copied = simulator.import_message(ADDRESS, raw, labels=labels).gmail_message_id
    wanted = [one for one in found if one != "copied"]
    listed = users.messages().list(userId="me", q=query).execute().get("messages", [])
    assert (copied in [one["id"] for one in listed]) is ("copied" in found)
    assert len(listed) == len(found)
    if wanted:
        assert search(query) == wanted


def test_label_ids_and_spam_trash_work_beside_the_query(search):
    assert search("", labelIds=["INBOX", "UNREAD"]) == ["fees"]
    assert search("", labelIds=["TRASH"]) == ["bin"]
    assert search("quay", includeSpamTrash=True) == ["fees", "bin"]


@pytest.mark.parametrize(
    "query",
    ["around:noon", "larger:big", "is:muted", "has:drive", "newer_than:soon", "after:yesterday",
     "before:2025/13/40", "(" * 40, "newer_than:3h"],
)  # fmt: skip
def test_what_only_the_real_gmail_can_search_is_refused_not_guessed(users, query):
    with pytest.raises(HttpError) as refused:
        users.messages().list(userId="me", q=query).execute()
    assert refused.value.status_code == 400


def test_an_unknown_label_id_is_refused(users):
    with pytest.raises(HttpError) as refused:
        users.messages().list(userId="me", labelIds=["Label_9"]).execute()
    assert refused.value.status_code == 400


@given(st.text(alphabet='ab "-(){}:ORin\0\\*^', max_size=60) | st.text(max_size=40))
def test_any_text_is_a_query_or_is_refused_as_one(text):
    try:
        tree = parse_query(text)
    except ApiError as error:
        tree, refused = None, error.status
    else:
        refused = 0
    assert refused == 400 or isinstance(tree, Group)


@pytest.mark.parametrize("query", ['a"b', "NEAR(a b)", "a*", "^a", "a:b:c", "'; DROP", "🤖"])
def test_search_text_is_never_read_as_a_query_language_of_the_store(search, query):
    assert search(query) == []
