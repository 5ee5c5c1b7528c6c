"""Search among 100,000 messages: `python -m tests.benchmarks.search`.

The mail of one firm is made up, in ten shared mailboxes; another firm has mail, too. Words are as
frequent as in a language: the most frequent one is in nearly every message. A member searches over
REST and in the admin.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.harness import empty_database, keep

if TYPE_CHECKING:
    from tenants.models import Firm

BOUND_MS = 200
MESSAGES, OTHERS, MAILBOXES, CHUNK = 100_000, 10_000, 10, 2_000
WORDS_EACH = 60
ROUNDS = 15
# The words of each search, by rank of frequency, or the beginning of a word.
SEARCHES = {
    "a word in nearly every message": [0],
    "a word in one of a hundred": [900],
    "a rare word": [19_000],
    "three words": [3, 40, 400],
    "a beginning of many words": ["ka"],
    "a word of nobody": ["zzyzx"],
}
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


def main() -> int:
    """Measure and print; return 1 if the median of a search is above the bound."""
    with empty_database() as vendor:
        words = _words()
        results = _measure(words, _seed(words))
        for row in results:
            sys.stdout.write(
                "{door:5} {search:32} {found:5} p50 {p50_ms:6.1f} ms, longest {most_ms:6.1f} ms\n".format(
                    **row
                )
            )
        keep("search", vendor, {"messages": MESSAGES, "searches": results})
        return int(any(row["p50_ms"] > BOUND_MS for row in results))


def _words() -> list[str]:
    """Return 20,000 words, the most frequent first."""
    rng = random.Random(1)
    found: dict[str, None] = {}
    while len(found) < 20_000:
        found["".join(rng.choices(SYLLABLES, k=rng.randint(2, 5)))] = None
    return list(found)


def _seed(words: list[str]) -> Firm:
    from django.db import connection

    from tests.factories.tenants import FirmFactory

    firm = FirmFactory()
    rng = random.Random(2)
    shares = [1 / (place + 1) for place in range(len(words))]
    for one, count in ((firm, MESSAGES), (FirmFactory(), OTHERS)):
        _receive(one, count, lambda: rng.choices(words, shares, k=WORDS_EACH))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return firm


def _receive(firm: Firm, count: int, text: Any) -> None:
    """Store `count` messages of the firm with their words, newest last."""
    from mail.models import MailThread, Message
    from mail.services.documents.search import index_messages
    from tenants.scope import firm_scope
    from tests.factories.mail import MailAccountFactory, MailThreadFactory, MessageFactory

    first = datetime(2026, 1, 1, tzinfo=UTC)
    with firm_scope(firm):
        boxes = MailAccountFactory.create_batch(MAILBOXES, firm=firm, shared=True)
    for start in range(0, count, CHUNK):
        with firm_scope(firm):
            threads = [
                MailThreadFactory.build(firm=firm, account=boxes[number % MAILBOXES])
                for number in range(start, start + CHUNK)
            ]
            MailThread.objects.bulk_create(threads)
            messages = [
                MessageFactory.build(
                    firm=firm,
                    account=thread.account,
                    thread=thread,
                    internal_date=first + timedelta(minutes=start + number),
                    text=" ".join(text()),
                )
                for number, thread in enumerate(threads)
            ]
            index_messages(Message.objects.bulk_create(messages))


def _measure(words: list[str], firm: Firm) -> list[dict[str, Any]]:
    from django.test import Client

    from tenants.models import Role
    from tests.factories.tenants import new_member
    from tests.support.bounds import unbounded

    client = Client(SERVER_NAME="localhost")
    client.force_login(new_member(firm, Role.OPERATOR))
    results = []
    with unbounded():
        for door, address in (
            ("REST", "/api/v1/mail/messages/"),
            ("admin", "/admin/mail/message/"),
        ):
            for name, sought in SEARCHES.items():
                text = " ".join(words[one] if isinstance(one, int) else one for one in sought)
                results.append({"door": door, "search": name, **_time(client, address, text)})
    return results


def _time(client: Any, address: str, text: str) -> dict[str, Any]:
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        response = client.get(address, {"q": text})
        times.append((time.perf_counter() - begun) * 1000)
        if response.status_code != 200:
            raise RuntimeError(f"{address} answered {response.status_code}")
    is_json = "json" in response["Content-Type"]
    found = len(response.json()["results"]) if is_json else response.content.count(b"<tbody")
    return {"found": found, "p50_ms": median(times), "most_ms": max(times)}


if __name__ == "__main__":
    sys.exit(main())
