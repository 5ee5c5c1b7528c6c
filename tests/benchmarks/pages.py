"""How long pages and lists take: `python -m tests.benchmarks.pages [--size full]`.

Seeds a test database with 100,000 finished, 20,000 waiting and 5,000 dead jobs; with `--size full`,
on PostgreSQL alone, with 5,000,000, 200,000 and 20,000 of 500 firms. Asks for every list of the admin
and of REST and for pages of rows, as platform staff and as a firm's operator, and prints the median
and the 95th percentile beside the bound (300 ms on PostgreSQL, 500 ms on SQLite). Keeps the figures
as JSON under var/bench/.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median, quantiles
from typing import Any

from tests.benchmarks.harness import empty_database, keep

ROUNDS = 40
BOUND_MS = {"postgresql": 300, "sqlite": 500}


def main() -> int:
    """Measure and print; return 1 if the 95th percentile of a page is above the bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--size", choices=("small", "full"), default="small")
    full = parser.parse_args().size == "full"
    with empty_database() as vendor:
        results = measure(_seed(full=full))
        _print(results, BOUND_MS[vendor], vendor)
        keep("pages-full" if full else "pages", vendor, {"pages": results})
        return int(any(row["p95_ms"] > BOUND_MS[vendor] for row in results))


def _seed(*, full: bool) -> list[Any]:
    from tests.benchmarks.large import seed_large
    from tests.benchmarks.seed import seed

    return seed_large() if full else seed(finished=100_000, waiting=20_000, dead=5_000)


def measure(firms: list[Any]) -> list[dict[str, Any]]:
    """Ask for every page as staff and as an operator of the first firm."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from tenants.models import Membership, Role
    from tenants.scope import firm_scope
    from tests.support.bounds import unbounded

    users = get_user_model().objects
    staff = users.create_superuser("staff@example.test", "staff@example.test", "x")
    member = users.create_user("member@example.test", "member@example.test", "x", is_staff=True)
    with firm_scope(firms[0]):
        Membership.objects.create(firm=firms[0], user=member, role=Role.OPERATOR)
    results = []
    with unbounded():
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
    pages = [*_admin_lists(), *_admin_pages(firm, letter), *_rest_lists(), *_rest_pages(letter)]
    return list(dict.fromkeys(pages))


def _admin_lists() -> list[str]:
    from django.contrib import admin
    from django.urls import reverse

    names = (f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry)
    return sorted(reverse(f"admin:{name}_changelist") for name in names)


def _rest_lists() -> list[str]:
    """Return the URLs that name no row and answer a GET."""
    import jobs.api.urls
    import mail.api.urls

    return [
        f"{prefix}{pattern.pattern}"
        for prefix, module in (
            ("/api/v1/jobs/admin/", jobs.api.urls),
            ("/api/v1/mail/", mail.api.urls),
        )
        for pattern in module.urlpatterns
        if "<" not in str(pattern.pattern) and "get" in pattern.callback.actions
    ]


def _admin_pages(firm: Any, letter: Any) -> list[str]:
    jobs, letters = "/admin/jobs/jobqueue/", "/admin/jobs/deadletterqueue/"
    return [
        "/admin/",
        "/admin/?range=24h",
        "/admin/?range=7d",
        "/admin/queue-doctor/",
        "/admin/search/?q=mailbox",
        jobs,
        f"{jobs}?p=3",
        f"{jobs}?status=pending",
        f"{jobs}?status=dlq",
        f"{jobs}?status=completed",
        f"{jobs}?status=failed",
        f"{jobs}?held_back=anything",
        f"{jobs}?age=24h",
        f"{jobs}?user=user-21",
        f"{jobs}?q=type:sync+status:pending",
        f"{jobs}?q=error:mailbox",
        f"{jobs}?q=type:none",
        f"{jobs}?category=sync",
        f"{jobs}?type=classify",
        f"{jobs}?firm={firm.slug}",
        f"{jobs}?firm={firm.slug}&category=sync",
        f"{jobs}?q={letter.original_job_id}",
        f"{jobs}{letter.original_job_id}/change/",
        f"{jobs}{letter.original_job_id}/retry/",
        letters,
        f"{letters}groups/",
        f"{letters}?reason=fatal",
        f"{letters}?resolution=open&category=sync",
        f"{letters}?user=user-21",
        f"{letters}?firm={firm.slug}",
        f"{letters}?q=ValueError",
        f"{letters}bulk/discard/?reason=fatal",
        f"{jobs}bulk/cancel/?status=pending",
        f"{letters}{letter.pk}/change/",
        f"{letters}{letter.pk}/reprocess/",
        f"/admin/tenants/firm/{firm.pk}/change/",
    ]


def _rest_pages(letter: Any) -> list[str]:
    api = "/api/v1/jobs/admin"
    return [
        f"{api}/jobs/?status=pending",
        f"{api}/jobs/?status=completed&category=sync",
        f"{api}/jobs/?held_back=anything",
        f"{api}/jobs/?user=user-21",
        f"{api}/jobs/?error=mailbox&status=dlq",
        f"{api}/jobs/?search=mailbox",
        f"{api}/dlq/?resolution=open&category=sync",
        f"{api}/dlq/?user=user-21",
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
