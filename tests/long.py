"""Which tests are long: `make test` leaves them to `make test-long`.

Continuous integration runs all tests. `python -m tests.long SQLITE.xml POSTGRESQL.xml` writes the
list from the `--junitxml` of two whole runs. It has every test that took LONG_SECONDS or more in
one case, except those of KEPT.
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
# The limits on SQLite and on PostgreSQL.
LONG_SECONDS = (0.6, 1.2)
# The names of long tests that every run has to have.
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
# The list has the tests of a class, not the class, so a file with a class counts as short.
TEST = re.compile(r"^(?:def|async def|class) ([Tt]est\w+)", re.MULTILINE)


def name_of(nodeid: str) -> str:
    """Return the name of a test in the list, which is the same for all its parameters."""
    path, _, name = nodeid.partition("::")
    return (
        f"{path.removesuffix('.py').replace('/', '.')}.{name.partition('[')[0].replace('::', '.')}"
    )


def _function(name: str) -> str:
    return name.rpartition(".")[2]


def has_none(path: Path, *, long: bool) -> bool:
    """Say whether the file at `path` has no long test, or with `long` False no short one."""
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
