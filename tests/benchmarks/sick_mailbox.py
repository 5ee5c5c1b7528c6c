"""Whether a mailbox that Gmail refuses slows down another one of its firm.

Run by `python -m tests.benchmarks.sick_mailbox`. There are two mailboxes of one firm, and one
worker of four threads. Sixty messages arrive in the healthy mailbox. Meanwhile the other one has
nothing to do (idle), or a hundred messages to be read, for which Gmail answers each request with
401, 429 or 503, or not at all. The states take turns, with a new firm for each run. Prints the
median of the seconds until all sixty messages are judged. `--rounds` says how often each state
runs, `--seconds` for how long the other mailbox has been refused by then.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.harness import empty_database, keep
from tests.benchmarks.mail import open_mailbox, sample_letters, served, with_other_ids

if TYPE_CHECKING:
    from mail.gmail.simulator.api import GmailSimulator
    from mail.models import MailAccount

SICK, HEALTHY = 100, 60
STATES = ("idle", "401", "429", "503", "silent")
# Longer than the product waits for an answer, so that the product gives up first.
NEVER_SECONDS = 3600


class Silence:
    """Lets requests for these mailboxes wait until the client gives up."""

    def __init__(self) -> None:
        self._bearers: set[str] = set()
        self._ended = threading.Event()

    def install(self) -> None:
        """Intercept the client's requests."""
        from mail.gmail.connect import SendOnceHttp

        request = SendOnceHttp.request

        def wait_in_vain(http: Any, uri: str, method: str = "GET", **kwargs: Any) -> Any:
            headers = {name.lower(): value for name, value in (kwargs.get("headers") or {}).items()}
            if headers.get("authorization") in self._bearers:
                self._ended.wait(http.timeout or NEVER_SECONDS)
                raise TimeoutError("timed out")
            return request(http, uri, method=method, **kwargs)

        SendOnceHttp.request = wait_in_vain  # type: ignore[method-assign]

    @contextmanager
    def over(self, token: str) -> Iterator[None]:
        """Let requests with this token wait without an answer inside the block."""
        self._ended.clear()
        self._bearers.add(f"Bearer {token}")
        try:
            yield
        finally:
            self._bearers.clear()
            self._ended.set()


def main() -> int:
    """Measure and print; return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    os.environ.setdefault("OAUTHLIB_INSECURE_TRANSPORT", "1")
    with empty_database() as vendor, tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "gmail.sqlite3"
        with served(store):
            runs = measure(store, options.rounds, options.seconds)
    figures = {state: {"seconds": median(taken), "runs": taken} for state, taken in runs.items()}
    sys.stdout.write(keep("sick-mailbox", vendor, figures) + "\n")
    return 0


def measure(store: Path, rounds: int, sick_seconds: float) -> dict[str, list[float]]:
    """Return the seconds of each run, by the state of the other mailbox."""
    from mail.gmail.simulator.api import GmailSimulator

    simulator, silence = GmailSimulator(store), Silence()
    silence.install()
    runs: dict[str, list[float]] = {state: [] for state in STATES}
    for number in range(rounds):
        for state in STATES:
            taken = _run(simulator, silence, f"{state}-{number}", state, sick_seconds)
            runs[state].append(round(taken, 2))
    return runs


def _run(
    simulator: GmailSimulator, silence: Silence, name: str, state: str, sick_seconds: float
) -> float:
    from tests.support.worker_loop import worker_loop, working

    sick, healthy = (open_mailbox(simulator, f"{who}@{name}.example", name) for who in "sh")
    token = simulator.access_token(sick.address)
    if state != "idle":
        _let_arrive(simulator, sick, SICK, read_each=True)
    with silence.over(token if state == "silent" else "nobody's"):
        if state.isdigit():
            _refuse(simulator, sick, int(state))
        with working(worker_loop(concurrency=4, burst=False, poll_seconds=0.2)):
            threading.Event().wait(sick_seconds)
            begun = time.monotonic()
            _let_arrive(simulator, healthy, HEALTHY)
            _until_judged(healthy, HEALTHY)
            taken = time.monotonic() - begun
        simulator.clear_faults()
    _stop_firm(healthy)
    return taken


def _stop_firm(account: MailAccount) -> None:
    """Stop all jobs of the firm, because those that are left would take time from the next run."""
    from tenants.models import Firm

    Firm.objects.filter(pk=account.firm_id).update(active=False)


def _refuse(simulator: GmailSimulator, account: MailAccount, status: int) -> None:
    from mail.gmail.simulator.faults import Fault

    simulator.order_fault(Fault(status), address=account.address, times=1_000_000)


def _let_arrive(
    simulator: GmailSimulator, account: MailAccount, count: int, *, read_each: bool = False
) -> None:
    from mail.services.queueing import enqueue_each_ingest, request_sync
    from tenants.scope import firm_scope

    letters = sample_letters()
    ids = []
    for number in range(count):
        copy, place = divmod(number, len(letters))
        raw = with_other_ids(letters[place], copy)
        found = simulator.import_message(account.address, raw, internal_date=datetime.now(UTC))
        ids.append(found.gmail_message_id)
    with firm_scope(account.firm_id):
        request_sync(account)
        if read_each:
            enqueue_each_ingest(account, ids)


def _until_judged(account: MailAccount, messages: int) -> None:
    """Wait until every message is stored, and the newest of each conversation is judged."""
    from mail.models import MailThread, Message
    from tenants.scope import firm_scope

    while True:
        with firm_scope(account.firm_id):
            stored = Message.objects.filter(account=account).count()
            threads = MailThread.objects.filter(account=account)
            judged = threads.exclude(classified_upto=None).count()
            outgoing = threads.filter(classified_upto=None, messages__outgoing=False).exists()
            if stored >= messages and judged and not outgoing:
                return
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
