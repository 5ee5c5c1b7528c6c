"""The history of messages: recorded events, and timelines."""
