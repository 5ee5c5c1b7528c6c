"""Files that mail carries: what they are, what they say, whether they are safe. Knows no database."""
