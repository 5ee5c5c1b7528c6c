"""A supervisor takes its signals also beside threads that an app has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

# Nobody waits for the signal when it is sent, so the system gives it to the other thread.
BESIDE_A_THREAD = """
import os, signal, threading
from jobs.worker.signals import STOP_SIGNALS, watch

threading.Thread(target=threading.Event().wait, daemon=True).start()
watch()
for name in {sent}:
    os.kill(os.getpid(), getattr(signal, name))
while not (received := signal.sigtimedwait(STOP_SIGNALS, 0.1)):
    pass
print(signal.Signals(received.si_signo).name, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    "sent",
    [["SIGTERM"], ["SIGINT"], ["SIGHUP"], ["SIGUSR1", "SIGTERM"], ["SIGUSR2", "SIGTERM"]],
)
def test_a_signal_that_another_thread_gets_reaches_the_waiting_one(sent: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_A_THREAD.format(sent=sent)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()) == (0, sent[-1:]), done.stderr
