"""Ends the process of a finished worker even if handlers left something running in it."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress

# How long threads, and functions called at the process's exit, have for ending by themselves.
LEFT_BEHIND_SECONDS = 5.0


def end_all_the_same(code: int) -> None:
    """End this process with `code` after LEFT_BEHIND_SECONDS, if it has not ended by itself.

    Python waits without limit for the threads of an executor that a handler left, and for threads
    that are no daemons. Nobody else would end the process, because its worker has settled or
    released its jobs.
    """
    threading.Thread(target=_end, args=(code,), name="end-all-the-same", daemon=True).start()


def _end(code: int) -> None:
    time.sleep(LEFT_BEHIND_SECONDS)
    # A handler may have left the logging broken, too.
    with suppress(Exception):
        logging.getLogger("jobs").warning(
            "a handler left a thread or an exit hook behind; the worker's process does not "
            "wait for it"
        )
    os._exit(code)
