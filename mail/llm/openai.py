"""OpenAI's models, and those of any server that speaks its chat completions, by its SDK."""

from __future__ import annotations

import json
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


class OpenAIClient:
    """A model behind chat completions."""

    provider = "openai"

    def __init__(self, model: str, api_key: str, base_url: str = "") -> None:
        # Imported here, because it takes a second and only processes that ask a model need it.
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
            choice = completion.choices[0]
        answer = _used(completion, self.model)
        _check_whole(choice, answer)
        with reading(answer):
            for call in _calls(choice):
                if call.function.name == tool.name:
                    return replace(answer, arguments=_given(call.function.arguments))
        raise AnswerInvalid(f"the model did not call {tool.name}", answer)

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
        tools = [_declared(tool) for tool in conversation.tools]
        with translated(self._sdk):
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=messages,
                # The API refuses an empty list.
                tools=tools or self._sdk.omit,
                **limit,
            )
            choice = completion.choices[0]
        answer = _used(completion, self.model)
        _check_whole(choice, answer)
        with reading(answer):
            return Reply(
                text=_text(choice.message.content or choice.message.refusal),
                calls=tuple(
                    ToolCall(
                        str(call.id), str(call.function.name), _object(call.function.arguments)
                    )
                    for call in _calls(choice)
                ),
                model=answer.model,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
            )


def _used(completion: Any, model: str) -> Answer:
    usage = completion.usage
    prompt, written = used(usage, "prompt_tokens"), used(usage, "completion_tokens")
    return Answer(None, completion.model or model, prompt, written)


def _check_whole(choice: Any, answer: Answer) -> None:
    """Refuse an answer that was cut off, because its last call's arguments may be incomplete."""
    if choice.finish_reason == "length":
        raise AnswerInvalid(CUT_OFF, answer)


def _calls(choice: Any) -> list[Any]:
    # Some servers leave the type out, which can only be function.
    return [one for one in choice.message.tool_calls or [] if one.type in ("function", None)]


def _text(content: Any) -> str:
    """Return what the model said: a text, or with some servers a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(one.get("text") or "") for one in content)
    return str(content or "")


def _declared(tool: Tool) -> Any:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _object(arguments: Any) -> Any:
    try:
        return _given(arguments)
    except (TypeError, ValueError, RecursionError):
        return {}


def _given(arguments: Any) -> Any:
    """Return the arguments of a call: JSON, or with some servers the object itself."""
    return arguments if isinstance(arguments, dict) else json.loads(arguments)


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
