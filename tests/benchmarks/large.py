"""Fills PostgreSQL with the rows of a large installation; the server generates them itself."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db import connection

from jobs.models.rollup import LONG_SPAN, SHORT_SPAN
from jobs.states import Category, DeadReason
from tenants.models import Firm
from tenants.scope import all_firms

FIRMS = 500
FINISHED, WAITING, DEAD = 5_000_000, 200_000, 20_000
AUDIT_ENTRIES = 100_000
CHUNK = 500_000
DAYS = 7
CAUSES = 40
# One in this many of the waiting jobs waits for a lock.
LOCKED = 10

# A UUIDv7 of the time in `born`, as the product makes them.
ID = """
CAST(lpad(to_hex(CAST(extract(epoch FROM born) * 1000 AS bigint)), 12, '0')
  || '7' || substr(md5(salt), 1, 3) || '8' || substr(md5(salt), 4, 15) AS uuid)
"""
TYPES = "ARRAY['noop', 'sync', 'ingest.gmail', 'classify']"
CATEGORIES = f"ARRAY[{', '.join(repr(word.value) for word in Category)}]"
REASONS = f"ARRAY[{', '.join(repr(word.value) for word in DeadReason)}]"
ERRORS = "ARRAY['ConnectionError', 'mail.errors.MailboxGone', 'ValueError', 'TimeoutError']"
# Firms have different shares: the largest has one job in 22, half of them have three in ten.
JOB = f"""
SELECT firms[1 + floor({FIRMS} * power(random(), 2))] AS firm_id,
  ({CATEGORIES})[1 + floor({len(Category)} * random())] AS category,
  ({TYPES})[1 + floor(4 * random())] AS job_type,
  born, md5(random()::text) AS salt, n
FROM (
  SELECT n, now() - interval '{DAYS} days' * ((%(until)s - n) / %(of)s::float) AS born
  FROM generate_series(%(start)s, %(end)s) AS n
) AS numbers, (SELECT array_agg(id ORDER BY id) AS firms FROM tenants_firm WHERE slug <> 'system') AS f
"""
COLUMNS = """
job_id, firm_id, user_id, category, job_type, payload_version, payload, correlation_id, status,
attempts, last_error, result, scheduled_at, claimed_at, started_at, completed_at, created_at,
updated_at, lock_key, ready, waiting
"""
SHARED = f"""
{ID}, firm_id, CASE WHEN n %% 20 = 0 THEN 1 + n %% %(users)s END, category, job_type, '1.0',
jsonb_build_object('tenant_id', firm_id, 'version', '1.0', 'correlation_id', salt, 'number', n),
salt
"""
FINISHED_JOBS = f"""
INSERT INTO jobs_jobqueue ({COLUMNS})
SELECT {SHARED}, CASE WHEN n %% 100 = 0 THEN 'failed' WHEN n %% 100 = 1 THEN 'canceled'
  ELSE 'completed' END, 1, '', CASE WHEN n %% 100 > 1 THEN '{{}}'::jsonb END, born, born + interval '1 second',
  born + interval '1 second', born + interval '3 seconds', born, born + interval '3 seconds',
  NULL, false, false
FROM ({JOB}) AS job
"""
WAITING_JOBS = f"""
INSERT INTO jobs_jobqueue ({COLUMNS})
SELECT {SHARED}, 'pending', 0, '', NULL, born + interval '12 hours' * (n %% 3 - 1), NULL, NULL,
  NULL, born, born, CASE WHEN n %% {LOCKED} = 0 THEN 'mailbox:' || n %% 1000 END,
  n %% {LOCKED} <> 0, n %% {LOCKED} = 0
FROM ({JOB}) AS job
"""
DEAD_JOBS = f"""
WITH dead AS (
  INSERT INTO jobs_jobqueue ({COLUMNS})
  SELECT {SHARED}, 'dlq', 3, 'the mailbox did not answer', NULL, born, born, born, born, born,
    born, NULL, false, false
  FROM ({JOB}) AS job
  RETURNING firm_id, job_id, category, job_type, completed_at, floor({CAUSES} * random()) AS cause,
    md5(random()::text) AS salt
), logged AS (
  INSERT INTO jobs_attempt (id, firm_id, job_id, series, number, ended_at, "end", error_class,
    message, traceback)
  SELECT gen_random_uuid(), firm_id, job_id, 1, 3, completed_at, 'dead_lettered',
    ({ERRORS})[1 + CAST(cause AS int) %% 4], 'the mailbox did not answer', repeat('line\n', 40)
  FROM dead
)
INSERT INTO jobs_deadletterqueue (id, firm_id, original_job_id, job_series, category, job_type,
  moved_at, reason, error_class, error, fingerprint, resolution, resolution_note)
