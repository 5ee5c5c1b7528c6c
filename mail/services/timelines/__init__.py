"""What happened to a message, kept and told in order."""
