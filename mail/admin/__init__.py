"""Mailboxes, mail, decisions, actions and events in the admin: to read, not to change."""

from mail.admin import account, action, decision, event, message, thread

__all__ = ["account", "action", "decision", "event", "message", "thread"]
