"""Tenancy: firms, members, roles, the tenant scope, row level security, the audit log."""
