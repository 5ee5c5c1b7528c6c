"""The SQLite file: how it is opened, how large its log has grown, whether it is sound."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection

from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import fetch, timed_out

LEAST_BUSY_MILLISECONDS = 5_000
LARGE_LOG_BYTES = 64 * 1024 * 1024
VERY_LARGE_LOG_BYTES = 1024 * 1024 * 1024
LITTLE_ROOM_BYTES = 1024 * 1024 * 1024
HARDLY_ANY_ROOM_BYTES = 100 * 1024 * 1024
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
MEGABYTE = 1024 * 1024

WHY_JOURNAL = "Only with a write-ahead log do readers and the one writer not wait for each other."
WHY_SYNCHRONOUS = (
    "NORMAL survives every crash of a process; a loss of power can undo the last commits. FULL "
    "survives that too, at several times the cost. OFF can lose the whole file."
)
WHY_BUSY = "Who finds the file locked waits so long before giving up."
WHY_MODE = (
    "A transaction that reads first and writes later cannot wait for another writer: it fails at "
    "once. One that begins IMMEDIATE waits at its beginning."
)
WHY_LOG = "A reader that never ends keeps the log from being put back; every read gets slower."
WHY_SOUND = "A damaged page is found by whoever reads it next."
WHY_ROOM = "When the disk is full, nothing can be enqueued, claimed or settled."


def look() -> Iterator[Finding]:
    """Look at the settings of this connection, the file, its log and its disk."""
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


def _judged(finding_id: str, what: str, why: str, mend: str, *, well: bool) -> Finding:
    if well:
        return Finding(finding_id, Severity.OK, what, why)
    return Finding(finding_id, Severity.PROBLEM, what, why, mend)


def _journal() -> Finding:
    mode = str(_pragma("journal_mode"))
    what = f"The journal mode is {mode}."
    return _judged(
        "file.journal", what, WHY_JOURNAL, "PRAGMA journal_mode = WAL;", well=mode == "wal"
    )


def _synchronous() -> Finding:
    level = int(_pragma("synchronous"))
    what = f"The synchronous level is {SYNCHRONOUS.get(level, level)}."
    mend = "PRAGMA synchronous = NORMAL;  -- in the init_command of the database's OPTIONS"
    return _judged("file.synchronous", what, WHY_SYNCHRONOUS, mend, well=level > 0)


def _busy_timeout() -> Finding:
    milliseconds = int(_pragma("busy_timeout"))
    what = f"The busy timeout is {milliseconds / 1000:g} s."
    mend = '"timeout": 20  # in the OPTIONS of the database'
    well = milliseconds >= LEAST_BUSY_MILLISECONDS
    return _judged("file.busy_timeout", what, WHY_BUSY, mend, well=well)


def _transaction_mode() -> Finding:
    mode = str(getattr(connection, "transaction_mode", None) or "DEFERRED")
    what = f"Transactions begin {mode}."
    mend = '"transaction_mode": "IMMEDIATE"  # in the OPTIONS of the database'
    return _judged("file.transaction_mode", what, WHY_MODE, mend, well=mode == "IMMEDIATE")


def _log(path: Path) -> Finding:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    what = f"The write-ahead log takes {size / MEGABYTE:,.1f} MB."
    if size < LARGE_LOG_BYTES:
        return Finding("file.log", Severity.OK, what, WHY_LOG)
    severity = Severity.PROBLEM if size >= VERY_LARGE_LOG_BYTES else Severity.NOTICE
    mend = "PRAGMA wal_checkpoint(TRUNCATE);  -- after ending processes that read for long"
    return Finding("file.log", severity, what, WHY_LOG, mend)


def _room(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    what = f"{free / MEGABYTE:,.0f} MB are free on the file's disk."
    if free >= LITTLE_ROOM_BYTES:
        return Finding("file.room", Severity.OK, what, WHY_ROOM)
    severity = Severity.PROBLEM if free < HARDLY_ANY_ROOM_BYTES else Severity.NOTICE
    mend = "manage.py purge_jobs, then VACUUM; or move the file (VAR_DIR) to a larger disk"
    return Finding("file.room", severity, what, WHY_ROOM, mend)


def soundness() -> Iterator[Finding]:
    """Read the whole file for damage, as far as there is time."""
    yield _soundness()


def _soundness() -> Finding:
    try:
        faults = [str(row[0]) for row in fetch("PRAGMA quick_check(5)")]
    except DatabaseError as error:
        if not timed_out(error):
            raise
        what = "The file is too large to be checked for damage in passing."
        mend = "manage.py queue_doctor, which takes longer; or PRAGMA quick_check;"
        return Finding("file.sound", Severity.NOTICE, what, WHY_SOUND, mend)
    if faults == ["ok"]:
        return Finding("file.sound", Severity.OK, "The file is sound.", WHY_SOUND)
    what = f"The file is damaged: {'; '.join(faults)}."
    mend = "Stop the service and restore a backup, or save what is there: sqlite3 FILE .recover"
    return Finding("file.sound", Severity.PROBLEM, what, WHY_SOUND, mend)
