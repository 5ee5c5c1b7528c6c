"""`manage.py workers`: list, quiet, resume, drain, stop."""

from __future__ import annotations

from django.core.management.base import CommandError

from interfaces.commands import EXIT_USAGE, JsonCommand
from jobs.engine.clock import database_now
from jobs.management import arguments
from jobs.management.arguments import argument
from jobs.management.subcommand import (
    CommandGroup,
    Options,
    Resource,
    Result,
    Subcommand,
    subcommand,
)
from jobs.management.tables import columns_of
from jobs.models import Worker
from jobs.operations import workers
from jobs.queries.durations import since_in_words
from jobs.queries.lists import get_page, newest_version, worker_context
from jobs.queries.serializers.stats import WorkerSerializer
from tenants.cli import operator

WORKERS = Resource("worker", Worker.objects.all, WorkerSerializer)
ID = argument("id", nargs="?", help="the worker's id, or enough of its beginning")
FIRM_HELP = "count only the running jobs of this firm; workers serve every firm"
HOST = argument("--host", metavar="NAME", help="every live worker of this host")


@subcommand(
    "list",
    "List workers, the latest first.",
    arguments.LIMIT,
    arguments.CURSOR,
    firm_help=FIRM_HELP,
    reads=True,
)
def _list(options: Options) -> Result:
    page = get_page(Worker.objects.all(), limit=options["limit"], cursor=options["cursor"])
    context = worker_context(page.rows)

    def show(command: JsonCommand) -> None:
        if not page.rows:
            command.stdout.write("No workers. To start one: manage.py runworker")
            return
        now, newest = database_now(), newest_version()
        command.table(
            "",
            columns_of("Worker", "Host", "Version", "Asked to", "Running", "Heartbeat"),
            [
                [
                    row.pk,
                    str(row),
                    row.version if row.version == newest else f"{row.version} (not the newest)",
                    row.requested or ("dead" if row.dead_at else None),
                    f"{len(context['running'][row.pk])} of {row.concurrency}",
                    since_in_words(row.heartbeat_at, now),
                ]
                for row in page.rows
            ],
        )
        if page.next_cursor is not None:
            command.stdout.write(f"More: --cursor {page.next_cursor}")

    results = WorkerSerializer(page.rows, many=True, context=context).data
    return Result({"results": results, "next": page.next_cursor}, show)


def _asks(name: str, help_text: str) -> Subcommand:
    """Return the subcommand that asks this of a worker, or of each of a host."""

    def run(options: Options) -> Result:
        if (options["id"] is None) == (options["host"] is None):
            raise CommandError("give either the worker's id or --host NAME", returncode=EXIT_USAGE)
        given = {"reason": options["reason"], "by": operator()}
        if options["host"] is not None:
            asked = workers.on_host(name, options["host"], **given)
        else:
            asked = [workers.OPERATIONS[name](WORKERS.find(options), **given)]
        lines = [f"Asked {worker} to {name}: it does so at its next heartbeat." for worker in asked]
        data = WorkerSerializer(asked, many=True, context=worker_context(asked)).data
        return Result({"results": data}, "\n".join(lines))

    return subcommand(name, help_text, ID, HOST, arguments.REASON, firm_help=FIRM_HELP)(run)


class Command(CommandGroup):
    """The worker processes, which serve every firm."""

    help = "List workers; ask them to claim no jobs for now, or to end."
    subcommands = (
        _list,
        _asks("quiet", "The worker claims no more jobs until it is resumed."),
        _asks("resume", "A quiet worker claims jobs again."),
        _asks("drain", "The worker finishes what it is running and exits. It is not replaced."),
        _asks(
            "stop",
            (
                "The worker exits; jobs still running after the grace period return to the queue. It "
                "is not replaced."
            ),
        ),
    )
