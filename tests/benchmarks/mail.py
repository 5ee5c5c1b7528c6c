"""The cost of a mail, from Gmail to its label: `python -m tests.benchmarks.mail`.

Twenty mailboxes are in a simulator that another process serves over HTTP; one worker of three
threads syncs, ingests, classifies and labels. Measured are the mails that are there when the
mailboxes are connected (bulk), then mails that arrive in one mailbox after the other (one by one),
and answers to them, which move the label of their conversation. Attachments are read separately,
and the figures for that are per document. Processor time is the worker's only. Queries are all
statements of the worker, with those of the queue, without BEGIN and COMMIT.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.benchmarks.harness import empty_database, keep

if TYPE_CHECKING:
    from mail.gmail.simulator.api import GmailSimulator
    from mail.models import MailAccount

MAILBOXES, COPIES, ARRIVALS = 20, 2, 5
# Gmail's quota units by method; see its page on usage limits.
UNITS = Counter(
    {
        "getProfile": 1,
        "history.list": 2,
        "labels.list": 1,
        "labels.get": 1,
        "labels.create": 5,
        "messages.get": 5,
        "messages.list": 5,
        "messages.modify": 5,
        "messages.batchModify": 50,
        "messages.attachments.get": 5,
        "settings.sendAs.list": 1,
        "threads.modify": 10,
    }
)
_BATCH_PART = re.compile(rb"^(GET|POST) (/gmail/\S+) HTTP", re.MULTILINE)
_ANSWER = re.compile(rb"^In-Reply-To:", re.MULTILINE | re.IGNORECASE)
_IDS = re.compile(rb"<([^<>\s@]+)@", re.MULTILINE)


class Meter:
    """Counts the queries of this process and its requests to Gmail."""

    def __init__(self) -> None:
        self.queries = 0
        self.methods: Counter[str] = Counter()

    def install(self) -> None:
        """Start to count, in every thread."""
        from django.db import connection
        from django.db.backends.signals import connection_created

        from mail.gmail.connect import SendOnceHttp

        def count_query(execute: Any, *args: Any) -> Any:
            self.queries += 1
            return execute(*args)

        def watch(*, connection: Any, **_: Any) -> None:
            # A connection that is opened again keeps its wrappers.
            if count_query not in connection.execute_wrappers:
                connection.execute_wrappers.append(count_query)

        connection_created.connect(watch, weak=False)
        connection.execute_wrappers.append(count_query)
        request = SendOnceHttp.request

        def count_request(http: Any, uri: str, method: str = "GET", **kwargs: Any) -> Any:
            self._count(uri, method, kwargs.get("body"))
            return request(http, uri, method=method, **kwargs)

        SendOnceHttp.request = count_request  # type: ignore[method-assign]

    def _count(self, uri: str, method: str, body: bytes | str | None) -> None:
        from mail.gmail.simulator.discovery import find_method

        path = urlsplit(uri).path
        if not path.startswith("/batch"):
            self.methods[find_method(method, path)[0].name] += 1
            return
        text = body.encode() if isinstance(body, str) else body or b""
        for verb, part in _BATCH_PART.findall(text):
            self.methods[find_method(verb.decode(), urlsplit(part.decode()).path)[0].name] += 1

    @property
    def units(self) -> int:
        """Return the quota units of the requests so far."""
        return sum(UNITS[name] * count for name, count in self.methods.items())


def main() -> int:
    """Measure and print; return 0."""
    os.environ.setdefault("OAUTHLIB_INSECURE_TRANSPORT", "1")
    with empty_database() as vendor, tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "gmail.sqlite3"
        with served(store):
            figures = measure(store)
    sys.stdout.write(keep("mail", vendor, figures) + "\n")
    return 0


@contextmanager
def served(store: Path) -> Iterator[None]:
    """Serve the simulator from another process, and let the product use it in place of Google."""
    from django.conf import settings

    command = [sys.executable, "manage.py", "gmail_simulator", "--port", "0", "--json"]
    with subprocess.Popen([*command, "--store", str(store)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        settings.GMAIL_BACKEND = "google"
        settings.GMAIL_API_BASE = json.loads(server.stdout.readline())["url"]
        settings.GOOGLE_CLIENT_ID = settings.GOOGLE_CLIENT_SECRET = "benchmark"
        try:
            yield
        finally:
            server.terminate()


def measure(store: Path) -> dict[str, Any]:
    """Return the cost of a mail in bulk, and one by one."""
    from mail.gmail.simulator.api import GmailSimulator
    from mail.services.queueing import request_backfill, request_sync
    from mail.services.syncing.labels import ensure_own_labels
    from tenants.scope import firm_scope

    simulator = GmailSimulator(store)
    addresses = [f"owner{number}@bench.example" for number in range(MAILBOXES)]
    accounts = [open_mailbox(simulator, address, "bench") for address in addresses]
    letters = sample_letters()
    meter = Meter()
    meter.install()
    for account in accounts:
        now = datetime.now(UTC)
        for copy in range(COPIES):
            for number, raw in enumerate(letters):
                at = now - timedelta(minutes=(COPIES - copy) * len(letters) - number)
                _receive(simulator, account, with_other_ids(raw, copy), at)
        _connection_of(account, ensure_own_labels)
        with firm_scope(account.firm_id):
            request_backfill(account)
            request_sync(account)
    bulk = _run(meter, MAILBOXES * COPIES * len(letters))
    documents = _run_documents(meter)
    _drain_echo(meter, accounts)
    arrivals: dict[str, list[dict[str, float]]] = {"one_by_one": [], "answer": []}
    for letter in letters[:ARRIVALS]:
        for account in accounts:
            _receive(simulator, account, with_other_ids(letter, COPIES), datetime.now(UTC))
            with firm_scope(account.firm_id):
                request_sync(account, job_type="history.sync.gmail")
        kind = "answer" if _ANSWER.search(letter) else "one_by_one"
        arrivals[kind].append(_run(meter, MAILBOXES))
        _run_documents(meter)
    figures = {kind: _mean(runs) for kind, runs in arrivals.items()}
    return {"bulk": bulk, **figures, "document": documents}


def open_mailbox(simulator: GmailSimulator, address: str, firm_slug: str) -> MailAccount:
    """Connect a mailbox of the simulator; create its firm if there is none."""
    from mail.gmail.oauth import AccessToken, Grant
    from mail.services.mailboxes.accounts import open_account
    from mail.services.mailboxes.credentials import store_grant
    from tenants.models import Firm
    from tenants.scope import firm_scope

    firm = Firm.objects.get_or_create(slug=firm_slug, defaults={"name": firm_slug})[0]
    account = open_account(firm, address)
    value = simulator.access_token(account.address)
    access = AccessToken(value, datetime.now(UTC) + timedelta(days=1))
    with firm_scope(firm):
        store_grant(account, Grant(refresh_token="none", access=access, scopes=frozenset()))
    return account


def _connection_of(account: MailAccount, act: Any) -> None:
    from mail.services.mailboxes.credentials import gmail_of

    act(account, gmail_of(account))


def sample_letters() -> list[bytes]:
    """Return the product's sample mail."""
    from mail.services.importing.mail_files import FoundMessage, find_messages
    from mail.services.importing.sample_mailbox import SAMPLE_PATH

    found = find_messages(SAMPLE_PATH / "inbox")
    return [one.raw for one in found if isinstance(one, FoundMessage)]


