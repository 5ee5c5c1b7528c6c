"""The options of `runworker`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from django.core.management.base import CommandParser

from jobs import conf, registry
from jobs.errors import UnknownJobType
from jobs.states import Category

DEFAULT_GRACE_SECONDS = 25.0
# More handlers or processes than any machine can have.
MOST_AT_ONCE = 10_000
MOST_JOBS, MOST_DIGITS = 10**15, 20


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:MOST_DIGITS]) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most:,}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, at least 0")
    return value


_port = _whole(65_535)


def add_serving(parser: CommandParser) -> None:
    """Add the options for what to serve, and how much at a time."""
    parser.add_argument(
        "--concurrency",
        type=_whole(MOST_AT_ONCE),
        default=conf.worker_concurrency(),
        metavar="N",
        help="handlers at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--category",
        action="append",
        default=[],
        choices=[word.value for word in Category],
        help="serve only this category; may be repeated",
    )
    parser.add_argument(
        "--job-type",
        action="append",
        default=[],
        type=_job_type,
        metavar="TYPE",
        help="serve only this type; may be repeated",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        type=_queue,
        metavar="QUEUE",
        help="serve only the types and tasks of this queue; may be repeated",
    )


def _job_type(text: str) -> str:
    """Return the name of a type; refuse one that this code does not know."""
    try:
        return registry.get(text).name
    except UnknownJobType as error:
        raise argparse.ArgumentTypeError(error.faults[0].message) from None


def _queue(text: str) -> str:
    """Return the name of a queue; refuse an unknown one, which would never have a job."""
    known = registry.queue_names()
    if text not in known:
        raise argparse.ArgumentTypeError(
            f"no job type or task is in the queue {text!r}; known: {', '.join(known)}"
        )
    return text


def add_ending(parser: CommandParser) -> None:
    """Add the options for when to end, and what else to do until then."""
    parser.add_argument("--burst", action="store_true", help="exit when no job is runnable")
    parser.add_argument(
        "--no-scheduler",
        action="store_true",
        help="leave schedules to other workers; implied by --burst",
    )
    parser.add_argument(
        "--max-jobs", type=_whole(MOST_JOBS), metavar="N", help="exit after this many jobs"
    )
    parser.add_argument(
        "--poll-interval",
        type=_seconds,
        default=conf.poll_seconds(),
        metavar="SECONDS",
        help="seconds between two checks of an empty queue (default: %(default)s)",
    )
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=DEFAULT_GRACE_SECONDS,
        metavar="SECONDS",
        help="seconds that running handlers get to finish at the end (default: %(default)s)",
    )


def add_processes(parser: CommandParser) -> None:
    """Add the options for how many processes there are, and how they are watched."""
    parser.add_argument(
        "--processes",
        type=_whole(MOST_AT_ONCE),
        default=1,
        metavar="N",
        help="number of worker processes (default: %(default)s)",
    )
    parser.add_argument(
        "--spawn",
        action="store_true",
        help="start each worker process as a new interpreter that loads the code itself, not as a "
        "fork of this one",
    )
    parser.add_argument(
        "--health-port",
        type=_port,
        metavar="PORT",
        help="serve /healthz, /readyz and /metrics on this port (the second process on the next "
        "one)",
    )
    parser.add_argument(
        "--health-host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address of the health port (default: %(default)s)",
    )
    parser.add_argument(
        "--reload", action="store_true", help="restart when code changes; for development"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the start-up line as a JSON object on stdout"
    )
    # The parent process, with which the child ends.
    parser.add_argument(
        "--child", type=int, nargs="?", const=0, metavar="PID", help=argparse.SUPPRESS
    )
    parser.add_argument("--running-slots", type=int, help=argparse.SUPPRESS)
