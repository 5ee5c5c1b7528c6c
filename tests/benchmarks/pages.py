"""How long the operators' pages and lists take: `python -m tests.benchmarks.pages`.

Seeds a test database with 100,000 finished, 20,000 waiting and 5,000 dead jobs, asks for every page
as platform staff and as a firm's operator, and prints the median and the 95th percentile beside the
bound (300 ms on PostgreSQL, 500 ms on SQLite). Keeps the figures as JSON under var/bench/.
"""

from __future__ import annotations

import sys
import time
from statistics import median, quantiles
from typing import Any

from tests.benchmarks.harness import empty_database, keep

ROUNDS = 40
BOUND_MS = {"postgresql": 300, "sqlite": 500}


def main() -> int:
    """Measure and print; return 0."""
    with empty_database() as vendor:
        results = _measure()
        _print(results, BOUND_MS[vendor], vendor)
        keep("pages", vendor, {"pages": results})
    return 0


def _measure() -> list[dict[str, Any]]:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from tenants.models import Membership, Role
    from tenants.scope import firm_scope
    from tests.benchmarks.seed import seed

    firms = seed(finished=100_000, waiting=20_000, dead=5_000)
    users = get_user_model().objects
    staff = users.create_superuser("staff@example.test", "staff@example.test", "x")
    member = users.create_user("member@example.test", "member@example.test", "x", is_staff=True)
    with firm_scope(firms[0]):
        Membership.objects.create(firm=firms[0], user=member, role=Role.OPERATOR)
    results = []
    for name, user in (("staff", staff), ("operator", member)):
        client = Client(SERVER_NAME="localhost")
        client.force_login(user)
        results += [_time(client, name, address) for address in _addresses(firms[0])]
    return results


def _addresses(firm: Any) -> list[str]:
    from jobs.models import DeadLetterQueue
    from tenants.scope import firm_scope

    with firm_scope(firm):
        letter = DeadLetterQueue.objects.first()
        assert letter is not None
    return [*_admin_pages(firm, letter), *_rest_pages(letter)]


def _admin_pages(firm: Any, letter: Any) -> list[str]:
    jobs, letters = "/admin/jobs/jobqueue/", "/admin/jobs/deadletterqueue/"
    lists = ("circuitbreaker", "concurrencylock", "pause", "ratelimit", "schedule", "worker")
    return [
        "/admin/",
        "/admin/queue-doctor/",
        "/admin/search/?q=mailbox",
        jobs,
        f"{jobs}?p=3",
        f"{jobs}?status=pending",
        f"{jobs}?status=dlq",
        f"{jobs}?category=sync",
        f"{jobs}?type=classify",
        f"{jobs}?firm={firm.slug}",
        f"{jobs}?firm={firm.slug}&category=sync",
        f"{jobs}?q={letter.original_job_id}",
        f"{jobs}{letter.original_job_id}/change/",
        f"{jobs}{letter.original_job_id}/retry/",
        letters,
        f"{letters}?reason=fatal",
        f"{letters}{letter.pk}/change/",
        f"{letters}{letter.pk}/reprocess/",
        *(f"/admin/jobs/{name}/" for name in lists),
        "/admin/tenants/auditentry/",
    ]


def _rest_pages(letter: Any) -> list[str]:
    api = "/api/v1/jobs/admin"
    lists = ("queues", "jobs", "dlq", "workers", "locks", "pauses", "rate-limits", "breakers")
    return [
        *(f"{api}/{name}/" for name in (*lists, "schedules")),
        f"{api}/jobs/?status=pending",
        f"{api}/jobs/?status=completed&category=sync",
        f"{api}/jobs/?search=mailbox",
        f"{api}/jobs/{letter.original_job_id}/",
        f"{api}/dlq/?reason=fatal",
        f"{api}/dlq/{letter.pk}/",
    ]


def _time(client: Any, who: str, address: str) -> dict[str, Any]:
    times = []
    status = 0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        status = client.get(address).status_code
        times.append((time.perf_counter() - begun) * 1000)
    return {
        "as": who,
        "address": address,
        "status": status,
        "p50_ms": round(median(times), 1),
        "p95_ms": round(quantiles(times, n=20)[-1], 1),
    }


def _print(results: list[dict[str, Any]], bound: int, vendor: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("as", "page", "answer", "p50 ms", "p95 ms", title=f"{vendor}: bound {bound} ms")
    for row in results:
        over = " over" if row["p95_ms"] > bound else ""
        table.add_row(
            row["as"],
            row["address"],
            str(row["status"]),
            str(row["p50_ms"]),
            f"{row['p95_ms']}{over}",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
