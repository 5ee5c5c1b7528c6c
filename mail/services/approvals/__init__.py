"""Asks people for approvals, each bound to the exact content."""
