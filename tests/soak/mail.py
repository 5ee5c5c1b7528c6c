"""Mirrors mailboxes through long random histories: `python -m tests.soak.mail`.

Mail arrives, labels change, mail is deleted, histories and notifications are lost, notifications
come twice or out of order, the API fails, quotas are used up, processes die. Every hundred
operations the store must equal the mailbox. For a seed that fails, the last steps are printed, and
the exit code is 1; `--seed` plays that seed again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.benchmarks.harness import empty_database, keep

OPERATIONS = 20_000
OPERATIONS_A_HISTORY = 500
OPERATIONS_A_CHECK = 100
STEPS_SHOWN = 30


def main() -> int:
    """Run; return 0 if the store equalled the mailbox at every check."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mail")
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--seed", type=int, help="play this history alone")
    arguments = parser.parse_args()
    count: int = arguments.operations
    seeds = [arguments.seed]
    if arguments.seed is None:
        seeds = list(range(-(-count // OPERATIONS_A_HISTORY)))
    began = time.monotonic()
    with empty_database() as vendor, tempfile.TemporaryDirectory() as folder:
        done = 0
        for seed in seeds:
            wanted = min(OPERATIONS_A_HISTORY, count - done)
            if not _plays(seed, wanted, Path(folder)):
                return 1
            done += wanted
            _write(f"{done:,} operations, {time.monotonic() - began:.0f} s")
        keep("soak-mail", vendor, {"operations": done, "seconds": time.monotonic() - began})
    return 0


def _plays(seed: int, count: int, folder: Path) -> bool:
    """Play one history; say whether the store equalled the mailbox at every check."""
    from django.test import override_settings

    from mail.gmail.connect import local_gmail
    from mail.services.mailboxes.accounts import open_account
    from mail.services.syncing import sync
    from tests.factories.tenants import FirmFactory
    from tests.mail.mail_kit import Mailbox
    from tests.mail.mirror_machine import World, random_step

    # Pages are small, so that listings have several.
    sync.PAGE_SIZE = 7
    random = Random(seed)
    store = folder / f"{seed}.sqlite3"
    steps = []
    with override_settings(GMAIL_SIMULATOR_STORE=store):
        firm = FirmFactory()
        account = open_account(firm, "soak@acme.example")
        world = World.of(firm, Mailbox(firm, account, local_gmail(store)))
        try:
            for number in range(1, count + 1):
                steps.append(random_step(random))
                world.play(steps[-1])
                if number % OPERATIONS_A_CHECK == 0 or number == count:
                    world.settle()
                    world.check()
        except Exception as error:  # noqa: BLE001 - any error is reported with the seed
            _write(f"seed {seed}, step {len(steps)}: {type(error).__name__}: {error}"[:4000])
            _write("\n".join(map(str, steps[-STEPS_SHOWN:])))
            return False
    return True


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
