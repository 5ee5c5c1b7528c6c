"""The SQLite file: how it is opened, how large its log has grown, whether it is sound."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection

from jobs.queries.doctor.base import Finding, Severity, fetch, graded, timed_out

LEAST_BUSY_MILLISECONDS = 5_000
LARGE_LOG_BYTES = 64 * 1024 * 1024
VERY_LARGE_LOG_BYTES = 1024 * 1024 * 1024
LITTLE_ROOM_BYTES = 1024 * 1024 * 1024
HARDLY_ANY_ROOM_BYTES = 100 * 1024 * 1024
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
MEGABYTE = 1024 * 1024

WHY_JOURNAL = "Only with a write-ahead log do readers and the one writer not block each other."
WHY_SYNCHRONOUS = (
    "NORMAL survives every crash of a process, but a power loss can undo the last commits. FULL "
    "survives that, too, at several times the cost. OFF can lose the whole file."
)
WHY_BUSY = "A connection that finds the file locked waits this long before it gives up."
WHY_MODE = (
    "A transaction that reads first and writes later cannot wait for another writer: it fails at "
    "once. With IMMEDIATE it waits at its beginning instead."
)
WHY_LOG = (
    "A transaction that never ends prevents checkpoints of the log, and every read gets slower."
)
WHY_SOUND = "A damaged page fails the next query that reads it."
WHY_ROOM = "When the disk is full, nothing can be enqueued, claimed or settled."


def check() -> Iterator[Finding]:
    """Check the settings of this connection, the file, its log and its disk."""
    yield _journal()
    yield _synchronous()
    yield _busy_timeout()
    yield _transaction_mode()
    path = Path(str(connection.settings_dict["NAME"]))
    if path.exists():
        yield _log(path)
        yield _room(path)


def _pragma(name: str) -> Any:
    ((value,),) = fetch(f"PRAGMA {name}")
    return value


def _journal() -> Finding:
    mode = str(_pragma("journal_mode"))
    what, mend = f"The journal mode is {mode}.", "PRAGMA journal_mode = WAL;"
    return graded("file.journal", what, WHY_JOURNAL, mend, problem=mode != "wal")


def _synchronous() -> Finding:
    level = int(_pragma("synchronous"))
    what = f"The synchronous level is {SYNCHRONOUS.get(level, level)}."
    mend = "PRAGMA synchronous = NORMAL;  -- in the init_command of the database's OPTIONS"
    return graded("file.synchronous", what, WHY_SYNCHRONOUS, mend, problem=level == 0)


def _busy_timeout() -> Finding:
    milliseconds = int(_pragma("busy_timeout"))
    what = f"The busy timeout is {milliseconds / 1000:g} s."
    mend = '"timeout": 20  # in the OPTIONS of the database'
    short = milliseconds < LEAST_BUSY_MILLISECONDS
    return graded("file.busy_timeout", what, WHY_BUSY, mend, problem=short)


def _transaction_mode() -> Finding:
    mode = str(getattr(connection, "transaction_mode", None) or "DEFERRED")
    what = f"Transactions begin {mode}."
    mend = '"transaction_mode": "IMMEDIATE"  # in the OPTIONS of the database'
    return graded("file.transaction_mode", what, WHY_MODE, mend, problem=mode != "IMMEDIATE")


def _log(path: Path) -> Finding:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    what = f"The write-ahead log has {size / MEGABYTE:,.1f} MB."
    mend = "PRAGMA wal_checkpoint(TRUNCATE);  -- after ending long-reading processes"
    large = size >= LARGE_LOG_BYTES
    severe = large and size >= VERY_LARGE_LOG_BYTES
    return graded("file.log", what, WHY_LOG, mend, problem=severe, notice=large)


def _room(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    what = f"{free / MEGABYTE:,.0f} MB are free on the file's disk."
    mend = "manage.py purge_jobs, then VACUUM; or move the file (VAR_DIR) to a larger disk"
    severe, notice = free < HARDLY_ANY_ROOM_BYTES, free < LITTLE_ROOM_BYTES
    return graded("file.room", what, WHY_ROOM, mend, problem=severe, notice=notice)


def check_soundness() -> Iterator[Finding]:
    """Read the whole file for damage, as far as the time limit allows."""
    try:
        faults = [str(row[0]) for row in fetch("PRAGMA quick_check(5)")]
    except DatabaseError as error:
        if not timed_out(error):
            raise
        what = "The file is too large to be checked for damage within the time limit."
        mend = "manage.py queue_doctor, which takes longer; or PRAGMA quick_check;"
        yield Finding("file.sound", Severity.NOTICE, what, WHY_SOUND, mend)
        return
    sound = faults == ["ok"]
    what = "The file is sound." if sound else f"The file is damaged: {'; '.join(faults)}."
    mend = "Stop the service and restore a backup, or save what is there: sqlite3 FILE .recover"
    yield graded("file.sound", what, WHY_SOUND, mend, problem=not sound)
