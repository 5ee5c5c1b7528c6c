"""Settings of a worker process whose machine's clock is wrong."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import time_machine

from tests.support.worker_settings import *  # noqa: F403 - a settings module is its names

_ahead = timedelta(seconds=float(os.environ["CLOCK_AHEAD_SECONDS"]))
# The clock goes on from the wrong time; elapsed time has another clock, as on a real machine.
time_machine.travel(datetime.now(UTC) + _ahead, tick=True).start()
