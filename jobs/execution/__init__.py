"""Runs one claim and returns one outcome; never raises for the error of a handler."""
