"""What handlers record of their runs, outside the database under test."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from jobs.execution.context import JobContext

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


@dataclass(frozen=True)
class Entry:
    """The start or the end of a handler.

    `pid` is that of the worker process, `session` that of the process and its parent, `thread` is
    the handler's; `at` is the machine's monotonic clock, which is the same for all processes.
    """

    what: Literal["start", "end"]
    job_id: str
    attempt: int
    fence: int
    pid: int
    session: int
    thread: int
    label: str
    at: float


class Journal:
    """A file to which many processes append; each line is one write, so no line is torn."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, ctx: JobContext, label: str) -> None:
        """Write that the handler has started."""
        self._append("start", ctx, label)

    def end(self, ctx: JobContext, label: str) -> None:
        """Write that the handler is about to return."""
        self._append("end", ctx, label)

    def entries(self) -> list[Entry]:
        """Return the entries, oldest first."""
        return list(self._read())

    def starts(self, *, job_id: UUID | None = None, session: int | None = None) -> list[Entry]:
        """Return the starts, of one job or by one worker if given."""
        return [
            entry
            for entry in self._read()
            if entry.what == "start"
            and job_id in (None, UUID(entry.job_id))
            and session in (None, entry.session)
        ]

    def _append(self, what: Literal["start", "end"], ctx: JobContext, label: str) -> None:
        entry = Entry(
            what=what,
            job_id=str(ctx.job_id),
            attempt=ctx.attempt,
            fence=ctx.fence,
            pid=os.getpid(),
            session=os.getsid(0),
            thread=threading.get_ident(),
            label=label,
            at=time.monotonic(),
        )
        handle = os.open(self.path, APPEND, 0o600)
        try:
            os.write(handle, f"{json.dumps(asdict(entry))}\n".encode())
        finally:
            os.close(handle)

    def _read(self) -> Iterator[Entry]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as lines:
                # A write across a page can be seen in parts, so only lines with an end are
                # complete.
                for line in lines:
                    if line.endswith("\n"):
                        yield Entry(**json.loads(line))
