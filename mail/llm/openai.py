"""OpenAI's models, and those of any server that speaks its chat completions, by its SDK."""

from __future__ import annotations

import json
from typing import Any

from mail.llm.client import TIMEOUT_SECONDS, Answer, AnswerInvalid, Question, translated


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
                tools=[
                    {
                        "type": "function",
                        "function": {
                            "name": tool.name,
                            "description": tool.description,
                            "parameters": tool.schema,
                        },
                    }
                ],
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
