"""A PgBouncer in front of the PostgreSQL server to which a proxy leads."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg

from tests.support.ports import reserved_port
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# PgBouncer refuses to run as root.
UNPRIVILEGED = "nobody" if os.geteuid() == 0 else None
POOL_SIZE = 8
CONFIGURATION = """\
[databases]
{database} = host=127.0.0.1 port={server_port} dbname={database} user={user}{password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = {user}
pool_mode = {mode}
default_pool_size = {pool_size}
server_tls_sslmode = disable
"""


class PgBouncer:
    """A running pooler, which may be paused and restarted."""

    def __init__(
        self, configuration: Path, port: int, user: str, account: str | None = UNPRIVILEGED
    ) -> None:
        """Use the `port` of the configuration as the role `user`; the program runs as `account`."""
        self._configuration = configuration
        self._account = account
        self._console = f"host=127.0.0.1 port={port} user={user} dbname=pgbouncer"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the pooler, and wait until it accepts connections."""
        log = self._configuration.with_suffix(".log")
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(PROGRAM), str(self._configuration)],
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self._account,
            )
        wait_until(self._answers, "PgBouncer")

    def kill(self) -> None:
        """Kill the pooler."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def command(self, text: str) -> None:
        """Send a command to the pooler's console, which knows only the simple query protocol.

        Raises:
            AssertionError: the pooler refused, or was too slow; a pause waits for all transactions.
        """
        with closing(self._connect()) as console:
            # A signal does not end a wait inside libpq, so it would outlast the test's timeout.
            console.pgconn.send_query(text.encode())
            wait_until(lambda: _has_answered(console), f"PgBouncer did {text}")
            answer = console.pgconn.get_result()
            assert answer is not None
            assert answer.status == psycopg.pq.ExecStatus.COMMAND_OK, answer.error_message

    def _connect(self, seconds: int = 60) -> psycopg.Connection:
        return psycopg.connect(self._console, autocommit=True, connect_timeout=seconds)

    def _answers(self) -> bool:
        try:
            # A pooler that was stopped accepts connections, but does not answer.
            with self._connect(seconds=2):
                return True
        except psycopg.OperationalError:
            return False


def _has_answered(console: psycopg.Connection) -> bool:
    console.pgconn.consume_input()
    return not console.pgconn.is_busy()


@contextmanager
def pgbouncer(proxy: Proxy, mode: str = "transaction") -> Iterator[tuple[PgBouncer, str]]:
    """Run a pooler inside the block; yield it, and the URL of the database through it."""
    # Other accounts may not read pytest's folders.
    with (
        tempfile.TemporaryDirectory(prefix="mailroom-pgbouncer-") as folder,
        reserved_port() as port,
    ):
        Path(folder).chmod(0o755)
        yield from _running(proxy, mode, Path(folder), port)


def _running(proxy: Proxy, mode: str, folder: Path, port: int) -> Iterator[tuple[PgBouncer, str]]:
    server = urlsplit(proxy.url)
    configuration = folder / "pgbouncer.ini"
    configuration.write_text(
        CONFIGURATION.format(
            database=server.path.lstrip("/"),
            server_port=server.port,
            user=server.username,
            password=f" password='{unquote(server.password)}'" if server.password else "",
            port=port,
            mode=mode,
            pool_size=POOL_SIZE,
        ),
        encoding="utf-8",
    )
    configuration.chmod(0o644)
    pooler = PgBouncer(configuration, port, str(server.username))
    pooler.start()
    try:
        yield pooler, f"postgres://{server.username}@127.0.0.1:{port}{server.path}?sslmode=disable"
    finally:
        pooler.kill()
