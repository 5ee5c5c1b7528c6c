"""Job types whose handlers record each start and end, and fail as their payload says."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

from jobs.errors import Cancel, Retryable
from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import Category
from jobs.worker import prefetch
from tests.support.journal import Journal
from tests.support.odd_errors import odd_error

GATE_LOOK_SECONDS = 0.01
LATER_SECONDS = 3600
CHILD_SECONDS = 10
EATEN_BYTES = 2**30
# Tests that have to look at jobs claimed ahead set how long a worker keeps them.
if "KEEP_CLAIMS_SECONDS" in os.environ:
    prefetch.LONGEST_WAIT_SECONDS = float(os.environ["KEEP_CLAIMS_SECONDS"])
# A policy with enough attempts for a job that loses its worker again and again.
PATIENT = RetryPolicy(
    max_attempts=40, backoff="fixed", base_delay_seconds=0.05, max_delay_seconds=0.05, jitter=0
)


class WorkPayload(JobPayload):
    """What to record, and how long to take: until the file `gate` exists, then `seconds`."""

    journal: str
    label: str = ""
    gate: str = ""
    seconds: float = 0.0


@job("process.default", category=Category.NOTIFICATIONS, payload=WorkPayload)
def work_by_default(payload: WorkPayload, ctx: JobContext) -> None:
    """Do as `process.work` does, with the default retry policy."""
    work(payload, ctx)


@job("process.hold", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
@job(
    "process.hold_overdue",
    category=Category.NOTIFICATIONS,
    payload=WorkPayload,
    retry=PATIENT,
    timeout_seconds=0.5,
)
def hold_the_interpreter(payload: WorkPayload, ctx: JobContext) -> None:
    """Let no other thread run Python code for this many seconds, as some C code does."""
    journal = Journal(Path(payload.journal))
    journal.start(ctx, payload.label)
    # Unlike CDLL, PyDLL keeps the interpreter's lock during the call.
    ctypes.PyDLL(None).usleep(int(payload.seconds * 1e6))
    journal.end(ctx, payload.label)


class FailPayload(JobPayload):
    """How to fail, and in how many of the first attempts."""

    journal: str
    how: Literal["error", "later", "exit", "interrupt"]
    times: int


@job("process.work", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
@job(
    "process.document",
    category=Category.DOCUMENTS,
    payload=WorkPayload,
    retry=PATIENT,
    queue="documents",
)
def work(payload: WorkPayload, ctx: JobContext) -> dict[str, int]:
    """Take as long as the payload says; return the number of the attempt."""
    journal = Journal(Path(payload.journal))
    journal.start(ctx, payload.label)
    while payload.gate and not Path(payload.gate).exists():
        time.sleep(GATE_LOOK_SECONDS)
    if payload.seconds:
        time.sleep(payload.seconds)
    journal.end(ctx, payload.label)
    return {"attempt": ctx.attempt}


@job("process.fail", category=Category.NOTIFICATIONS, payload=FailPayload, retry=PATIENT)
def fail(payload: FailPayload, ctx: JobContext) -> None:
    """Fail the first attempts, then succeed."""
    Journal(Path(payload.journal)).start(ctx, payload.how)
    if ctx.attempt > payload.times:
        return
    match payload.how:
        case "error":
            raise RuntimeError("told to fail")
        case "later":
            raise Retryable("told to fail", retry_after=LATER_SECONDS)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt


class OddPayload(JobPayload):
    """The name of the odd error to raise."""

    journal: str
    name: str


@job("process.odd", category=Category.NOTIFICATIONS, payload=OddPayload)
def fail_oddly(payload: OddPayload, ctx: JobContext) -> None:
    """Raise the odd error."""
    Journal(Path(payload.journal)).start(ctx, payload.name)
    raise odd_error(payload.name)


@job("process.aodd", category=Category.NOTIFICATIONS, payload=OddPayload)
async def fail_oddly_async(payload: OddPayload, ctx: JobContext) -> None:
    """Raise the odd error on the event loop, from a step."""
    Journal(Path(payload.journal)).start(ctx, payload.name)
    await ctx.astep("odd", _raise, odd_error(payload.name))


@job("process.atask", category=Category.NOTIFICATIONS, payload=OddPayload)
async def end_in_a_task(payload: OddPayload, ctx: JobContext) -> None:
    """Raise an error in a task of the handler's, or stop the loop."""
    Journal(Path(payload.journal)).start(ctx, payload.name)
    if payload.name == "stop":
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        raise ValueError("after the stop")

    async def end() -> None:
        raise SystemExit(3) if payload.name == "exit" else KeyboardInterrupt

    await asyncio.gather(end())


def _raise(error: BaseException) -> None:
    raise error


