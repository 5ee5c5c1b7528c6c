"""Mail in the admin: accounts, labels, mail, decisions, rules, routing, actions and events."""

from mail.admin import (
    account,
    action,
    decision,
    event,
    label,
    message,
    routing_rule,
    rule,
    thread,
)

__all__ = [
    "account",
    "action",
    "decision",
    "event",
    "label",
    "message",
    "routing_rule",
    "rule",
    "thread",
]
