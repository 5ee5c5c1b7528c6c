"""Runs workers of the last release beside those of this tree: `python -m tests.rehearsal REVISION`.

The old code creates the tables, starts a worker and enqueues jobs. Then the new code migrates the
database and starts its own worker, both enqueue jobs, and the old worker is told to end. Every job
must complete with one attempt.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

# The last revision of version 0.1.0.
LAST_RELEASE = "ba42605f200799efcb707741512bda3e55dc2c28"
JOBS = 40
LIMIT_SECONDS = 300
ENQUEUE = """
import django; django.setup()
from jobs.queue import EnqueueSpec, enqueue_many
enqueue_many([EnqueueSpec("noop", {}) for _ in range(%d)])
"""


class Code:
    """A revision of the code, which uses the rehearsal's database."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**environment, "PYTHONPATH": str(folder)}

    def manage(self, *arguments: str) -> str:
        """Run a command; return what it printed."""
        return self._run("manage.py", *arguments)

    def enqueue(self) -> None:
        """Enqueue some jobs."""
        self._run("-c", ENQUEUE % JOBS)

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        command = [sys.executable, "manage.py", "runworker"]
        return subprocess.Popen(command, cwd=self._folder, env=self._environment)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout


def unpack(revision: str, folder: Path) -> Path:
    """Write the files of this revision into the folder."""
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def wait_until_done(code: Code, jobs: int) -> list[dict[str, Any]]:
    """Wait until `jobs` jobs have ended; return the jobs that have."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        listed = code.manage("jobs", "list", "--type", "noop", "--limit", "200", "--json")
        found: list[dict[str, Any]] = json.loads(listed)["results"]
        ended = [job for job in found if job["completed_at"] is not None]
        if len(ended) >= jobs:
            return ended
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(ended)} of {jobs} jobs ended: {Counter(_ends(found))}")
        time.sleep(1)


def _ends(jobs: list[dict[str, Any]]) -> list[str]:
    return [f"{job['status']} in {job['attempts']}" for job in jobs]


def rehearse(old: Code, new: Code) -> Counter[str]:
    """Rehearse with these revisions; return how many jobs ended in each way."""
    old.manage("migrate", "-v", "0")
    workers = [old.work()]
    try:
        old.enqueue()
        wait_until_done(old, JOBS)
        new.manage("migrate", "-v", "0")
        old.enqueue()
        wait_until_done(new, 2 * JOBS)
        workers.append(new.work())
        old.enqueue()
        new.enqueue()
        workers[0].send_signal(signal.SIGTERM)
        if workers[0].wait(LIMIT_SECONDS) != 0:
            raise SystemExit("the old worker did not end in order")
        return Counter(_ends(wait_until_done(new, 4 * JOBS)))
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait(LIMIT_SECONDS)


def main() -> int:
    """Rehearse; return 1 if a job did not complete at its first attempt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the last release: a tag or commit")
    revision = parser.parse_args().revision
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "VAR_DIR": f"{folder}/var", "LOG_LEVEL": "WARNING"}
        environment["DJANGO_SETTINGS_MODULE"] = "config.settings"
        old = Code(unpack(revision, Path(folder) / "old"), environment)
        ends = rehearse(old, Code(ROOT, environment))
    for end, jobs in ends.items():
        sys.stdout.write(f"{jobs} jobs {end}\n")
    return int(ends.keys() != {"completed in 1"})


if __name__ == "__main__":
    sys.exit(main())