@job("process.signal", category=Category.NOTIFICATIONS, payload=WorkPayload)
def signal_children(payload: WorkPayload, ctx: JobContext) -> dict[str, dict[str, int | None]]:
    """Start processes in two ways, send them signals that stop a worker; return how they end."""
    Journal(Path(payload.journal)).start(ctx, payload.label)
    ended: dict[str, dict[str, int | None]] = {}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(LATER_SECONDS,))
        fork.start()
        program = subprocess.Popen(["sleep", str(LATER_SECONDS)])
        for pid in (fork.pid, program.pid):
            os.kill(pid or 0, number)
        fork.join(CHILD_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            program.wait(CHILD_SECONDS)
        ended[number.name] = {"fork": fork.exitcode, "program": program.returncode}
        for child in (fork, program):
            child.kill()
    return ended


@job("process.pool", category=Category.NOTIFICATIONS, payload=WorkPayload, timeout_seconds=30)
def leave_a_pool(payload: WorkPayload, ctx: JobContext) -> None:
    """Leave a pool while one of its processes works: the pool ends that process by SIGTERM."""
    Journal(Path(payload.journal)).start(ctx, payload.label)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.apply_async(time.sleep, (LATER_SECONDS,))


@job("process.leave", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
def leave_processes(payload: WorkPayload, ctx: JobContext) -> None:
    """Start processes, record their ids as the label, and kill the worker; then just return."""
    journal = Journal(Path(payload.journal))
    if ctx.attempt > 1:
        journal.start(ctx, payload.label)
        return
    fork = multiprocessing.get_context("fork").Process(target=_start_and_sleep, args=(payload,))
    fork.start()
    program = subprocess.Popen(["sleep", str(LATER_SECONDS)])
    while not (left := Path(f"{payload.journal}.child")).exists():
        time.sleep(GATE_LOOK_SECONDS)
    journal.start(ctx, f"{fork.pid} {program.pid} {left.read_text('ascii')}")
    os.kill(os.getpid(), signal.SIGKILL)


def _start_and_sleep(payload: WorkPayload) -> None:
    program = subprocess.Popen(["sleep", str(LATER_SECONDS)])
    written = Path(f"{payload.journal}.child.new")
    written.write_text(str(program.pid), "ascii")
    written.rename(f"{payload.journal}.child")
    time.sleep(LATER_SECONDS)


class DiePayload(JobPayload):
    """How to kill the process that runs the handler, in how many of the first attempts."""

    journal: str
    how: Literal["exit", "segfault", "memory", "killed"]
    times: int


@job("process.die", category=Category.NOTIFICATIONS, payload=DiePayload, retry=PATIENT)
def die(payload: DiePayload, ctx: JobContext) -> dict[str, int]:
    """Kill the process in the first attempts, then succeed."""
    Journal(Path(payload.journal)).start(ctx, payload.how)
    if ctx.attempt > payload.times:
        return {"attempt": ctx.attempt}
    match payload.how:
        case "exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            _eat_memory()
    raise AssertionError("it should have died")


def _eat_memory() -> None:
    """Ask for more memory than an isolated process may have; if that works, kill the process."""
    bytearray(EATEN_BYTES)
    os.kill(os.getpid(), signal.SIGKILL)


@job("process.wait", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
async def wait(payload: WorkPayload, ctx: JobContext) -> dict[str, int]:
    """Do as `process.work` does, on the event loop."""
    journal = Journal(Path(payload.journal))
    journal.start(ctx, payload.label)
    while payload.gate and not Path(payload.gate).exists():
        await asyncio.sleep(GATE_LOOK_SECONDS)
    await asyncio.sleep(payload.seconds)
    journal.end(ctx, payload.label)
    return {"attempt": ctx.attempt}


@job("process.patient", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
def be_patient(payload: WorkPayload, ctx: JobContext) -> None:
    """Wait for the gate, and look now and then whether a cancel was requested."""
    Journal(Path(payload.journal)).start(ctx, payload.label)
    while not Path(payload.gate).exists():
        time.sleep(GATE_LOOK_SECONDS)
        if ctx.is_cancelled:
            raise Cancel("canceled by request")


@job(
    "process.stubborn",
    category=Category.NOTIFICATIONS,
    payload=WorkPayload,
    retry=PATIENT,
    timeout_seconds=0.5,
)
def refuse_to_end(payload: WorkPayload, ctx: JobContext) -> None:
    """Go on until the gate is open, whatever is raised in the handler."""
    Journal(Path(payload.journal)).start(ctx, payload.label)
    while not (payload.gate and Path(payload.gate).exists()):
        try:
            time.sleep(GATE_LOOK_SECONDS)
        except BaseException:  # noqa: BLE001 - the handler refuses to end
            continue


@job("process.deaf", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
def hear_nothing(payload: WorkPayload, ctx: JobContext) -> dict[str, int]:
    """Wait for the gate, ignore every error that a call raises, and return as if all was well."""
    Journal(Path(payload.journal)).start(ctx, payload.label)
    while not Path(payload.gate).exists():
        time.sleep(GATE_LOOK_SECONDS)
    for call in (
        ctx.heartbeat,
        lambda: ctx.progress(0.5),
        lambda: ctx.step("own", lambda: ctx.attempt),
    ):
        try:
            call()
        except BaseException:  # noqa: BLE001 - the handler ignores every error
            continue
    return {"attempt": ctx.attempt}


@job("process.leaves_thread", category=Category.NOTIFICATIONS, payload=WorkPayload)
def leave_a_thread(payload: WorkPayload, ctx: JobContext) -> None:
    """Leave a call that never returns on another thread."""
    ThreadPoolExecutor(1).submit(time.sleep, 3600)
