"""Every tool there is, and those that a profile allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mail.models import AgentProfile
from mail.services.agents.reading_tools import READING_TOOLS
from mail.services.agents.tool import AgentTool
from mail.services.agents.writing_tools import WRITING_TOOLS

TOOLS: Final[Mapping[str, AgentTool]] = {
    tool.name: tool for tool in (*READING_TOOLS, *WRITING_TOOLS)
}


def tools_of(profile: AgentProfile) -> Mapping[str, AgentTool]:
    """Return the tools that the profile allows, by name."""
    return {name: TOOLS[name] for name in profile.tools if name in TOOLS}
