"""How a supervisor starts its worker processes: forked, unless other threads run beside it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jobs.worker.child import ForkedProcess
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

SUPERVISED = """
import atexit, os, sys
import django
django.setup()
from jobs.worker.child import Program
from jobs.worker.supervisor import Supervisor

def run(slots):
    print("child of", os.getppid(), flush=True)
    atexit.register(print, "exit hook", flush=True)
    {ending}

print("supervisor", os.getpid(), flush=True)
try:
    code = Supervisor([Program(run, [])], threads=1, grace_seconds=1.0, lasting=False).run()
    print("exit code", code, flush=True)
except BaseException as error:
    print("caught", error, flush=True)
finally:
    print("left", flush=True)
    os._exit(0)
"""
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def fork(*, code: int | None) -> int:
    """Return the process id of a fork that ends with `code`, or waits for a signal."""
    pid = os.fork()
    if not pid:
        if code is None:
            signal.pause()
        os._exit(code or 0)
    return pid


@linux_only
@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_forked_process_is_known_from_its_end_on(code: int) -> None:
    process = ForkedProcess(fork(code=code))

    wait_until(lambda: process.poll() is not None, "its end")

    assert [process.poll(), process.poll()] == [code, code]
    # Another process may have this process id by now.
    process.send_signal(signal.SIGKILL)


@linux_only
def test_a_signal_that_ends_a_forked_process_is_known() -> None:
    process = ForkedProcess(fork(code=None))
    assert process.poll() is None

    process.send_signal(signal.SIGKILL)

    wait_until(lambda: process.poll() == -signal.SIGKILL, "its end")


@linux_only
def test_a_process_with_another_thread_is_not_forked() -> None:
    code = (
        "import threading, time\nfrom jobs.worker.child import may_fork\nprint(may_fork())\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\nprint(may_fork())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


@linux_only
@pytest.mark.parametrize(
    ("ending", "code", "starts", "said"),
    [
        pytest.param("return 0", 0, 1, "", id="it is done"),
        pytest.param("raise OSError('full')", 1, 3, "OSError: full", id="a system error"),
        pytest.param("raise SystemExit(0)", 1, 3, "SystemExit: 0", id="it exits"),
    ],
)
def test_a_fork_never_acts_as_a_supervisor(ending: str, code: int, starts: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISED.format(ending=ending)],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    first, *children, code_line, left = done.stdout.splitlines()
    supervisor = first.removeprefix("supervisor ")
    assert children == [f"child of {supervisor}", "exit hook"] * starts
    assert [code_line, left] == [f"exit code {code}", "left"], "the supervisor alone goes on"
    errors = [line for line in done.stderr.splitlines() if line and line[0] not in " T"]
    assert errors == [said] * (starts if said else 0)


@linux_only
def test_a_pipe_that_nobody_reads_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x")
    os.set_blocking(writing, True)
    # The worker ignores the signal and shows no life, so that it is killed, which is logged.
    code = SUPERVISED.format(
        ending="slots.name_worker(__import__('uuid').uuid4()); __import__('signal').pause()"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
            "DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3",
        },
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
        start_new_session=True,
    )
    try:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline().startswith("supervisor")
        assert supervisor.stdout.readline().startswith("child of")
        supervisor.send_signal(signal.SIGTERM)
        said, _ = supervisor.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(supervisor.pid, signal.SIGKILL)
        os.close(reading)
        os.close(writing)
    assert said.splitlines() == ["exit code 1", "left"]


def test_it_says_why_a_process_cannot_be_started() -> None:
    code = (
        "import django; django.setup()\n"
        "from jobs.worker.child import Program\nfrom jobs.worker.supervisor import Supervisor\n"
        "programs = [Program(lambda slots: 0, ['/no/python'])]\n"
        "options = dict(threads=1, grace_seconds=1.0, lasting=False, forks=False)\n"
        "print(Supervisor(programs, **options).run())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line for line in done.stderr.splitlines() if "worker.not_started" in line]
    assert done.stdout.split() == ["1"]
    assert len(lines) == 3, "one for each try"
    assert all("No such file or directory: '/no/python'" in line for line in lines)


def test_a_database_that_nothing_uses_may_lack_its_driver() -> None:
    code = (
        "from django.conf import settings\n"
        "settings.DATABASES['unused'] = {'ENGINE': 'not_installed'}\n"
        f"{SUPERVISED.format(ending='return 0')}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-2:] == ["exit code 0", "left"], done.stderr


@linux_only
@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_fork_says_in_one_line_which_port_is_taken(fleet: Fleet) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        worker = fleet.start("--burst", "--health-port", str(port), supervised=True)
        assert worker.wait_for_exit(60) == 1

    said = f"CommandError: argument --health-port: cannot listen on 127.0.0.1:{port}: "
    lines = [line for line in worker.log().splitlines() if line.startswith("CommandError")]
    assert len(lines) == 3, "one for each start"
    assert all(line.startswith(said) for line in lines)
    fleet.assert_no_traceback()
