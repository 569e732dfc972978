"""Sessions as agents send them: a growing history with tool calls, in each of the three protocols."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

TOOL_NAMES: Final = re.findall(
    r"\w+",
    """bash read write edit glob grep ls web_search web_fetch todo_write task notebook_edit multi_edit ask plan
    kill_shell""",
)
EXCHANGES_A_TURN: Final = 12  # tool calls between two turns of the user
_RESULT: Final = 480  # tokens of a tool's result
_WORDS: Final = re.findall(
    r"\S+",
    """return self.value index total if not None raise ValueError(f'{name!r} is not known') for item in items:
    data["key"] = path.read_text(encoding="utf-8") # see below def handle(request, *, timeout=30.0) -> Response:""",
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a protocol writes the parts of a session."""

    path: str  # the path of requests
    frame: Json  # a body without the history
    field: str  # name of the history's field
    user: Callable[[str], Json]  # makes a turn of the user, from its text
    reply: Callable[[str, str, str], list[Json]]  # makes the model's messages, from text, call id and arguments
    result: Callable[[str, str], Json]  # makes a tool's result, from call id and text


def _schema(name: str) -> Json:
    properties: Json = {}
    for number in range(4):
        about = f"What {name} is to take as number {number}. " * 3
        properties[f"{name}_{number}"] = {"type": "string", "description": about}
    return {"type": "object", "properties": properties, "required": list(properties)[:2]}


_SYSTEM: Final = "You are an agent that writes software. Follow the user's instructions, and say what you do. " * 80
_ABOUT: Final = "Does one thing well. Say what it is to do, in full, and read what comes back. " * 4


def _shapes() -> dict[str, Shape]:
    anthropic_tools = [{"name": name, "description": _ABOUT, "input_schema": _schema(name)} for name in TOOL_NAMES]
    functions = [{"name": name, "description": _ABOUT, "parameters": _schema(name)} for name in TOOL_NAMES]
    anthropic = Shape(
        "/v1/messages",
        {
            "model": "claude-sonnet-5",
            "max_tokens": 8_000,
            "system": [{"type": "text", "text": _SYSTEM, "cache_control": {"type": "ephemeral"}}],
            "tools": anthropic_tools,
        },
        "messages",
        lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
        lambda text, call, arguments: [
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": text},
                    {"type": "tool_use", "id": call, "name": "read", "input": json.loads(arguments)},
                ],
            }
        ],
        lambda call, text: {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": text}]}],
        },
    )
    chat = Shape(
        "/v1/chat/completions",
        {
            "model": "gpt-5.2",
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": it} for it in functions],
        },
        "messages",
        lambda text: {"role": "user", "content": text},
        lambda text, call, arguments: [
            {
                "role": "assistant",
                "content": text,
                "tool_calls": [
                    {"id": call, "type": "function", "function": {"name": "read", "arguments": arguments}},
                ],
            }
        ],
        lambda call, text: {"role": "tool", "tool_call_id": call, "content": text},
    )
    responses = Shape(
        "/v1/responses",
        {
            "model": "gpt-5.2-codex",
            "instructions": _SYSTEM,
            "store": False,
            "tools": [{"type": "function", "strict": False, **it} for it in functions],
        },
        "input",
        lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        lambda text, call, arguments: [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            {"type": "function_call", "call_id": call, "name": "read", "arguments": arguments},
        ],
        lambda call, text: {"type": "function_call_output", "call_id": call, "output": text},
    )
    return {"anthropic": anthropic, "openai": chat, "openai_responses": responses}


SHAPES: Final = _shapes()  # the protocols by the name of their wire
ARGUMENTS: Final = '{"path":"src/module.py"}'  # arguments of every call: as the scripted provider makes them


class Session:
    """A client's session, which sends all of its history with each request.

    Args:
        wire: name of the protocol.
        tokens: approximate size of the first request, at four characters a token.
        seed: tells one session from another.
        stream: whether replies are streamed.
        tools: whether requests carry tools; without any, the proxy passes them on as they are.
        result: tokens of each tool's result.
    """

    def __init__(
        self,
        wire: str,
        tokens: int,
        seed: int = 0,
        *,
        stream: bool = False,
        tools: bool = True,
        result: int = _RESULT,
    ) -> None:
        self.wire, self.shape, self.managed, self._result = wire, SHAPES[wire], tools, result
        self._random = random.Random(seed)
        frame = {**self.shape.frame, "stream": stream}
        if not tools:
            del frame["tools"]
        self._head = f'{json.dumps(frame, separators=(",", ":"))[:-1]},"{self.shape.field}":['.encode()
        self._messages: list[bytes] = []
        self._size = len(self._head)
        self._exchanges = 0
        if wire == "openai":
            self._add({"role": "system", "content": _SYSTEM})
        self._add(self.shape.user(f"Task {seed}: {self._text(120)}"))
        while self._size < 4 * tokens - 4 * result // 2:
            self.go_on("Let me look at the next file.", f"call_{seed}_{self._exchanges}")

    @property
    def path(self) -> str:
        return self.shape.path

    @property
    def messages(self) -> int:
        return len(self._messages)

    def body(self) -> bytes:
        return b"%b%b]}" % (self._head, b",".join(self._messages))

    def go_on(self, text: str, call: str) -> None:
        """Add the model's reply and its call's result; from time to time, also another turn of the user."""
        for message in self.shape.reply(text, call, ARGUMENTS):
            self._add(message)
        self._add(self.shape.result(call, self._text(self._result)))
        self._exchanges += 1
        if self._exchanges % EXCHANGES_A_TURN == 0:
            for message in self.shape.reply("That is done.", f"{call}_u", ARGUMENTS):
                self._add(message)
            self._add(self.shape.result(f"{call}_u", "done"))
            self._add(self.shape.user(f"Good. And now: {self._text(30)}"))

    def _add(self, message: Json) -> None:
        self._messages.append(json.dumps(message, separators=(",", ":")).encode())
        self._size += len(self._messages[-1]) + 1

    def _text(self, tokens: int) -> str:
        words: list[str] = []
        size = 0
        while size < 4 * tokens:
            words.append(self._random.choice(_WORDS))
            if self._random.random() < 0.1:
                words.append(f"{self._random.randrange(10**6)}\n   ")
            size += len(words[-1]) + 6
        return " ".join(words)
