"""Mail in the admin: accounts, labels, mail, and what was decided, done, asked and sent."""

from mail.admin import (
    account,
    action,
    agent_profile,
    agent_run,
    approval,
    data_request,
    decision,
    direction,
    event,
    label,
    llm_call,
    message,
    outbound,
    routing_rule,
    rule,
    thread,
)

__all__ = [
    "account",
    "action",
    "agent_profile",
    "agent_run",
    "approval",
    "data_request",
    "decision",
    "direction",
    "event",
    "label",
    "llm_call",
    "message",
    "outbound",
    "routing_rule",
    "rule",
    "thread",
]
