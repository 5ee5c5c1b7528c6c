"""A supervisor takes its signals also beside threads that an app has started."""

from __future__ import annotations

import os
import signal
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


# In a session of its own, whose terminal is the pseudoterminal on stdin.
AT_A_TERMINAL = """
import fcntl, os, signal, termios, threading
from jobs.worker.signals import STOP_SIGNALS, is_ctrl_c, watch

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if {beside_thread}:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
watch()
print("ready", flush=True)
# While this thread does not wait for it, the system gives the signal to the other one.
while not signal.sigpending():
    signal.sigtimedwait([signal.SIGCHLD], 0.01)
# As the worker waits: what the other thread gets after all is sent on between two waits.
while not (received := signal.sigtimedwait(STOP_SIGNALS, 0.1)):
    pass
print(signal.Signals(received.si_signo).name, is_ctrl_c(received), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("beside_thread", [False, True])
@pytest.mark.parametrize("sent", ["Ctrl-C", "SIGTERM"])
def test_ctrl_c_is_known_beside_a_thread_that_gets_it(beside_thread: bool, sent: str) -> None:
    terminal, own = os.openpty()
    command = [sys.executable, "-c", AT_A_TERMINAL.format(beside_thread=beside_thread)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=own, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if sent == "Ctrl-C":
                os.write(terminal, b"\x03")
            else:
                process.send_signal(signal.SIGTERM)
            answer = process.stdout.readline().split()
        finally:
            process.kill()
            os.close(terminal)
            os.close(own)
    assert answer == (["SIGINT", "True"] if sent == "Ctrl-C" else ["SIGTERM", "False"])


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
