"""Mail over REST, below /api/v1/mail/."""
