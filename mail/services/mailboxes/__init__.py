"""What a mailbox is to its firm: connected, switched, paused, read by whom."""
