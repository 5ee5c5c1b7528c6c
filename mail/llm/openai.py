"""OpenAI's models, and those of any server that speaks its chat completions, by its SDK."""

from __future__ import annotations

import json
from typing import Any

from mail.llm.client import (
    TIMEOUT_SECONDS,
    Answer,
    AnswerInvalid,
    Conversation,
    Exchange,
    Question,
    Reply,
    Tool,
    ToolCall,
    translated,
)


class OpenAIClient:
    """A model behind chat completions."""

    provider = "openai"

    def __init__(self, model: str, api_key: str, base_url: str = "") -> None:
        # A second of importing: only who asks a model pays it.
        import openai

        self.model = model
        self._sdk = openai
        # OpenAI's newer models refuse the old name; other servers may not know the new one.
        self._limit = "max_tokens" if base_url else "max_completion_tokens"
        self._client = openai.OpenAI(
            api_key=api_key or "none",
            base_url=base_url or None,
            max_retries=0,
            timeout=TIMEOUT_SECONDS,
        )

    def ask(self, question: Question) -> Answer:
        """Ask, once.

        Raises:
            ModelError: there is no usable answer.
        """
        tool = question.tool
        limit: dict[str, Any] = {self._limit: question.max_tokens}
        with translated(self._sdk):
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=[
                    {"role": "system", "content": question.system},
                    {"role": "user", "content": question.user},
                ],
                tools=[_declared(tool)],
                tool_choice={"type": "function", "function": {"name": tool.name}},
                **limit,
            )
        usage = completion.usage
        answer = Answer(
            None,
            completion.model or self.model,
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
        )
        return _called(completion, tool.name, answer)

    def converse(self, conversation: Conversation) -> Reply:
        """Ask for the next reply, once.

        Raises:
            ModelError: there is no usable answer.
        """
        messages: list[Any] = [
            {"role": "system", "content": conversation.system},
            {"role": "user", "content": conversation.user},
        ]
        for exchange in conversation.exchanges:
            messages += _exchanged(exchange)
        limit: dict[str, Any] = {self._limit: conversation.max_tokens}
        with translated(self._sdk):
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=messages,
                tools=[_declared(tool) for tool in conversation.tools],
                **limit,
            )
        if not completion.choices:
            raise AnswerInvalid("the answer has no message")
        message, usage = completion.choices[0].message, completion.usage
        return Reply(
            text=message.content or "",
            calls=tuple(
                ToolCall(call.id, call.function.name, _object(call.function.arguments))
                for call in message.tool_calls or []
                if call.type == "function"
            ),
            model=completion.model or self.model,
            prompt_tokens=usage.prompt_tokens if usage else 0,
            completion_tokens=usage.completion_tokens if usage else 0,
        )


def _declared(tool: Tool) -> Any:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _object(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _exchanged(exchange: Exchange) -> list[dict[str, Any]]:
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
        }
        for call in exchange.calls
    ]
    said = {"role": "assistant", "content": exchange.text or None, "tool_calls": calls}
    results = [
        {"role": "tool", "tool_call_id": call.call_id, "content": result}
        for call, result in zip(exchange.calls, exchange.results, strict=True)
    ]
    return [said, *results]


def _called(completion: Any, tool: str, answer: Answer) -> Answer:
    calls = completion.choices[0].message.tool_calls if completion.choices else None
    for call in calls or []:
        if call.type == "function" and call.function.name == tool:
            try:
                arguments = json.loads(call.function.arguments)
            except ValueError:
                raise AnswerInvalid("the arguments of the call are not JSON", answer) from None
            return Answer(arguments, answer.model, answer.prompt_tokens, answer.completion_tokens)
    raise AnswerInvalid(f"the model did not call {tool}", answer)
