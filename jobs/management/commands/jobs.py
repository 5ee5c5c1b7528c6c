"""`manage.py jobs VERB`: look at jobs, enqueue, retry and cancel them."""

from __future__ import annotations

from jobs.cli.job_acts import CancelJob, RetryJob
from jobs.cli.job_enqueue import EnqueueJob
from jobs.cli.job_list import ListJobs
from jobs.cli.job_show import ShowJob
from jobs.cli.job_stats import ShowStats
from jobs.cli.job_why import WhyWaiting
from jobs.cli.verbs import VerbCommand


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
