"""Processor time and context switches of processes of this machine, as Linux counts them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from django.db import connection

from jobs.engine.transactions import fetch, reading

PROC = Path("/proc")
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time these processes have used; those that are gone count as 0."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            # After the name, which may contain anything: user and system time are fields 14 and 15.
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def context_switches(pids: Iterable[int]) -> int:
    """Return how often the processor switched from threads of these processes to others."""
    switches = 0
    for pid in pids:
        for status in (PROC / str(pid) / "task").glob("*/status"):
            with suppress(OSError):
                switches += sum(map(int, _SWITCHES.findall(status.read_text())))
    return switches


def server_pids() -> list[int]:
    """Return the server's processes but this connection's; none if the server runs elsewhere."""
    if connection.vendor != "postgresql":
        return []
    rows = reading(
        lambda: fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()", [])
    )
    return [pid for (pid,) in rows if _is_postgres(pid)]


def _is_postgres(pid: int) -> bool:
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().startswith("postgres")
    return False