SELECT {ID.replace("born", "completed_at")}, firm_id, job_id, 1, category, job_type, completed_at,
  ({REASONS})[1 + floor({len(DeadReason)} * random())], ({ERRORS})[1 + CAST(cause AS int) %% 4],
  'the mailbox did not answer', lpad(to_hex(CAST(cause AS int)), 16, '0'), '', ''
FROM dead
"""
# What settling and its roll-ups would have stored of these jobs; triggers add up all firms.
COUNTERS = """
INSERT INTO {table} (id, firm_id, category, minute, completed, failed, dlq, canceled, wait_ms, run_ms)
SELECT gen_random_uuid(), firm_id, category, date_trunc('{unit}', completed_at, 'UTC'),
  count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
  count(*) FILTER (WHERE status = 'dlq'), count(*) FILTER (WHERE status = 'canceled'),
  1000 * count(*), 2000 * count(*)
FROM jobs_jobqueue WHERE completed_at IS NOT NULL GROUP BY 2, 3, 4 ORDER BY 4
"""
LATENCIES = """
INSERT INTO jobs_latencybucket (id, firm_id, category, measure, span_minutes, span_start, bucket,
  attempts)
SELECT gen_random_uuid(), firm_id, category, measure, {minutes},
  date_bin('{minutes} minutes', completed_at, 'epoch'), mod(hashtext(salt), 2) + 4, count(*)
FROM (
  SELECT firm_id, category, completed_at, CAST(job_id AS text) AS salt FROM jobs_jobqueue
  WHERE completed_at > now() - interval '{days} days'
) AS done, unnest(ARRAY['wait', 'run']) AS measure
GROUP BY 2, 3, 4, 6, 7 ORDER BY 6
"""
AUDIT_LOG = f"""
INSERT INTO tenants_auditentry (id, firm_id, created_at, actor_id, actor_name, door, act,
  target_type, target_id, reason, before, after, correlation_id)
SELECT {ID}, firm_id, born, 1, 'someone', 'admin', 'job.retry', 'job', salt, '', '{{}}', '{{}}', ''
FROM ({JOB}) AS act
"""


def seed_large() -> list[Firm]:
    """Create 500 firms with 5,000,000 finished, 200,000 waiting and 20,000 dead jobs; return them.

    There are also a week's counters, a user for each firm, and 100,000 entries of the audit log.
    """
    with all_firms("a benchmark's rows"):
        Firm.objects.bulk_create(Firm(name=f"Firm {n}", slug=f"firm-{n}") for n in range(FIRMS))
    users = get_user_model()
    users.objects.bulk_create(users(pk=n, username=f"user-{n}") for n in range(1, FIRMS + 1))
    _insert("finished jobs", FINISHED_JOBS, FINISHED)
    _insert("waiting jobs", WAITING_JOBS, WAITING)
    _insert("dead letters", DEAD_JOBS, DEAD)
    _insert("audit log", AUDIT_LOG, AUDIT_ENTRIES)
    for table, unit in (("jobs_jobminute", "minute"), ("jobs_jobhour", "hour")):
        _run(table, COUNTERS.format(table=table, unit=unit))
    for minutes, days in ((SHORT_SPAN, 1), (LONG_SPAN, DAYS)):
        _run(f"spans of {minutes} minutes", LATENCIES.format(minutes=minutes, days=days))
    with connection.cursor() as cursor:
        # The sequence has to follow the ids of users that were chosen here.
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('auth_user', 'id'), (SELECT max(id) FROM auth_user))"
        )
        # Autovacuum would do this some time later.
        cursor.execute("VACUUM ANALYZE")
    return list(Firm.objects.filter(slug__startswith="firm-").order_by("pk"))


def _insert(what: str, sql: str, count: int) -> None:
    """Run the statement for the numbers up to `count`, oldest first."""
    for start in range(1, count + 1, CHUNK):
        end = min(start + CHUNK - 1, count)
        numbers = {"start": start, "end": end, "until": count, "of": count, "users": FIRMS}
        _run(f"{what} up to {end:,}", sql, numbers)


def _run(what: str, sql: str, params: dict[str, int] | None = None) -> None:
    with all_firms("a benchmark's rows"), connection.cursor() as cursor:
        cursor.execute(sql, params)
        print(f"{what}: {cursor.rowcount:,} rows", flush=True)  # noqa: T201 - it takes minutes
