"""A Gmail of one's own: Gmail's REST API over a local SQLite file, for development and tests."""
