"""Families of signals the offline classifier weighs; each module looks for one kind of wish."""
