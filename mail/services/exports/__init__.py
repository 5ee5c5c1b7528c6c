"""Exports of a firm's or a person's data, their import, and the erasure of a person."""
