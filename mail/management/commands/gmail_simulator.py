"""``manage.py gmail_simulator``: serve the local Gmail over HTTP."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from interfaces.commands import nonempty, nonempty_path
from mail.conf import gmail_simulator_store, pubsub_topic, push_subscription
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.server import SimulatorServer

PUSH_SECONDS = 1.0


def push_in_background(simulator: GmailSimulator, endpoint: str) -> None:
    """Push what watched mailboxes publish to the endpoint, until the process ends."""
    expected = push_subscription()
    simulator.subscribe(
        pubsub_topic(),
        endpoint,
        audience=expected.audience,
        service_account=expected.service_account,
    )

    def push() -> None:
        while True:
            time.sleep(PUSH_SECONDS)
            simulator.deliver_pushes()

    threading.Thread(target=push, name="push", daemon=True).start()


class Command(BaseCommand):
    """Serve the mailboxes of the local Gmail until interrupted."""

    help = "Serve Gmail's REST API over the local simulator's mailboxes, until interrupted."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the address to listen on, and the store."""
        parser.add_argument(
            "--host", type=nonempty, default="127.0.0.1", help="default: this machine only"
        )
        parser.add_argument("--port", type=int, default=8085, help="0 takes any free port")
        parser.add_argument(
            "--store",
            type=nonempty_path,
            help="the simulator's SQLite file; default: the service's own",
        )
        parser.add_argument(
            "--json",
            action="store_true",
            help="announce the address as JSON, with the access token of each mailbox",
        )

        parser.add_argument(
            "--push-to",
            metavar="URL",
            help="push the notifications of watched mailboxes to this address",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Listen, print the address, and serve.

        Raises:
            CommandError: the address cannot be used, or the file is no store.
        """
        store: Path = options["store"] or gmail_simulator_store()
        try:
            simulator = GmailSimulator(store)
        except (OSError, sqlite3.Error) as error:
            raise CommandError(f"--store {store} cannot be used: {error}") from error
        try:
            server = SimulatorServer(simulator, options["host"], options["port"])
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"cannot listen on {options['host']}:{options['port']}: {error}"
            ) from error
        # Set explicitly, because a shell starts background processes with SIGINT ignored.
        for told_to_stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(told_to_stop, signal.default_int_handler)
        if options["push_to"]:
            push_in_background(simulator, options["push_to"])
        with server:
            self._announce(server, store, as_json=options["json"])
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                self.stderr.write("stopped")

    def _announce(self, server: SimulatorServer, store: Path, *, as_json: bool) -> None:
        addresses = server.simulator.addresses()
        if as_json:
            tokens = {address: server.simulator.access_token(address) for address in addresses}
            line = json.dumps({"url": server.url, "store": str(store), "access_tokens": tokens})
        else:
            line = f"Gmail simulator at {server.url} over {store} ({len(addresses)} mailboxes)"
        self.stdout.write(line)
        self.stdout.flush()
