"""How fast the queue is on the configured database, beside bare SQL on the same table."""
