"""`manage.py jobs run ID --inline`: one attempt of a job, in the command's own process."""

from __future__ import annotations

from dataclasses import dataclass

from interfaces.commands import JsonCommand, Refused
from jobs.errors import WrongState
from jobs.management.arguments import argument, row_id
from jobs.management.job_operations import JOBS
from jobs.management.subcommand import Options, Subcommand, refusals
from jobs.management.tables import wait_lines
from jobs.models import JobQueue
from jobs.queries.why_waiting import OF_WORKERS, why_waiting
from jobs.worker.inline import run_inline
from tenants.cli import command_scope

_INLINE = argument(
    "--inline",
    action="store_true",
    required=True,
    help="run it in this process; without this command, a worker runs the job in its turn",
)


@dataclass(frozen=True)
class RunInline(Subcommand):
    """Runs the job outside of a transaction; other subcommands run inside one."""

    def execute(self, command: JsonCommand, options: Options) -> None:
        """Run the job and print its new state.

        Raises:
            Refused: the job may not run now.
            NotFound: there is no such job.
        """
        with command_scope(options["firm"]), refusals():
            job = JOBS.find(options)
        try:
            run_inline(job)
        except WrongState as error:
            with command_scope(options["firm"]):
                raise Refused(_why_not(JOBS.find(options)), code=error.code) from error
        super().execute(command, options)


def _why_not(job: JobQueue) -> str:
    reasons = [one for one in why_waiting(job) if one.code not in OF_WORKERS]
    lines = wait_lines(job, reasons, nothing="Nothing holds the job back any more: try again.")
    return "\n".join([f"job {job.pk} may not run now:", *(f"  {line}" for line in lines)])


RUN = RunInline(
    "run",
    "Run one attempt of a job in this process, without a timeout: for development.",
    (row_id("job"), _INLINE),
    lambda options: JOBS.result(
        JOBS.find(options), lambda job: f"{job.job_type} {job.job_id} is {job.status}."
    ),
    everywhere=False,
)
