"""A process that only ticks, by the clock in a file: `python -m tests.jobs.schedules.ticker CLOCK MARK`."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import django


def main(clock: Path, mark: Path) -> None:
    """Tick until the process is killed; create `mark` after the first tick."""
    django.setup()
    from tests.jobs.schedules.kit import tick_at

    while True:
        tick_at(datetime.fromisoformat(clock.read_text(encoding="ascii")))
        mark.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
