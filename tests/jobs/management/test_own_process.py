"""`runworker --reload` starts the worker again when code changes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from jobs.management import own_process
from jobs.worker.signals import STOP_SIGNALS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("A-01"), pytest.mark.processes]

SLEEPER = "import sys, time; open(sys.argv[1], 'a').write('x'); time.sleep(60)"


def test_the_command_is_started_again_and_ends_with_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, told = tmp_path / "starts", []
    log.touch()

    def change() -> Path:
        starts = len(told) + 1
        wait_until(lambda: log.read_text() == "x" * starts, "the command has started")
        if starts == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        return Path("handlers.py")

    monkeypatch.setattr(own_process, "_wait_for_change", change)
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        code = own_process.run_reloading([sys.executable, "-c", SLEEPER, str(log)], told.append)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert told == ["handlers.py changed: restarting."]
    assert code == -signal.SIGTERM


def test_a_changed_file_of_an_app_is_noticed() -> None:
    times = dict(own_process._times())
    assert any(path.parts[-2:] == ("jobs", "errors.py") for path in times)
    assert not any("site-packages" in path.parts for path in times)
