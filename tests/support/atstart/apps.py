"""An app that does at its start what some apps do; the variable AT_START says what."""

from __future__ import annotations

import os
import signal
import threading

from django.apps import AppConfig
from django.db import connection


class AtStartConfig(AppConfig):
    """Starts a thread, opens a connection, or ignores the ends of child processes."""

    name = "tests.support.atstart"

    def ready(self) -> None:
        """Do what AT_START says, in each process that loads the apps."""
        what = os.environ["AT_START"]
        if what == "thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        elif what == "connection":
            connection.ensure_connection()
        elif what == "ignored SIGCHLD":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        else:
            raise ValueError(f"AT_START={what}")
