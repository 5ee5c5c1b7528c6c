"""The virtual machine on which the product runs: its clock, its threads, its chance.

Modules of the queue find virtual things under the names `time`, `threading` and so on, so their own
code runs. A new module that imports such a thing gets the virtual one as well.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from random import Random, SystemRandom
from types import ModuleType, SimpleNamespace
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from jobs.engine import wakeup
from jobs.worker import heartbeat, listener, maintenance
from tests.simulation import primitives
from tests.simulation.scheduler import Scheduler

# Maintenance is as frequent as a lease of a few seconds needs; more would only slow a run down.
PACE: dict[ModuleType, dict[str, float]] = {
    maintenance: {"SWEEP_SECONDS": 0.8, "EXPIRE_SECONDS": 4.0, "DEMOTE_SECONDS": 2.0}
    | {"PROBE_SECONDS": 10.0, "FAN_IN_SECONDS": 10.0},
    heartbeat: {"TICK_SECONDS": 0.2},
    # Only other connections change the data version, and there are none.
    listener: {"DATA_VERSION_SECONDS": 1e6},
}


def install(scheduler: Scheduler, rng: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the product's modules use the scheduler's time and threads, and the chance of `rng`."""
    stand_ins: dict[object, object] = {
        time: _time(scheduler),
        threading: _threading(scheduler),
        SimpleQueue: partial(primitives.SimpleQueue, scheduler),
        ctypes: _ctypes(scheduler),
        uuid7: partial(_uuid7, scheduler),
        SystemRandom: lambda: Random(rng.getrandbits(64)),
    }
    for module, name, real in _places(len(sys.modules)):
        if real in stand_ins:
            monkeypatch.setattr(module, name, stand_ins[real])
        else:
            monkeypatch.setattr(module, name, Random(rng.getrandbits(64)))
    for module, constants in PACE.items():
        for name, seconds in constants.items():
            monkeypatch.setattr(module, name, seconds)
    # Forget what the processes of the last run have left in these modules.
    monkeypatch.setattr(wakeup, "_in_process", set())
    monkeypatch.setattr(wakeup, "_last_notified", {})


@cache
def _places(_: int) -> list[tuple[ModuleType, str, object]]:
    """Return each name of the product's modules to replace; `_` is how many modules are loaded.

    Sources of chance are replaced one by one, because each is an instance.
    """
    replaced = [time, threading, SimpleQueue, ctypes, uuid7, SystemRandom]
    return [
        (module, name, value)
        for module_name, module in sorted(sys.modules.items())
        if module_name.startswith("jobs.")
        for name, value in vars(module).items()
        if any(value is one for one in replaced) or isinstance(value, SystemRandom)
    ]


def _time(scheduler: Scheduler) -> SimpleNamespace:
    return SimpleNamespace(
        monotonic=scheduler.clock,
        perf_counter=scheduler.clock,
        sleep=lambda seconds: scheduler.sleep(scheduler.true_seconds(seconds)),
    )


def _threading(scheduler: Scheduler) -> SimpleNamespace:
    names: dict[str, Callable[..., object]] = {
        "Lock": primitives.Lock,
        "RLock": primitives.Lock,
        "Condition": primitives.Condition,
        "Event": primitives.Event,
        "Thread": primitives.Thread,
    }
    return SimpleNamespace(
        **{name: partial(make, scheduler) for name, make in names.items()},
        get_ident=lambda: scheduler.running.number,
    )


def _ctypes(scheduler: Scheduler) -> SimpleNamespace:
    """Return a stand-in for `ctypes` that raises an exception in another virtual thread."""
    return SimpleNamespace(
        c_ulong=int,
        py_object=lambda error: error,
        pythonapi=SimpleNamespace(PyThreadState_SetAsyncExc=scheduler.interrupt),
    )


def _uuid7(scheduler: Scheduler) -> UUID:
    """Return an id that grows with time."""
    milliseconds = int(scheduler.now * 1000)
    number = next(scheduler.numbers)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0x2 << 62 | number)
