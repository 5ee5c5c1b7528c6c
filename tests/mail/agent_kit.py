"""Short names for the tests of agents: profile, routing, work and results."""

from __future__ import annotations

from typing import Any

from mail.models import AgentProfile, AgentRun
from mail.services.agents.profiles import create_profile
from mail.services.agents.tools import TOOLS
from mail.services.rules.routing_operations import create_routing_rule
from tests.mail.mail_kit import Mailbox, drain, only, stored

PROFILE = "shop"


def make_profile(box: Mailbox, **settings: Any) -> AgentProfile:
    """Store a profile that may use every tool."""
    given = {
        "name": PROFILE,
        "instructions": "Answer questions about prices.",
        "tools": list(TOOLS),
        **settings,
    }
    return create_profile(box.firm.pk, **given)


def route_all(box: Mailbox, profile: str = PROFILE) -> None:
    """Route every new message to the agent."""
    create_routing_rule(
        box.firm.pk, name="All", match={"all": True}, route="agent", profile=profile
    )


def work(box: Mailbox, raw: bytes | None = None) -> list[Any]:
    """Let a message arrive and the agent work on it; return how the jobs ended."""
    box.receive(raw)
    box.store_all()
    return drain()


def the_run() -> AgentRun:
    """Return the only run."""
    run: AgentRun = only(stored(AgentRun))
    return run


def results(run: AgentRun | None = None) -> list[Any]:
    """Return what the tools answered, in order."""
    return [call["result"] for call in (run or the_run()).tool_calls]
