"""The signals that the offline classifier weighs; each module finds those of one kind."""
