"""Judges what mail wants from the person, and shows the verdict."""
