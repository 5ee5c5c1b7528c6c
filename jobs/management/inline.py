"""`manage.py jobs run ID --inline`: one attempt of a job, in the command's own process."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.management.base import CommandError

from interfaces.commands import EXIT_USAGE, JsonCommand
from jobs.management.arguments import argument, row_id
from jobs.management.job_operations import JOBS
from jobs.management.subcommand import Options, Subcommand, refusals
from jobs.worker.inline import run_inline
from tenants.cli import command_scope


@dataclass(frozen=True)
class RunInline(Subcommand):
    """Runs the job outside of the transaction in which commands do the rest."""

    def execute(self, command: JsonCommand, options: Options) -> None:
        """Run the job and print it as it is then.

        Raises:
            Refused: it may not run now.
            NotFound: there is no such job.
            CommandError: `--inline` is missing.
        """
        if not options["inline"]:
            text = "a worker runs it in its turn; to run it in this process: --inline"
            raise CommandError(text, returncode=EXIT_USAGE)
        with command_scope(options["firm"]), refusals():
            job = JOBS.find(options)
        with refusals():
            run_inline(job)
        super().execute(command, options)


RUN = RunInline(
    "run",
    "Run one attempt of a job in this process, without a timeout: for development.",
    (row_id("job"), argument("--inline", action="store_true", help="in this process")),
    lambda options: JOBS.result(
        JOBS.find(options), lambda job: f"{job.job_type} {job.job_id} is {job.status}."
    ),
    everywhere=False,
)
