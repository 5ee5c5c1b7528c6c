"""EMBEDDED_WORKER: one worker beside the web processes of a machine; it ends when they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.models import Worker
from jobs.queue import enqueue
from jobs.states import Status
from tenants.models import Firm
from tests.queue_kit import row
from tests.support.waiting import wait_until
from tests.support.web import WebProcess, web_process

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.req("E-02"),
]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebProcess]:
    """Serve with two web processes and a worker."""
    variables = {"EMBEDDED_WORKER": "1", "VAR_DIR": str(tmp_path), "JOB_LEASE_SECONDS": "5"}
    with web_process(tmp_path / "web.log", "--workers", "2", **variables) as serving:
        yield serving
    wait_until(lambda: not of_folder(tmp_path), "the worker to end with the web processes")


def of_folder(folder: Path) -> dict[int, int]:
    """Return the workers' main processes that run with this VAR_DIR, and the parent of each."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        is_parent = b"runworker" in command and b"--child" not in command
        if is_parent and f"VAR_DIR={folder}".encode() in environment:
            found[int(entry.name)] = parent
    # Processes that such a main process has started run `runworker`, too.
    return {pid: parent for pid, parent in found.items() if parent not in found}


def works(firm: Firm) -> None:
    """Wait until a job is done."""
    job_id = enqueue("noop", firm=firm).job.pk
    wait_until(lambda: row(job_id).status == Status.COMPLETED, "the job to be done", timeout=300)


def test_one_worker_beside_two_web_processes_and_another_after_the_death_of_its_own(
    web: WebProcess, firm: Firm, tmp_path: Path
) -> None:
    works(firm)
    ((worker, web_pid),) = of_folder(tmp_path).items()
    assert web_pid != os.getpid()

    # The web process that started the worker dies: the worker ends, and the other web process
    # starts one.
    os.kill(web_pid, signal.SIGKILL)
    wait_until(lambda: worker not in of_folder(tmp_path), "the worker to end")
    wait_until(lambda: len(of_folder(tmp_path)) == 1, "another worker")
    works(firm)

    # The worker dies: the web process lives, and starts another.
    ((second, second_web),) = of_folder(tmp_path).items()
    os.kill(second, signal.SIGKILL)

    def is_anew() -> bool:
        found = of_folder(tmp_path)
        return second not in found and list(found.values()) == [second_web]

    wait_until(is_anew, "the worker anew")
    works(firm)
    assert web.process.poll() is None


def test_without_the_setting_no_worker_starts(tmp_path: Path) -> None:
    with web_process(tmp_path / "web.log", VAR_DIR=str(tmp_path)):
        assert of_folder(tmp_path) == {}
    assert not Worker.objects.exists()
