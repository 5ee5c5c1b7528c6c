"""`manage.py runworker`: claim jobs and run them."""

from __future__ import annotations

import argparse
import os
import signal
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs import conf
from jobs.states import Category
from jobs.worker.loop import WorkerLoop
from jobs.worker.options import WorkerOptions

DEFAULT_GRACE_SECONDS = 25.0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be zero or more seconds")
    return value


class Command(BaseCommand):
    """Runs one worker until it is told to stop."""

    help = "Claim jobs and run them until stopped (SIGTERM, SIGINT; twice: at once)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to serve, how much at a time, and when to end."""
        parser.add_argument(
            "--concurrency",
            type=_positive,
            default=conf.worker_concurrency(),
            metavar="N",
            help="handlers at a time (default: %(default)s)",
        )
        parser.add_argument(
            "--category",
            action="append",
            default=[],
            choices=[word.value for word in Category],
            help="serve this category alone; may be repeated",
        )
        parser.add_argument(
            "--job-type",
            action="append",
            default=[],
            metavar="TYPE",
            help="serve this type alone; may be repeated",
        )
        parser.add_argument("--burst", action="store_true", help="end when nothing is runnable")
        parser.add_argument(
            "--max-jobs", type=_positive, metavar="N", help="end after this many jobs"
        )
        parser.add_argument(
            "--poll-interval",
            type=_seconds,
            default=conf.poll_seconds(),
            metavar="SECONDS",
            help="between two looks at an empty queue (default: %(default)s)",
        )
        parser.add_argument(
            "--grace",
            type=_seconds,
            default=DEFAULT_GRACE_SECONDS,
            metavar="SECONDS",
            help="running handlers get this long to finish (default: %(default)s)",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the loop; the first signal ends it in order, the second at once."""
        loop = WorkerLoop(
            WorkerOptions(
                concurrency=options["concurrency"],
                poll_seconds=options["poll_interval"],
                grace_seconds=options["grace"],
                categories=tuple(options["category"]),
                job_types=tuple(options["job_type"]),
                burst=options["burst"],
                max_jobs=options["max_jobs"],
            )
        )

        def stop(_: int, __: FrameType | None) -> None:
            if loop.state.stopping.is_set():
                os._exit(1)
            loop.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        self.stderr.write(_greeting(loop.options))
        loop.run()


def _greeting(options: WorkerOptions) -> str:
    served = ", ".join((*options.categories, *options.job_types)) or "all jobs"
    mode = " until nothing is runnable" if options.burst else ""
    return f"Worker {os.getpid()} serves {served}{mode}, {options.concurrency} at a time."
