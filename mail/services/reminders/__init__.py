"""Reminders: what people do with them, how due ones reach the queue, and how they are delivered."""
