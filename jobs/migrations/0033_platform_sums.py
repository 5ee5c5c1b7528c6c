"""The sums of all firms' counters and times, for who sees every firm.

Triggers of the firms' tables keep them, so they are the sum at any time, whoever writes or deletes
there; on SQLite whatever makes one of these tables anew must make its triggers anew. Workers of the
version before need not know of them.

On PostgreSQL nothing is folded while the sums begin (seconds per million rows): deltas wait for it,
and those who read see them meanwhile. Jobs are settled all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db import migrations, models

from tenants.local_settings import ENGINE_SETTING, FIRMS_SETTING

COUNTERS = (
    "completed",
    "failed",
    "dlq",
    "canceled",
    "retried",
    "discarded",
    "failed_restarted",
    "canceled_restarted",
    "wait_ms",
    "run_ms",
)
CATEGORIES = [
    (name, name)
    for name in (
        "ingestion",
        "sync",
        "recurrence",
        "orchestration",
        "documents",
        "notifications",
        "export",
        "maintenance",
    )
]


class Summed(NamedTuple):
    """A table of firms, and the table of its sums by these columns."""

    firms: str
    platform: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]

    @property
    def add(self) -> str:
        """The end of an INSERT of what is to be added."""
        added = ", ".join(f"{name} = {self.platform}.{name} + excluded.{name}" for name in self.numbers)
        return f"ON CONFLICT ({', '.join(self.keys)}) DO UPDATE SET {added}"

    @property
    def columns(self) -> str:
        """Names of keys and numbers."""
        return ", ".join((*self.keys, *self.numbers))

    @property
    def sums(self) -> str:
        """What an INSERT selects of rows of firms."""
        return ", ".join((*self.keys, *(f"sum({name})" for name in self.numbers)))

    @property
    def empty(self) -> str:
        """The condition of a row that says nothing any more."""
        return " AND ".join(f"{self.platform}.{name} = 0" for name in self.numbers)

    def of(self, row: str) -> str:
        """The condition of the sum to which a row belongs."""
        return " AND ".join(f"{self.platform}.{name} = {row}.{name}" for name in self.keys)


TABLES = (
    Summed("jobs_jobminute", "jobs_platformminute", ("minute", "category"), COUNTERS),
    Summed("jobs_jobhour", "jobs_platformhour", ("minute", "category"), COUNTERS),
    Summed(
        "jobs_latencybucket",
        "jobs_platformlatency",
        ("span_minutes", "span_start", "category", "measure", "bucket"),
        ("attempts",),
    ),
)
# No firm is named in them, but the sum of all is for those who see all.
WALL = f"""
CREATE POLICY platform_wall ON {{table}} USING (
    (SELECT current_setting('{FIRMS_SETTING}', true) = 'all')
    OR (SELECT current_setting('{ENGINE_SETTING}', true) = 'on')
)
"""


def _function(table: Summed) -> str:
    """Return the trigger's function: it adds in the order of the keys, so that two never deadlock."""
    keys = ", ".join(table.keys)
    taken = ", ".join((*table.keys, *(f"-{name}" for name in table.numbers)))
    rows = {
        "INSERT": f"SELECT {table.columns} FROM added",
        "UPDATE": f"SELECT {table.columns} FROM added UNION ALL SELECT {taken} FROM taken",
        "DELETE": f"SELECT {taken} FROM taken",
    }
    branches = "".join(
        f"""
    IF TG_OP = '{event}' THEN
        INSERT INTO {table.platform} ({table.columns})
        SELECT {table.sums} FROM ({source}) AS r ({table.columns}) GROUP BY {keys} ORDER BY {keys}
        {table.add};
    END IF;"""
        for event, source in rows.items()
    )
    return f"""
CREATE FUNCTION {table.platform}_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    engine text := coalesce(current_setting('{ENGINE_SETTING}', true), '');
BEGIN
    PERFORM set_config('{ENGINE_SETTING}', 'on', true);{branches}
    IF TG_OP = 'DELETE' THEN
        DELETE FROM {table.platform} USING (SELECT DISTINCT {keys} FROM taken) AS r
        WHERE {table.of("r")} AND {table.empty};
    END IF;
    PERFORM set_config('{ENGINE_SETTING}', engine, true);
    RETURN NULL;
END $$"""


