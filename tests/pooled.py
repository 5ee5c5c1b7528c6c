"""Runs a command against a PostgreSQL behind PgBouncer in transaction mode: `python -m tests.pooled COMMAND …`.

Every database of the server is reached through the pooler; LISTEN goes past it, as it has to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from tests.postgres import MAX_CONNECTIONS, ROLE, postgres_server
from tests.support.pgbouncer import PgBouncer
from tests.support.ports import reserved_port

CONFIGURATION = """\
[databases]
* = host={folder} port={server_port} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = {role}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = {clients}
"""
# The size of each database's pool; each process of the suite has its own database.
POOL_SIZE = MAX_CONNECTIONS // 4


def main(command: list[str]) -> int:
    """Run `command` with DATABASE_URL and LISTEN_DATABASE_URL set; return its exit code."""
    with (
        postgres_server() as server,
        tempfile.TemporaryDirectory(prefix="mailroom-pgbouncer-") as name,
        reserved_port() as port,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        socket_folder, server_port = server.place
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.format(
                folder=socket_folder,
                server_port=server_port,
                role=ROLE,
                port=port,
                pool_size=POOL_SIZE,
                clients=10 * MAX_CONNECTIONS,
            ),
            encoding="utf-8",
        )
        pooler = PgBouncer(configuration, port, ROLE, server.account)
        pooler.start()
        try:
            urls = {
                "DATABASE_URL": f"postgres://{ROLE}@127.0.0.1:{port}/{ROLE}?sslmode=disable",
                "LISTEN_DATABASE_URL": (
                    f"postgres://{ROLE}@/{ROLE}?host={quote(socket_folder)}&port={server_port}"
                ),
            }
            return subprocess.call(command, env={**os.environ, **urls})
        finally:
            pooler.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
