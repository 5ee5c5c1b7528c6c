"""What operators read: lists, filters, numbers, and why a job waits."""
