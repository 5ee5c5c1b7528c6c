"""A language model's server on loopback: gives set answers in the format of either provider."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DEFAULT = {"category": "fyi", "confidence": 0.9, "rationale": "A notice."}


@dataclass
class ModelServer:
    """The next answers, and what was asked; a status above 299 is answered as an error.

    With `cut_off`, answers end at the limit of tokens; `usage` is what they say of tokens,
    `seconds` how long each takes.
    """

    url: str = ""
    answers: list[Any] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    content_type: str = "application/json"
    cut_off: bool = False
    usage: Any = "as used"
    seconds: float = 0.0

    def use_by(self, settings: Any, provider: str) -> None:
        """Configure this server as that provider's, with prices."""
        settings.LLM_PROVIDER = provider
        settings.LLM_MODEL = "model-1"
        settings.LLM_API_KEY = "sk-canary-3f9a"
        settings.LLM_BASE_URL = self.url
        settings.LLM_PRICES = (3.0, 15.0)

    def next(self) -> Any:
        """Return the next answer: the tool's arguments, calls, a text, a status, or "hang up".

        Calls are a list of (tool, arguments). Bytes are answered as they are.
        """
        return self.answers.pop(0) if self.answers else DEFAULT


def _anthropic(answer: Any, tool: str) -> dict[str, Any]:
    if isinstance(answer, str):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": answer}]
    else:
        calls = answer if isinstance(answer, list) else [(tool, answer)]
        blocks = [
            {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
            for number, (name, arguments) in enumerate(calls, 1)
        ]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "model-1",
        "content": blocks,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1000, "output_tokens": 50},
    }


def _openai(answer: Any, tool: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(answer, str) and not answer.startswith("{"):
        message["content"] = answer
    else:
        calls = answer if isinstance(answer, list) else [(tool, answer)]
        message["tool_calls"] = [
            {
                "id": f"t{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for number, (name, given) in enumerate(calls, 1)
        ]
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "model-1",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
    }


def _written(state: ModelServer, answer: Any, tool: str, *, chat: bool) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    if isinstance(answer, bytes):
        return 200, answer
    if isinstance(answer, int):
        error = {"type": "error", "error": {"type": "x", "message": "canary"}}
        return answer, json.dumps(error).encode()
    body = _openai(answer, tool) if chat else _anthropic(answer, tool)
    if state.usage != "as used":
        body["usage"] = state.usage
    if state.cut_off and chat:
        body["choices"][0]["finish_reason"] = "length"
    elif state.cut_off:
        body["stop_reason"] = "max_tokens"
    return 200, json.dumps(body).encode()


def _first_tool(body: dict[str, Any]) -> str:
    tool = (body.get("tools") or [{"name": ""}])[0]
    name: str = tool.get("function", tool)["name"]
    return name


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve until the block ends."""
    state = ModelServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(body)
            state.keys.append(
                self.headers.get("x-api-key") or self.headers.get("Authorization", "")
            )
            answer = state.next()
            time.sleep(state.seconds)
            if answer == "hang up":
                self.close_connection = True
                return
            chat = "completions" in self.path
            status, data = _written(state, answer, _first_tool(body), chat=chat)
            self._send(status, data)

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", state.content_type)
            self.send_header("Content-Length", str(len(data)))
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