def with_other_ids(raw: bytes, copy: int) -> bytes:
    """Return the letter with other message ids, so that copies form conversations of their own."""
    head, separator, body = raw.partition(b"\n\n")
    if b"\r\n\r\n" in raw[: len(head) + 2]:
        head, separator, body = raw.partition(b"\r\n\r\n")
    return _IDS.sub(rb"<\1.%d@" % copy, head) + separator + body


def _receive(simulator: GmailSimulator, account: MailAccount, raw: bytes, at: datetime) -> None:
    simulator.import_message(account.address, raw, internal_date=at)


def _drain_echo(meter: Meter, accounts: list[MailAccount]) -> None:
    """Read the history of the product's own label changes, which is not part of a mail's cost."""
    from mail.services.queueing import request_sync
    from tenants.scope import firm_scope

    for account in accounts:
        with firm_scope(account.firm_id):
            request_sync(account)
    _run(meter, 1)


def _run_documents(meter: Meter) -> dict[str, float]:
    """Let a worker read the waiting attachments; return the cost of each."""
    from mail.models import Document, DocumentStatus
    from tenants.scope import all_firms

    with all_firms("counting what the benchmark has read"):
        waiting = Document.objects.filter(status=DocumentStatus.WAITING).count()
    figures = _run(meter, max(waiting, 1), documents=True)
    return {"documents" if name == "mails" else name: one for name, one in figures.items()}


def _run(meter: Meter, mails: int, *, documents: bool = False) -> dict[str, float]:
    """Let a worker do all jobs about documents, or all others; return the cost of each mail."""
    from jobs.registry import all_types
    from mail.services.documents.documents import EXTRACT_TYPE, FETCH_TYPE, SCAN_TYPE
    from tests.support.worker_loop import worker_loop

    about_documents = {FETCH_TYPE, SCAN_TYPE, EXTRACT_TYPE}
    names = {one.name for one in all_types()}
    wanted = names & about_documents if documents else names - about_documents
    meter.queries, meter.methods = 0, Counter()
    begun, processor = time.monotonic(), time.process_time()
    worker_loop(concurrency=3, job_types=tuple(sorted(wanted))).run()
    seconds, processor = time.monotonic() - begun, time.process_time() - processor
    if os.environ.get("BENCH_METHODS"):
        sys.stderr.write(f"{mails}: {dict(meter.methods)}\n")
    return {
        "mails": mails,
        "per_second": mails / seconds,
        "processor_ms": 1000 * processor / mails,
        "queries": meter.queries / mails,
        "units": meter.units / mails,
    }


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    means = {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
    return means | {"mails": sum(run["mails"] for run in runs)}


if __name__ == "__main__":
    sys.exit(main())
