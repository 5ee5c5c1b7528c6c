"""What the mail app can do, one use case to a module; clients are handed in."""
