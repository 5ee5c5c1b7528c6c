"""How the processes of one `runworker` take signals."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

# A closing terminal sends SIGHUP. Under nohup it is ignored, and stays ignored.
_HANGUPS = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, *_HANGUPS)
# Other servers reopen their logs at these signals, or report what they do. An operator who sends
# them to all services must not end the workers.
IGNORED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
# <asm-generic/siginfo.h>: a signal of the kernel's own, as Ctrl-C is.
SI_KERNEL = 0x80
# The supervisor blocks these and waits for them; its children inherit that until they unblock them.
WATCHED = (*STOP_SIGNALS, *IGNORED_SIGNALS, signal.SIGCHLD)

Handler = Callable[[int, FrameType | None], object]


class StopRequests:
    """Calls `stop` at the first SIGTERM; without a supervisor, `end_now` at the second.

    A supervised process ignores further ones: a signal to the whole process group arrives beside
    the supervisor's own, and only the supervisor decides when to kill.
    """

    def __init__(
        self, stop: Callable[[], None], *, supervised: bool, end_now: Callable[[], None]
    ) -> None:
        self._stop = stop
        self._end_now = end_now
        self._supervised = supervised
        # The handler may interrupt the main thread while it holds a lock that `stop` needs. Putting
        # into this queue is reentrant.
        self._received: SimpleQueue[int] = SimpleQueue()

    def receive(self, number: int, _: FrameType | None = None) -> None:
        """Take a signal, as its handler."""
        self._received.put(number)

    def serve(self) -> None:
        """Wait for signals, on a thread of its own."""
        self._received.get()
        self._stop()
        if not self._supervised:
            self._received.get()
            self._end_now()


class _ForkingThread(threading.local):
    """The signals that the thread blocks, while it forks."""

    mask: set[int]


def handle_in_this_process(handlers: Mapping[signal.Signals, Handler]) -> None:
    """Handle these signals, but not in processes that job handlers fork: nothing serves them there.

    A library that forks ends its processes by SIGTERM, and waits until they have ended.
    """
    thread = _ForkingThread()

    def hold_back() -> None:
        # Otherwise a signal that reaches the child before `leave_to_default` would be lost.
        thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)

    def deliver() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, thread.mask)

    def leave_to_default() -> None:
        for number, handler in handlers.items():
            # In a fork of a fork, the first fork may have set a handler of its own.
            if signal.getsignal(number) == handler:
                signal.signal(number, signal.SIG_DFL)
        deliver()

    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.register_at_fork(before=hold_back, after_in_parent=deliver, after_in_child=leave_to_default)


def ignore(_: int, __: FrameType | None = None) -> None:
    """Do nothing. Unlike SIG_IGN, no program that is started inherits it."""


def watch() -> None:
    """Block the watched signals in this thread, the main one, which is to wait for them.

    A thread that an app has started does not block them, and gets what arrives while this thread
    does not wait. It hands a stop over; without a handler, it would end the process.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    for number in STOP_SIGNALS:
        signal.signal(number, _hand_over)
    for number in IGNORED_SIGNALS:
        signal.signal(number, ignore)


def _hand_over(number: int, _: FrameType | None = None) -> None:
    # Python calls a handler on the main thread, and the kernel keeps for it what it blocks.
    signal.pthread_kill(threading.get_ident(), number)


def is_ctrl_c(received: signal.struct_siginfo) -> bool:
    """Say whether a terminal sent this signal, as far as can be told."""
    if received.si_code == SI_KERNEL:
        return True
    # What another thread handed over is this process's own signal. Whoever sent it, a terminal is
    # the likeliest to interrupt the processes in its foreground.
    handed_over = received.si_pid == os.getpid()
    return handed_over and received.si_signo == signal.SIGINT and _in_foreground()


def _in_foreground() -> bool:
    with suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def ignore_stops() -> None:
    """Ignore stop signals: this process is ending already, and they would cut its exit short."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def stop_on_sigterm(stop: Callable[[], None], *, supervised: bool) -> None:
    """Let SIGTERM stop this process, as `StopRequests` says."""
    requests = StopRequests(stop, supervised=supervised, end_now=lambda: os._exit(1))
    threading.Thread(target=requests.serve, name="signals", daemon=True).start()
    # Ctrl-C and a hangup reach the whole group; the supervisor passes them on as SIGTERM.
    handle_in_this_process(
        {
            **dict.fromkeys((*STOP_SIGNALS, *IGNORED_SIGNALS), ignore),
            signal.SIGTERM: requests.receive,
        }
    )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
