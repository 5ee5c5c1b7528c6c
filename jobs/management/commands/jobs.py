"""`manage.py jobs VERB`: look at jobs, enqueue, retry and cancel them."""

from __future__ import annotations

from jobs.management.subcommands.job_acts import CancelJob, RetryJob
from jobs.management.subcommands.job_enqueue import EnqueueJob
from jobs.management.subcommands.job_list import ListJobs
from jobs.management.subcommands.job_show import ShowJob
from jobs.management.subcommands.job_stats import ShowStats
from jobs.management.subcommands.job_why import WhyWaiting
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The queue's jobs."""

    help = "Look at jobs; enqueue, retry and cancel them."
    verbs = (
        ListJobs(),
        ShowJob(),
        ShowStats(),
        WhyWaiting(),
        EnqueueJob(),
        RetryJob(),
        CancelJob(),
    )
