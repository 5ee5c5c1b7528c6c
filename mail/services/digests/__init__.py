"""Daily digests: whose are due, what one says, and how it is delivered."""
