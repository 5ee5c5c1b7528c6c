"""The queue over REST: what an operator may see and do."""
