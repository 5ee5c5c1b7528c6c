"""What operators read: lists, filters, numbers, why a job waits, and what the doctor finds."""
