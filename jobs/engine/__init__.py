"""Every write to the queue's tables, one file a task.

The engine sees all firms: callers above decide whose jobs they may touch.
"""
