"""Row level security on PostgreSQL, forced on every table that a firm owns.

A row is visible when its firm is in the transaction's setting `mailroom.firms` (see
`tenants.scope`), or when that setting is "all". The queue's engine serves every firm: on the
queue's own tables the setting `mailroom.engine` bypasses the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, migrations

from interfaces.database_faults import MEND
from interfaces.log_lines import write_line
from tenants.local_settings import ENGINE_SETTING, FIRMS_SETTING

_log = logging.getLogger("tenants")

# A scalar subquery is evaluated once per statement, so indexes on firm_id stay usable.
FIRM_POLICY = f"""
CREATE POLICY firm_wall ON {{table}} USING (
    (SELECT current_setting('{FIRMS_SETTING}', true) = 'all')
    OR firm_id = ANY ((
        SELECT nullif(nullif(current_setting('{FIRMS_SETTING}', true), ''), 'all')
    )::bigint[])
)
"""
ENGINE_POLICY = f"""
CREATE POLICY engine_sight ON {{table}}
USING ((SELECT current_setting('{ENGINE_SETTING}', true) = 'on'))
"""


def protect(app_label: str, *models: str, engine: bool = False) -> migrations.RunPython:
    """Return the migration operation that protects these models' tables; it does nothing on SQLite.

    `engine` lets the queue's engine bypass the policy.
    """

    def forwards(state: Any, schema_editor: Any) -> None:
        for table in _tables(state, schema_editor):
            schema_editor.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            schema_editor.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
            schema_editor.execute(FIRM_POLICY.format(table=table))
            if engine:
                schema_editor.execute(ENGINE_POLICY.format(table=table))

    def backwards(state: Any, schema_editor: Any) -> None:
        for table in _tables(state, schema_editor):
            schema_editor.execute(f"DROP POLICY IF EXISTS engine_sight ON {table}")
            schema_editor.execute(f"DROP POLICY firm_wall ON {table}")
            schema_editor.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
            schema_editor.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")

    def _tables(state: Any, schema_editor: Any) -> list[str]:
        if schema_editor.connection.vendor != "postgresql":
            return []
        quote = schema_editor.quote_name
        return [quote(state.get_model(app_label, model)._meta.db_table) for model in models]

    return migrations.RunPython(forwards, backwards)


def rls_faults() -> Iterator[tuple[str, str]]:
    """Yield each fault of the default database, and the SQL that fixes it; none on SQLite."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper, rolbypassrls, quote_ident(rolname), current_setting('row_security')"
            " FROM pg_roles WHERE rolname = current_user"
        )
        superuser, bypasses, role, row_security = cursor.fetchone()
        cursor.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity, EXISTS ("
            " SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'firm_wall')"
            " FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        tables = {table: (forced, protected) for table, forced, protected in cursor.fetchall()}
    if superuser or bypasses:
        what = "a superuser" if superuser else "exempt (BYPASSRLS)"
        yield (
            f"the database role is {what}, so row level security does not apply to it",
            f"ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS;",
        )
    if row_security != "on":
        yield (
            "row_security is off in the role's sessions, so they may not read any firm's rows",
            f"ALTER ROLE {role} SET row_security = on;",
        )
    owned = firm_owned_tables()
    if missing := owned - tables.keys():
        what = f"{len(missing)} of {len(owned)} tables are missing, such as {min(missing)}"
        yield f"{what}: {MEND}", "-- manage.py migrate"
    for table in sorted(owned & tables.keys()):
        forced, protected = tables[table]
        if not forced:
            yield (
                f"table {table} has no forced row level security",
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;",
            )
        if not protected:
            sql = " ".join(FIRM_POLICY.format(table=table).split())
            yield f"table {table} has lost its policy firm_wall", f"{sql};"


def require_rls() -> None:
    """Log every fault of row level security; with REQUIRE_RLS, refuse to start.

    Raises:
        ImproperlyConfigured: REQUIRE_RLS is set, and there is a fault, or no PostgreSQL.
    """
    required = getattr(settings, "REQUIRE_RLS", False)
    if required and connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            "REQUIRE_RLS is set, but only PostgreSQL has row level security: see DATABASE_URL"
        )
    found = [fault for fault, _ in rls_faults()]
    for fault in found:
        write_line(_log, logging.WARNING, "tenants.rls_fault", {"fault": fault})
    if found and required:
        raise ImproperlyConfigured(f"REQUIRE_RLS is set, but {found[0]}")


def firm_owned_tables() -> set[str]:
    """Return the table of every model that a firm owns."""
    from tenants.models import FirmOwned

    return {model._meta.db_table for model in apps.get_models() if issubclass(model, FirmOwned)}
