"""Mail accounts, threads, messages, decisions, actions and events in the admin, read-only."""

from mail.admin import account, action, decision, event, message, thread

__all__ = ["account", "action", "decision", "event", "message", "thread"]
