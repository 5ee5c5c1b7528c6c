"""Mail in the admin: accounts, labels, mail, rules, decisions, actions, model calls and events."""

from mail.admin import (
    account,
    action,
    decision,
    direction,
    event,
    label,
    llm_call,
    message,
    routing_rule,
    rule,
    thread,
)

__all__ = [
    "account",
    "action",
    "decision",
    "direction",
    "event",
    "label",
    "llm_call",
    "message",
    "routing_rule",
    "rule",
    "thread",
]
