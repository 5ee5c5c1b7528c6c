"""What every tool of an agent has: its arguments, for whom it runs, how it asks people.

A tool only writes to the database, in the transaction that stores the step, so that it asks for
each thing once even if the worker dies. What leaves the mailbox, or cannot be taken back, waits for
a person's approval; nothing that a mail says can change that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from mail.llm.client import Tool
from mail.models import AgentProfile, AgentRun, MailAccount, Message
from mail.text.helpdesk import Inquiry

MAX_APPROVALS = 3


class ToolRefused(Exception):
    """The tool refuses the call; the model reads why."""


@dataclass(frozen=True)
class ToolCallContext:
    """For whom a tool runs: the run, its profile and mailbox, and the message it is about."""

    run: AgentRun
    account: MailAccount
    profile: AgentProfile
    message: Message | None
    inquiry: Inquiry | None

    @property
    def about(self) -> Message:
        """The message that the run is about.

        Raises:
            ToolRefused: the run is about no message.
        """
        if self.message is None:
            raise ToolRefused("there is no message: a schedule started this run")
        return self.message


class Arguments(BaseModel):
    """A tool without arguments."""

    model_config = ConfigDict(extra="forbid")


Run = Callable[[ToolCallContext, Any], dict[str, Any]]


@dataclass(frozen=True)
class AgentTool:
    """A tool by its name: what it is for, its arguments, and what it does."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Run

    def declared(self) -> Tool:
        """Return the tool's declaration as the model reads it."""
        return Tool(self.name, self.description, self.arguments.model_json_schema())


def count_approval(context: ToolCallContext) -> None:
    """Count one more question to a person.

    Raises:
        ToolRefused: the run has asked too often.
    """
    if context.run.approvals_asked >= MAX_APPROVALS:
        raise ToolRefused(f"people are asked {MAX_APPROVALS} times at most in one run")
    context.run.approvals_asked += 1
