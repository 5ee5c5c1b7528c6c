"""Anthropic's models, by its SDK."""

from __future__ import annotations

from mail.llm.client import TIMEOUT_SECONDS, Answer, AnswerInvalid, Question, translated


class AnthropicClient:
    """A model of Anthropic's, or of a server that speaks its Messages API."""

    provider = "anthropic"

    def __init__(self, model: str, api_key: str, base_url: str = "") -> None:
        # A few seconds of importing: only who asks a model pays them.
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
                tools=[
                    {
                        "name": tool.name,
                        "description": tool.description,
                        "input_schema": tool.schema,
                    }
                ],
                tool_choice={"type": "tool", "name": tool.name},
            )
        usage = message.usage
        answer = Answer(None, message.model, usage.input_tokens, usage.output_tokens)
        for block in message.content:
            if block.type == "tool_use" and block.name == tool.name:
                return Answer(
                    block.input, answer.model, answer.prompt_tokens, answer.completion_tokens
                )
        raise AnswerInvalid(f"the model did not call {tool.name}", answer)
