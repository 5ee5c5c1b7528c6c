"""`manage.py bench_queue`: its figures, its refusals, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from jobs.management.benchmarks import claim
from jobs.management.benchmarks.firms import FIRM_NAME, make_firms, own_firms
from jobs.management.benchmarks.scenario import Figures, Plan
from jobs.management.benchmarks.scenarios import SCENARIOS
from jobs.management.benchmarks.workers import serving
from jobs.models import JobMinute, JobMinuteDelta, JobQueue, Worker, WorkerVersion
from jobs.queue import enqueue, pause, resume
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.tenants import FirmFactory
from tests.queue_kit import new_worker, row
from tests.support.databases import database_url
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-04")]

KEYS = {
    "scenario", "database", "jobs", "firms", "concurrency", "processes", "rounds", "seconds",
    "jobs_per_second", "p50_ms", "p99_ms", "raw_jobs_per_second", "ratio", "points",
}  # fmt: skip
JOBS, FIRMS = 40, 3
SIZE = ("--jobs", str(JOBS), "--firms", str(FIRMS))

Runner = Callable[..., Any]


def census() -> dict[str, int]:
    """Return how many rows each table of the queue has, and the table of firms.

    The versions of code are left out, because it is true that they have run.
    """
    with all_firms("test"):
        models = {Firm, *apps.get_app_config("jobs").get_models()} - {WorkerVersion}
        return {model.__name__: model._default_manager.count() for model in models}


@pytest.fixture
def nothing_stays(system_firm: Firm) -> Iterator[None]:
    """Check at the end that every table has as many rows as before."""
    before = census()
    yield
    assert census() == before


@contextmanager
def heard_interrupts() -> Iterator[None]:
    """Let child processes hear SIGINT, which the background of a shell ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def bench_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command as a shell does; kill it at the end of the block."""
    with heard_interrupts():
        process = subprocess.Popen(
            [sys.executable, "manage.py", "bench_queue", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
                "DATABASE_URL": database_url(),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def measured(*arguments: str) -> dict[str, Any]:
    """Run the command as a shell does; return its figures."""
    with bench_process(*arguments, "--json") as process:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    figures: dict[str, Any] = json.loads(out)
    return figures


@pytest.mark.usefixtures("nothing_stays")
def test_a_drain_compares_workers_with_bare_sql() -> None:
    found = measured("drain", *SIZE, "--concurrency", "2", "--processes", "2")
    assert found.keys() == KEYS
    assert (found["scenario"], found["jobs"], found["firms"]) == ("drain", JOBS, FIRMS)
    assert (found["concurrency"], found["processes"], found["rounds"]) == (2, 2, 1)
    assert found["jobs_per_second"] == pytest.approx(JOBS / found["seconds"], rel=0.1)
    rates = found["jobs_per_second"], found["raw_jobs_per_second"]
    assert found["ratio"] == pytest.approx(rates[0] / rates[1], abs=0.001)
    assert len(found["points"]) == 1
    [point] = found["points"]
    # A job takes a worker at least a microsecond, and less than a second.
    assert 1 < point["worker_us"] < 1e6
    assert point["switches"] > 0
    assert ("server_us" in point) == (connection.vendor == "postgresql")


@pytest.mark.usefixtures("nothing_stays")
def test_latency_is_that_of_an_idle_worker() -> None:
    found = measured("latency", "--jobs", "4", "--firms", "1", "--concurrency", "2")
    assert found.keys() == KEYS
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    [point] = found["points"]
    # A claim comes before the start; the clocks may differ by a millisecond.
    assert point["claimed_p99_ms"] <= found["p99_ms"] + 1
    assert point["idle_cpu_share"] >= 0


@pytest.mark.usefixtures("nothing_stays")
def test_locks_are_handed_over_from_job_to_job() -> None:
    found = measured("locks", *SIZE, "--processes", "1", "--concurrency", "4")
    assert found.keys() == KEYS
    [point] = found["points"]
    assert (point["keys"], point["hand_overs"]) == (15, JOBS - 15)
    assert 0 <= found["p50_ms"] <= found["p99_ms"] <= point["max_ms"]


@pytest.mark.usefixtures("nothing_stays")
def test_enqueue_compares_both_ways_with_bare_inserts(run: Runner) -> None:
    found = run("bench_queue", "enqueue", *SIZE, "--rounds", "2", "--json").json
    assert found.keys() == KEYS
    many, one = found["points"]
    assert found["ratio"] == many["ratio"]
    assert min(many["raw_jobs_per_second"], one["raw_jobs_per_second"], one["ratio"]) > 0


@pytest.mark.usefixtures("nothing_stays")
def test_claims_are_compared_with_those_from_an_empty_table(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "MOST_CLAIMS", claim.LEAST_CLAIMS)
    found = run("bench_queue", "claim", *SIZE, "--json").json
    assert found.keys() == KEYS
    assert len(found["points"]) == 9
    for point in found["points"]:
        assert point["ratio"] == pytest.approx(
            point["claim_p50_ms"] / point["base_p50_ms"], rel=0.5
        )


@pytest.mark.usefixtures("nothing_stays")
def test_light_firms_have_their_turn_in_the_first_lap(run: Runner) -> None:
    found = run("bench_queue", "fairness", *SIZE, "--json").json
    assert found.keys() == KEYS
    assert [point["batch"] for point in found["points"]] == [1, 10, 100, 500]
    for point in found["points"]:
        assert point["last_first_turn"] <= FIRMS + 1
        assert point["jain"] == 1


def test_people_get_tables(run: Runner, system_firm: Firm) -> None:
    told = run("bench_queue", "fairness", *SIZE)
    assert told.code == 0
    assert "fairness on" in told.out
    assert "40 jobs, 3 firms" in told.out
    assert "seconds" in told.out


@pytest.fixture
def held_back(system_firm: Firm) -> Iterator[None]:
    """Let no job start, so that the measurement cannot end before the interrupt."""
    standing = pause(reason="a test")
    yield
    resume(standing)


@pytest.mark.parametrize(
    ("number", "scenario", "jobs"),
    [(signal.SIGINT, "drain", "3000"), (signal.SIGTERM, "enqueue", "60000")],
)
@pytest.mark.usefixtures("held_back", "nothing_stays")
def test_an_interrupt_leaves_nothing_behind(
    number: signal.Signals, scenario: str, jobs: str
) -> None:
    with bench_process(scenario, "--jobs", jobs, "--firms", "3") as process:
        wait_until(lambda: census()["JobQueue"], "the middle of the measurement")
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert (out, "interrupted" in err, "Traceback" in err) == ("", True, False)


@pytest.mark.usefixtures("nothing_stays")
def test_a_failure_leaves_nothing_behind(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    fairness = SCENARIOS["fairness"]

    def fail(plan: Plan) -> Figures:
        fairness.run(plan)
        assert census()["JobQueue"]
        raise ZeroDivisionError

    monkeypatch.setitem(SCENARIOS, "fairness", replace(fairness, run=fail))
    with pytest.raises(ZeroDivisionError):
        run("bench_queue", "fairness", *SIZE)


def test_a_database_with_other_firms_jobs_is_refused_unless_told(run: Runner, firm: Firm) -> None:
    job = enqueue("noop", firm=firm).job_id
    before = census()
    refused = run("bench_queue", "fairness", *SIZE, "--json")
    assert (refused.code, refused.json["code"]) == (1, "database_in_use")
    assert "acme" in refused.json["detail"]
    assert "--yes" in refused.json["detail"]
    assert run("bench_queue", "fairness", *SIZE, "--yes").code == 0
    assert row(job).status == Status.PENDING
    assert census() == before


def test_a_database_that_workers_serve_is_refused(run: Runner, system_firm: Firm) -> None:
    worker_id = new_worker()
    refused = run("bench_queue", "fairness", *SIZE)
    assert refused.code == 1
    assert "workers serve this database" in refused.err
    long_ago = timezone.now() - timedelta(hours=1)
    Worker.objects.filter(pk=worker_id).update(lease_expires_at=long_ago)
    assert run("bench_queue", "fairness", *SIZE).code == 0


def test_what_a_killed_run_left_is_taken_away_and_nothing_else(
    run: Runner, system_firm: Firm
) -> None:
    left = FirmFactory(name=FIRM_NAME, slug="bench-left-0")
    enqueue("bench_noop", firm=left)
    gym = FirmFactory(name="Bench Press", slug="bench-press")
    assert run("bench_queue", "fairness", *SIZE).code == 0
    assert set(Firm.objects.values_list("slug", flat=True)) == {"system", gym.slug}
    with all_firms("test"):
        assert not JobQueue.objects.exists()
        assert not JobMinute.objects.exists()
        assert not JobMinuteDelta.objects.exists()
    enqueue("noop", firm=gym)
    assert run("bench_queue", "fairness", *SIZE).code == 1


@pytest.mark.parametrize(
    ("option", "number"),
    [
        ("--jobs", "0"),
        ("--firms", "-1"),
        ("--concurrency", "1.5"),
        ("--processes", "x"),
        ("--rounds", "10000001"),
    ],
)
def test_bad_numbers_are_refused_by_name(run: Runner, option: str, number: str) -> None:
    refused = run("bench_queue", "drain", option, number)
    assert refused.code == 2
    assert option in refused.err


def test_an_unknown_scenario_is_refused(run: Runner) -> None:
    refused = run("bench_queue", "sleep")
    assert refused.code == 2
    assert "drain" in refused.err


@pytest.mark.usefixtures("nothing_stays")
def test_an_interrupt_in_the_midst_of_a_statement_leaves_nothing_behind() -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted_mid_statement()


def _interrupted_mid_statement() -> None:
    with own_firms():
        make_firms(2)
        # The interrupt came before Django knew of the transaction.
        begin = "BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN"
        connection.connection.execute(begin)
        raise KeyboardInterrupt


@pytest.mark.usefixtures("nothing_stays")
def test_an_interrupt_in_the_midst_of_a_read_lets_the_workers_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.support.worker_settings")
    monkeypatch.setenv("DATABASE_URL", database_url())
    with pytest.raises(KeyboardInterrupt):
        _interrupted_mid_read()


def _interrupted_mid_read() -> None:
    with serving(Plan(jobs=1, firms=1, concurrency=1, processes=1, rounds=1)):
        # The traceback of an interrupt may keep a statement whose rows were not all read.
        read = "SELECT name FROM sqlite_master" if connection.vendor == "sqlite" else "BEGIN"
        unread = connection.connection.execute(read)
        assert unread
        raise KeyboardInterrupt
