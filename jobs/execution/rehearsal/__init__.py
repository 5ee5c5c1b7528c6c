"""Runs a dead job in a process of its own, in a transaction that is rolled back."""
