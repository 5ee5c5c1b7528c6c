"""A project with such users: a user's jobs, operations by a user, and a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import django
import pytest


def main() -> None:
    """Migrate an empty database, use the queue, and check what is stored."""
    django.setup()

    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection

    from jobs.errors import PayloadInvalid
    from jobs.models import DeadLetterQueue, JobQueue
    from jobs.queue import EnqueueSpec, cancel, enqueue, enqueue_many, escalate, reprocess
    from tenants.models import AuditEntry, Firm
    from tenants.scope import all_firms

    # This app has no migrations, so its table is made before those that refer to it.
    call_command("migrate", "contenttypes", verbosity=0)
    model = get_user_model()
    with connection.schema_editor() as editor:
        editor.create_model(model)
    call_command("migrate", verbosity=0)

    address = "person@example.org"
    fields = {
        "UuidUser": {"username": "ada"},
        "TextUser": {"username": "ada", "id": address},
        "EmailUser": {"email": address},
    }
    user = model.objects.create(**fields[model.__name__])
    name = user.get_username()
    firm = Firm.objects.create(name="Acme", slug="acme")

    done = [enqueue("effect.leaf", firm=firm, user=user).job_id]
    done += [enqueue("effect.leaf", firm=firm, user=str(user.pk)).job_id]
    done += [
        one.job_id for one in enqueue_many([EnqueueSpec("effect.leaf", user=user)] * 3, firm=firm)
    ]
    mixed = [EnqueueSpec("effect.leaf", user=one) for one in (user, None, user.pk)]
    mixed_ids = [one.job_id for one in enqueue_many(mixed, firm=firm)]
    many = enqueue_many([EnqueueSpec("effect.leaf", user=user)] * 600, firm=firm)
    if model.__name__ == "UuidUser":
        for wrong in ("nobody", b"nobody", datetime.now(UTC)):
            with pytest.raises(PayloadInvalid, match="user: must be a user"):
                enqueue("effect.leaf", firm=firm, user=wrong)
    canceled = enqueue("effect.leaf", firm=firm, user=user)
    cancel(canceled.job_id, by=user)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE test_effect (job_id text NOT NULL, attempt integer NOT NULL)")
    dead = [
        enqueue("effect.write", {"leaving": "raise"}, firm=firm, user=user, max_attempts=1).job_id
        for _ in range(2)
    ]

    # A separate process, because a worker ends its process.
    subprocess.run([sys.executable, "manage.py", "runworker", "--burst"], check=True)

    with all_firms("checking"):
        owners = dict(JobQueue.objects.values_list("job_id", "user"))
        assert len(owners) == len(done) + len(mixed_ids) + len(many) + 1 + len(dead)
        assert {owners[job_id] for job_id in (*done, *dead)} == {user.pk}
        assert [owners[job_id] for job_id in mixed_ids] == [user.pk, None, user.pk]
        assert {owners[one.job_id] for one in many} == {user.pk}
        assert JobQueue.objects.filter(status="completed", user=user).count() == len(owners) - 4
        first, second = DeadLetterQueue.objects.order_by("id")
        escalate(first, "look", to=user, by=user)
        reprocess(second, by=user)
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.assigned_to, first.reviewed_by) == (user, user)
        assert second.reviewed_by == user
        assert {entry.actor_id for entry in AuditEntry.objects.all()} == {user.pk}

    def run(*command: str) -> dict[str, Any]:
        out = StringIO()
        call_command(*command, "--json", stdout=out)
        return json.loads(out.getvalue())

    assert len(run("jobs", "list", "--user", name.upper(), "--limit", "3")["results"]) == 3
    letters = run("dlq", "list", "--user", name)["results"]
    assert {one["id"] for one in letters} == {str(first.pk), str(second.pk)}
    os.environ["SECRET_WORD"] = "Wq7-lantern-ferry"
    member = ("--firm", "acme", "--role", "operator")
    run("create_user", "new@example.org", *member, "--password-env", "SECRET_WORD")
    assert run("create_api_key", "new@example.org", *member)["email"] == "new@example.org"
    if "@" in name:
        run("create_user", name, *member, "--password-env", "SECRET_WORD")
    # The deletion would wait for jobs in flight, so they run first.
    subprocess.run([sys.executable, "manage.py", "runworker", "--burst"], check=True)
    assert run("delete_user", name, "--yes", "--reason", "left") is not None
    subprocess.run([sys.executable, "manage.py", "runworker", "--burst"], check=True)
    assert not model.objects.filter(pk=user.pk).exists()


if __name__ == "__main__":
    main()
