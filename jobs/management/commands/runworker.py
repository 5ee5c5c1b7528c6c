"""`manage.py runworker`: claim jobs and run them."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from jobs import VERSION, registry
from jobs.execution.child_process import die_with_parent
from jobs.management.own_process import (
    end_all_the_same,
    open_missing_streams,
    run_reloading,
    same_command,
)
from jobs.management.worker_arguments import add_ending, add_processes, add_serving
from jobs.queries.doctor import setting_checks
from jobs.worker.child import Program
from jobs.worker.health import serve_health
from jobs.worker.running_slots import RunningSlots
from jobs.worker.signals import ignore_stops, stop_on_sigterm
from jobs.worker.state import is_mistake
from jobs.worker.supervisor import Supervisor
from jobs.worker.worker import WorkerLoop, WorkerOptions

EXIT_REPLACE_ME = 75


class Command(BaseCommand):
    """Runs workers until they are told to stop."""

    # Empty if the command is called from Python.
    _command_line: Sequence[str] = ()
    # The other checks would load every page, which a worker does not need.
    requires_system_checks = (Tags.models, Tags.database, Tags.caches, setting_checks.TAG)

    help = (
        "Claim and run jobs until stopped by SIGTERM, SIGINT or SIGHUP; a second SIGTERM or SIGINT "
        "to this process stops it at once."
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        open_missing_streams()
        super().__init__(*arguments, **options)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for what to serve, how much at a time, and when to end."""
        add_serving(parser)
        add_ending(parser)
        add_processes(parser)

    def run_from_argv(self, argv: list[str]) -> None:
        """Note the command line that started this: the children are started with the same one."""
        self._command_line = same_command(argv)
        super().run_from_argv(argv)

    def handle(self, *_: Any, **options: Any) -> None:
        """Supervise the processes, or be one of them; called from Python, work in this process."""
        worker = _worker_options(options)
        if options["reload"]:
            if not self._command_line:
                raise CommandError(
                    "argument --reload: only works on the command line, not from Python"
                )
            command = [one for one in self._command_line if one != "--reload"]
            sys.exit(run_reloading(command, self.stderr.write))
        if options["child"] is not None:
            handle = options["running_slots"]
            slots = None if handle is None else RunningSlots.inherited(handle)
            sys.exit(_serve(worker, slots, options["child"], _health_address(options, 0)))
        if not self._command_line:
            WorkerLoop(worker).run()
            return
        # Failing to print the greeting (a closed pipe, a full disk) must not keep the worker from
        # starting.
        with suppress(OSError):
            self._announce(worker, options)
        supervisor = Supervisor(
            [self._program(worker, options, number) for number in range(options["processes"])],
            threads=worker.concurrency,
            grace_seconds=worker.grace_seconds,
            lasting=not worker.burst and worker.max_jobs is None,
            forks=not options["spawn"],
        )
        code = supervisor.run()
        # Exit without Python's shutdown, which takes seconds on a busy machine and is not needed.
        logging.shutdown()
        os._exit(code)

    def _announce(self, worker: WorkerOptions, options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(_description(worker, options)))
            self.stdout.flush()
        else:
            self.stderr.write(_greeting(worker, options))

    def _program(self, worker: WorkerOptions, options: Mapping[str, Any], number: int) -> Program:
        """Return what a child runs: with its command line, it is this one's with its own port."""
        parent, address = os.getpid(), _health_address(options, number)
        command = [*self._command_line, "--skip-checks", "--child", str(parent)]
        if address:
            command += ["--health-port", str(address[1])]

        def run(slots: RunningSlots) -> int:
            try:
                return _serve(worker, slots, parent, address)
            except CommandError as error:
                self.stderr.write(f"CommandError: {error}")
                return error.returncode

        return Program(run, command)


def _health_address(options: Mapping[str, Any], number: int) -> tuple[str, int] | None:
    """Return where the worker process of this number answers: the ports follow each other."""
    port = options["health_port"]
    return (options["health_host"], port + number) if port else None


def _worker_options(options: dict[str, Any]) -> WorkerOptions:
    return WorkerOptions(
        concurrency=options["concurrency"],
        poll_seconds=options["poll_interval"],
        grace_seconds=options["grace"],
        categories=tuple(options["category"]),
        job_types=_job_types(options["job_type"], options["queue"]),
        burst=options["burst"],
        scheduler=not options["no_scheduler"],
        max_jobs=options["max_jobs"],
    )


def _job_types(named: Sequence[str], queues: Sequence[str]) -> tuple[str, ...]:
    """Return the named types and those of the queues."""
    types = set(named)
    for queue in queues:
        types.update(registry.types_in_queue(queue))
    return tuple(sorted(types))


def _serve(
    options: WorkerOptions,
    slots: RunningSlots | None,
    parent: int,
    health_address: tuple[str, int] | None,
) -> int:
    """Run one worker until SIGTERM; without a supervisor's `slots`, a second SIGTERM kills it."""
    # The parent may have died while this process was loading.
    die_with_parent(parent)
    loop = WorkerLoop(options, slots)
    stop_on_sigterm(loop.stop, supervised=slots is not None)
    if health_address:
        _serve_health(*health_address, loop.is_ready)
    tune_garbage_collector()
    try:
        loop.run()
    except DatabaseError as error:
        if not is_mistake(error):
            raise
        # The log gets the error; the exit code below tells the supervisor to replace this process.
        loop.state.break_by(error, "claim")
    if loop.state.stuck.is_set() or loop.state.broken.is_set():
        # A stuck handler ends only with the process; the parent starts another.
        os._exit(EXIT_REPLACE_ME)
    # Otherwise the garbage collection at exit would read every imported object.
    gc.freeze()
    end_all_the_same()
    ignore_stops()
    return 0


def _serve_health(host: str, port: int, ready: Callable[[], bool]) -> None:
    try:
        serve_health(host, port, ready)
    except OSError as error:
        why = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise CommandError(f"argument --health-port: {why}") from error


def tune_garbage_collector() -> None:
    """Keep what the program imported out of every collection, and collect less often.

    Claims and outcomes live for a tenth of a second, which is long enough for the collector to move
    them to the oldest objects. With Python's own thresholds, collecting those, with everything
    imported among them, took a fifth of the time per job.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 10)


def _description(worker: WorkerOptions, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "categories": options["category"],
        "job_types": options["job_type"],
        "queues": options["queue"],
        "processes": options["processes"],
        "concurrency": worker.concurrency,
        "burst": worker.burst,
        "max_jobs": worker.max_jobs,
        "scheduler": worker.scheduler and not worker.burst,
    }


def _greeting(worker: WorkerOptions, options: Mapping[str, Any]) -> str:
    queues = [f"queue {queue}" for queue in options["queue"]]
    served = ", ".join([*options["category"], *options["job_type"], *queues]) or "all jobs"
    ending = " until nothing is runnable" if worker.burst else ""
    processes = options["processes"]
    times = "1 process" if processes == 1 else f"{processes} processes"
    return (
        f"Mailroom {VERSION} worker {os.getpid()} serves {served}{ending}: "
        f"{times}, {worker.concurrency} at a time."
    )
