"""An app that does at its start what some apps do; the variable AT_START says what."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from django.apps import AppConfig
from django.db import DEFAULT_DB_ALIAS, connection, connections

from tests.support.waiting import wait_until


class AtStartConfig(AppConfig):
    """Starts a thread, opens a connection or a pool, or ignores the ends of child processes."""

    name = "tests.support.atstart"

    def ready(self) -> None:
        """Do what AT_START says, in each process that loads the apps."""
        what = os.environ["AT_START"]
        if what == "thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        elif what == "connection":
            connection.ensure_connection()
        elif what == "pool":
            open_pool()
        elif what == "ignored SIGCHLD":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        else:
            raise ValueError(f"AT_START={what}")


def open_pool() -> None:
    """Start a thread that ends when Django closes the pool, as those of `psycopg_pool` do."""
    closed = threading.Event()
    thread = threading.Thread(target=closed.wait, daemon=True)
    thread.start()

    def close_pool() -> None:
        closed.set()
        thread.join()
        # The system has ended it a moment later than Python.
        wait_until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists(), "its end")

    connections[DEFAULT_DB_ALIAS].close_pool = close_pool  # type: ignore[method-assign]
