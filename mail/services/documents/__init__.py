"""Full-text search over stored mail."""
