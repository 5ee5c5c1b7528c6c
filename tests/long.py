"""Which tests are long: `make test` leaves them to `make test-long`, and continuous integration runs all.

`python -m tests.long SQLITE.xml POSTGRESQL.xml` writes the list anew from `--junitxml` of the two
whole runs: what took LONG_SECONDS or more in one case, save for KEPT.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

LIST = ROOT / "tests" / "long.txt"
# On SQLite, and on PostgreSQL.
LONG_SECONDS = (0.6, 1.2)
# The names of tests that every run is to see, long as they are.
KEPT = frozenset(
    {
        "test_a_dead_job_is_mended_and_completes",
        "test_a_hundred_racing_enqueues_make_one_job_and_all_get_its_id",
        "test_a_kill_amid_short_jobs_counts_only_for_those_that_ran",
        "test_a_kill_costs_an_attempt_only_to_started_jobs",
        "test_a_signal_to_the_process_group_is_one_signal_however_often_it_comes",
        "test_a_transaction_left_open_fails_its_job_and_takes_no_other_with_it",
        "test_four_workers_share_two_thousand_jobs_and_start_each_once",
        "test_kills_at_every_point_double_nothing_and_lose_nothing",
        "test_late_writes_of_a_frozen_worker_change_nothing_and_it_works_on_under_a_new_id",
        "test_running_jobs_finish_and_unstarted_ones_are_given_back",
    }
)
# A test, or a class: the list names its tests, so that a file with one counts as short.
TEST = re.compile(r"^(?:def|async def|class) ([Tt]est\w+)", re.MULTILINE)


def name_of(nodeid: str) -> str:
    """Return the name by which the list knows a test: all its parameters together."""
    path, _, name = nodeid.partition("::")
    return (
        f"{path.removesuffix('.py').replace('/', '.')}.{name.partition('[')[0].replace('::', '.')}"
    )


def _function(name: str) -> str:
    return name.rpartition(".")[2]


def has_none(path: Path, *, long: bool) -> bool:
    """Say whether all tests of the file at `path` are short, or all long: it need not be imported."""
    module = name_of(f"{path.relative_to(ROOT)}::")
    listed = {name for name in long_tests() if name.startswith(module)}
    if long:
        return not listed
    tests = {module + name for name in TEST.findall(path.read_text("utf-8"))}
    return bool(tests) and tests <= listed


@cache
def long_tests() -> frozenset[str]:
    """Return the names of the long tests."""
    return frozenset(LIST.read_text("utf-8").split())


def main(reports: Iterable[str]) -> None:
    """Write the list."""
    names = {
        f"{case.get('classname')}.{case.get('name', '').partition('[')[0]}"
        for report, seconds in zip(reports, LONG_SECONDS, strict=True)
        for case in ET.parse(report).iter("testcase")
        if float(case.get("time", 0)) >= seconds
    }
    LIST.write_text(
        "".join(
            f"{name}\n" for name in sorted(name for name in names if _function(name) not in KEPT)
        ),
        "utf-8",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
