"""Composes messages and sends each of them once."""
