"""Anthropic's models, by its SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mail.llm.client import (
    CUT_OFF,
    TIMEOUT_SECONDS,
    Answer,
    AnswerInvalid,
    Conversation,
    Exchange,
    Question,
    Reply,
    Tool,
    ToolCall,
    reading,
    translated,
    used,
)


class AnthropicClient:
    """A model of Anthropic's, or of a server that speaks its Messages API."""

    provider = "anthropic"

    def __init__(self, model: str, api_key: str, base_url: str = "") -> None:
        # Imported here, because it takes a few seconds and only processes that ask a model need it.
        import anthropic

        self.model = model
        self._sdk = anthropic
        self._client = anthropic.Anthropic(
            api_key=api_key, base_url=base_url or None, max_retries=0, timeout=TIMEOUT_SECONDS
        )

    def ask(self, question: Question) -> Answer:
        """Ask, once.

        Raises:
            ModelError: there is no usable answer.
        """
        tool = question.tool
        with translated(self._sdk):
            message = self._client.messages.create(
                model=self.model,
                max_tokens=question.max_tokens,
                system=question.system,
                messages=[{"role": "user", "content": question.user}],
                tools=[_declared(tool)],
                tool_choice={"type": "tool", "name": tool.name},
            )
            blocks = list(message.content)
        answer = _used(message)
        _check_whole(message, answer)
        with reading(answer):
            for block in blocks:
                if block.type == "tool_use" and block.name == tool.name:
                    return replace(answer, arguments=block.input)
        raise AnswerInvalid(f"the model did not call {tool.name}", answer)

    def converse(self, conversation: Conversation) -> Reply:
        """Ask for the next reply, once.

        Raises:
            ModelError: there is no usable answer.
        """
        messages: list[Any] = [{"role": "user", "content": conversation.user}]
        for exchange in conversation.exchanges:
            messages += _exchanged(exchange)
        tools = [_declared(tool) for tool in conversation.tools]
        with translated(self._sdk):
            message = self._client.messages.create(
                model=self.model,
                max_tokens=conversation.max_tokens,
                system=conversation.system,
                messages=messages,
                tools=tools or self._sdk.omit,
            )
            blocks = list(message.content)
        answer = _used(message)
        _check_whole(message, answer)
        with reading(answer):
            return Reply(
                text="\n".join(block.text or "" for block in blocks if block.type == "text"),
                calls=tuple(
                    ToolCall(str(block.id), str(block.name), block.input)
                    for block in blocks
                    if block.type == "tool_use"
                ),
                model=answer.model,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
            )


def _used(message: Any) -> Answer:
    usage = message.usage
    return Answer(None, message.model, used(usage, "input_tokens"), used(usage, "output_tokens"))


def _check_whole(message: Any, answer: Answer) -> None:
    """Refuse an answer that was cut off, because its last call's arguments may be incomplete."""
    if message.stop_reason == "max_tokens":
        raise AnswerInvalid(CUT_OFF, answer)


def _declared(tool: Tool) -> Any:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _exchanged(exchange: Exchange) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": exchange.text}] if exchange.text else []
    calls = [
        {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": call.arguments}
        for call in exchange.calls
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call.call_id, "content": result}
        for call, result in zip(exchange.calls, exchange.results, strict=True)
    ]
    return [
        {"role": "assistant", "content": [*said, *calls]},
        {"role": "user", "content": results},
    ]