def _postgresql(table: Summed) -> Iterator[str]:
    yield f"ALTER TABLE {table.platform} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table.platform} FORCE ROW LEVEL SECURITY"
    yield WALL.format(table=table.platform)
    yield _function(table)
    for event, seen in (
        ("INSERT", "NEW TABLE AS added"),
        ("UPDATE", "NEW TABLE AS added OLD TABLE AS taken"),
        ("DELETE", "OLD TABLE AS taken"),
    ):
        # It bars writers of the table until all is committed.
        yield (
            f"CREATE TRIGGER {table.platform}_{event.lower()} AFTER {event} ON {table.firms}"
            f" REFERENCING {seen} FOR EACH STATEMENT EXECUTE FUNCTION {table.platform}_follow()"
        )


def _sqlite(table: Summed) -> Iterator[str]:
    new = ", ".join(f"NEW.{name}" for name in (*table.keys, *table.numbers))
    add = f"INSERT INTO {table.platform} ({table.columns}) VALUES ({new}) {table.add};"
    taken = ", ".join(f"{name} = {name} - OLD.{name}" for name in table.numbers)
    take = f"UPDATE {table.platform} SET {taken} WHERE {table.of('OLD')};"
    drop = f"DELETE FROM {table.platform} WHERE {table.of('OLD')} AND {table.empty};"
    for event, body in (("INSERT", add), ("UPDATE", take + add), ("DELETE", take + drop)):
        yield (
            f"CREATE TRIGGER {table.platform}_{event.lower()} AFTER {event} ON {table.firms}"
            f" BEGIN {body} END"
        )


def forwards(_: Any, schema_editor: Any) -> None:
    """Make the triggers, then add up what is there."""
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    if is_postgresql:
        # Fail rather than let a queue form behind a wait.
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")
        schema_editor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
    for table in TABLES:
        for statement in (_postgresql if is_postgresql else _sqlite)(table):
            schema_editor.execute(statement)
        schema_editor.execute(
            f"INSERT INTO {table.platform} ({table.columns}) SELECT {table.sums}"
            f" FROM {table.firms} GROUP BY {', '.join(table.keys)} ORDER BY {', '.join(table.keys)}"
        )


def backwards(_: Any, schema_editor: Any) -> None:
    """Drop the triggers; the tables go after, with what they hold."""
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    if is_postgresql:
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")
    for table in TABLES:
        for event in ("insert", "update", "delete"):
            of = f" ON {table.firms}" if is_postgresql else ""
            schema_editor.execute(f"DROP TRIGGER {table.platform}_{event}{of}")
        if is_postgresql:
            schema_editor.execute(f"DROP FUNCTION {table.platform}_follow()")


def _number(kind: type[models.Field[Any, Any]], text: str = "") -> models.Field[Any, Any]:
    return kind(db_default=0, default=0, **({"help_text": text} if text else {}))


def _counters() -> list[tuple[str, models.Field[Any, Any]]]:
    """Return the columns of the sums by minute and hour."""
    whole, large = models.IntegerField, models.BigIntegerField
    return [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
        ("minute", models.DateTimeField()),
        ("category", models.CharField(choices=CATEGORIES, max_length=20)),
        *((name, _number(whole)) for name in COUNTERS[:5]),
        ("discarded", _number(whole, "From dlq to failed, by an operator.")),
        ("failed_restarted", _number(whole, "From failed to pending, by an operator.")),
        ("canceled_restarted", _number(whole, "From canceled to pending, by an operator.")),
        *((name, _number(large, "Sum over settled jobs.")) for name in COUNTERS[-2:]),
    ]


class Migration(migrations.Migration):

    dependencies = [("jobs", "0032_batches")]

    operations = [
        migrations.CreateModel(
            name="PlatformMinute",
            fields=_counters(),
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("minute", "category"), name="platform_minute_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="PlatformHour",
            fields=_counters(),
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("minute", "category"), name="platform_hour_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="PlatformLatency",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("category", models.CharField(choices=CATEGORIES, max_length=20)),
                ("measure", models.CharField(choices=[("wait", "wait"), ("run", "run")], max_length=5)),
                ("span_minutes", models.SmallIntegerField()),
                ("span_start", models.DateTimeField()),
                ("bucket", models.SmallIntegerField(help_text="Its place in BUCKET_SECONDS; the last is open.")),
                ("attempts", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("span_minutes", "span_start", "category", "measure", "bucket"),
                        name="platform_latency_once",
                    )
                ]
            },
        ),
        migrations.RunPython(forwards, backwards),
    ]
