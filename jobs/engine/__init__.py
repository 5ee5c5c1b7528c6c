"""Every write to the queue's tables, one file per task.

The engine's statements see all firms: its callers decide whose jobs they may touch.
"""
