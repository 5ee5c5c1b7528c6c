"""`manage.py demo [--mail PATH [--address ADDRESS]]`: the whole path, on sample or own mail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils.text import Truncator
from rich.status import Status

from interfaces.commands import JsonCommand, NotFound, Refused, nonempty_path
from mail.conf import demo_worker_log
from mail.models import MailAccount
from mail.services.importing.import_mail import ImportReport, guess_address, import_mail
from mail.services.importing.mail_files import Unreadable
from mail.services.importing.sample_mailbox import (
    SAMPLE_ADDRESS,
    SAMPLE_OWNER,
    apply_rule,
    ask_to_forward,
    import_sample,
    undo_newest_archive,
)
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.credentials import gmail_of
from mail.services.mailboxes.overview import Overview, live_jobs, overview_of
from mail.services.queueing import request_backfill, request_sync
from mail.services.syncing.labels import ensure_own_labels
from tenants.models import Firm
from tenants.scope import firm_scope

FIRM_SLUG = "demo"
OWN_MAIL_ADDRESS = "my.mail@demo.example"
PROGRESS_SECONDS = 0.5
SUBJECT_CHARS = 60
LAST_LOG_LINES = 5


@dataclass(frozen=True)
class DemoResult:
    """What the demo imported and what became of it."""

    account: str
    imported: ImportReport
    overview: Overview
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the result as one flat object."""
        return {
            "account": self.account,
            **asdict(self.imported),
            **asdict(self.overview),
            "seconds": self.seconds,
        }


class Command(JsonCommand):
    """Reads a mailbox through the real queue and worker, and shows what came of it."""

    help = "Run the whole path, from mailbox to labels, on sample mail or on your own."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options for one's own mail."""
        parser.add_argument(
            "--mail",
            type=nonempty_path,
            metavar="PATH",
            help="mbox file, Maildir, .eml file or folder",
        )
        parser.add_argument(
            "--address", help="the address of the mail's owner; guessed from the mail unless given"
        )

    def handle(
        self, *_: Any, mail: Path | None, address: str | None, json: bool, **__: Any
    ) -> None:
        """Import, run a worker until the queue is empty, and report; a repeated run is safe."""
        if mail is not None and not mail.exists():
            raise NotFound(f"{mail} does not exist")
        if address is not None and mail is None:
            raise Refused("--address needs --mail: it says whose mail that is")
        started = monotonic()
        firm = Firm.objects.get_or_create(slug=FIRM_SLUG, defaults={"name": "Demo"})[0]
        if mail is None:
            account = open_account(firm, SAMPLE_ADDRESS, display_name=SAMPLE_OWNER)
            imported = import_sample(account)
        else:
            account = self._own_account(firm, mail, address)
            imported = import_mail(account, mail, on_unreadable=self._name_unreadable)
        ensure_own_labels(account, gmail_of(account))
        with firm_scope(firm):
            request_backfill(account)
            request_sync(account)
        self._drain(account, quiet=json)
        if mail is None:
            self._tour(account, quiet=json)
        seconds = round(monotonic() - started, 1)
        result = DemoResult(account.address, imported, overview_of(account), seconds)
        if json:
            self.emit(result.as_json())
        else:
            self._show(result)

    def _tour(self, account: MailAccount, *, quiet: bool) -> None:
        apply_rule(account)
        ask_to_forward(account)
        self._drain(account, quiet=quiet)
        undo_newest_archive(account)
        self._drain(account, quiet=quiet)

    def _own_account(self, firm: Firm, mail: Path, address: str | None) -> MailAccount:
        try:
            return open_account(firm, address or guess_address(mail) or OWN_MAIL_ADDRESS)
        except ValueError as error:
            if address is not None:
                raise Refused(str(error)) from error
            return open_account(firm, OWN_MAIL_ADDRESS)

    def _name_unreadable(self, found: Unreadable) -> None:
        self.stderr.write(f"unreadable: {found.place}: {found.reason}")

    def _drain(self, account: MailAccount, *, quiet: bool) -> None:
        """Run a worker of its own until no job is runnable.

        Raises:
            Refused: the worker failed; the last lines of its log are shown.
        """
        log = demo_worker_log()
        console = self.console()
        # Outside a terminal the status would print nothing but an empty line.
        quiet = quiet or not console.is_terminal
        status = Status("Starting the worker", console=console)
        with log.open("wb") as output:
            worker = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, settings.BASE_DIR / "manage.py", "runworker", "--burst"],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            if not quiet:
                status.start()
            try:
                while (code := _exit_code(worker)) is None:
                    status.update(f"Working: {live_jobs(account)} jobs left")
            finally:
                status.stop()
                worker.terminate()
        if code:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise Refused("\n".join([f"the worker failed, see {log}:", *tail[-LAST_LOG_LINES:]]))

    def _show(self, result: DemoResult) -> None:
        found, overview = result.imported, result.overview
        rows: list[tuple[str, str, object]] = [
            ("messages", "imported now", found.imported),
            ("", "already there", found.already_there),
            ("", "unreadable", found.unreadable),
            ("", "stored", overview.messages),
            ("threads", "", overview.threads),
        ]
        rows += _section("decisions", overview.decisions)
        for action_type, by_status in overview.actions.items():
            rows += _section(f"action {action_type}", by_status)
        for source, by_status in overview.drafts.items():
            rows += _section(f"draft by {source}", by_status)
        rows += _section("jobs", overview.jobs)
        rows += [
            ("approvals", "waiting", overview.approvals_waiting),
            ("dead letters", "open", overview.dead_letters),
            ("seconds", "", result.seconds),
        ]
        self.table(f"{result.account}", ["what", "which", "count"], rows)
        self.table(
            "One decision of each category, and why",
            ["category", "by", "message", "why"],
            [
                (
                    one.category,
                    one.source,
                    Truncator(one.subject).chars(SUBJECT_CHARS),
                    one.rationale,
                )
                for one in overview.examples
            ],
        )
        python = _as_typed(Path(sys.executable))
        self.stdout.write(
            "\nWhere to look next:\n"
            f"  {python} manage.py jobs list --limit 20\n"
            f"  {python} manage.py createsuperuser     a login for the admin\n"
            "  make run        then http://127.0.0.1:8000/admin/mail/message/\n"
            f"  {_as_typed(demo_worker_log())}        what the worker logged"
        )


def _exit_code(worker: subprocess.Popen[bytes]) -> int | None:
    try:
        return worker.wait(timeout=PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _section(title: str, counts: dict[str, int]) -> list[tuple[str, str, object]]:
    return [(title if not row else "", name, n) for row, (name, n) in enumerate(counts.items())]


def _as_typed(path: Path) -> Path:
    """Return the path relative to the current folder, if it lies below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
