"""The mail app on the command line."""
