"""Every write to the queue's tables, one verb per file.

Engine verbs see all firms: callers above decide whose jobs they may touch.
"""
