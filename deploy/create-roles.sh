#!/bin/sh
# Creates the service's role, a role for backups, and the database. Run as PostgreSQL's superuser, with
# MAILROOM_PASSWORD and BACKUP_PASSWORD set; PGHOST and the like say where.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set password="$MAILROOM_PASSWORD" --set backup_password="$BACKUP_PASSWORD" <<'SQL'
-- Neither superuser nor BYPASSRLS: row level security has to hold it.
CREATE ROLE mailroom LOGIN PASSWORD :'password' NOSUPERUSER NOBYPASSRLS;
ALTER ROLE mailroom SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE mailroom SET jit = off;
-- Reads every row and writes none.
CREATE ROLE mailroom_backup LOGIN PASSWORD :'backup_password' NOSUPERUSER BYPASSRLS;
GRANT pg_read_all_data TO mailroom_backup;
-- A cluster made without a locale would give it SQL_ASCII, which takes no letters beyond ASCII.
CREATE DATABASE mailroom OWNER mailroom ENCODING 'UTF8' TEMPLATE template0;
SQL
