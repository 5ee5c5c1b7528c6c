"""Mail accounts, labels, threads, messages, decisions, rules, actions and events in the admin."""

from mail.admin import account, action, decision, event, label, message, rule, thread

__all__ = ["account", "action", "decision", "event", "label", "message", "rule", "thread"]
