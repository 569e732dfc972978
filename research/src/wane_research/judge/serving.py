"""A small language model behind a provider's API that enforces its window: a client's worst case.

The HTTP and the protocols are those of `wane.testing`, with the model as the script. It uses tools badly: the form of
its answers is fixed, and only words and arguments are the model's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.core import Kind
from wane.formats.message_format import Part
from wane.testing import Call, HttpError, Reply, Request, Usage
from wane_research.judge.judging import CALL, render_part
from wane_research.judge.model import Model

CALLS: Final = 4  # calls of the model in a turn before it answers
_SAID: Final = 16  # most tokens of an answer, and of an argument that may be any text


@dataclass(frozen=True, slots=True)
class Served:
    """A request."""

    tokens: int  # its tokens, by the model's own tokenizer
    cached: int  # tokens of these that the model's memory already held
    refused: bool  # whether it was refused, because it exceeded the window


class SmallModel:
    """The script of a `ScriptedServer` that is a language model.

    It has one conversation at a time. In a turn it makes some calls, with the tools and arguments that the model finds
    most likely, and then says something.

    Args:
        model: the model; its memory must be larger than the window.
        window: tokens of the longest request that is not refused.
        calls: calls of a turn.
    """

    def __init__(self, model: Model, window: int, calls: int = CALLS) -> None:
        self._model, self._window, self._calls = model, window, calls
        self._made = 0
        self.served: list[Served] = []  # the requests, in order

    def __call__(self, request: Request) -> Reply:
        prompt = self._prompt(request)
        if len(prompt) > self._window:
            self.served.append(Served(len(prompt), 0, refused=True))
            return Reply(error=HttpError(400, _too_long(len(prompt), self._window), {"x-should-retry": "false"}))
        cached = self._model.count_shared(prompt)
        self.served.append(Served(len(prompt), cached, refused=False))
        # Calls are not counted in the request: there they may have been evicted.
        if request.parts[-1].kind is Kind.USER:
            self._made = 0
        if request.tools and self._made < self._calls:
            self._made += 1
            functions = [tool["function"] for tool in request.body["tools"]]  # in Chat Completions
            schemas = {function["name"]: function.get("parameters", {}) for function in functions}
            call = self._call(prompt, schemas)
            return Reply(calls=(call,), usage=Usage(len(prompt), len(self._model.tokens(call.raw_arguments)), cached))
        text = self._continue_line(prompt, "[assistant]\n") or "Done."
        return Reply(text, usage=Usage(len(prompt), len(self._model.tokens(text)), cached))

    def _prompt(self, request: Request) -> list[int]:
        tools = "".join(f"[tool]\n{json.dumps(tool)}\n\n" for tool in request.body.get("tools", ()))
        tokens = [*self._model.opening, *self._model.tokens(tools)]
        # Tokenized part by part, so that the next prompt of the conversation begins with the same tokens.
        for part in request.parts:
            tokens += self._model.tokens(render_part(Part(part.kind, part.text, part.call_id, part.tool, part.text)))
        return tokens

    def _call(self, prompt: Sequence[int], tools: Mapping[str, Mapping[str, Any]]) -> Call:
        name = self._likeliest(prompt, f"{CALL} ", list(tools))
        arguments: dict[str, Any] = {}
        for field, schema in tools[name].get("properties", {}).items():
            written = f"{CALL} {name} {json.dumps(arguments)[:-1]}{', ' if arguments else ''}{json.dumps(field)}: "
            if "enum" in schema:
                arguments[field] = self._likeliest(prompt, written, schema["enum"])
            else:
                arguments[field] = self._continue_line(prompt, f'{written}"').partition('"')[0]
        return Call(name, arguments)

    def _likeliest(self, prompt: Sequence[int], written: str, choices: Sequence[Any]) -> Any:
        """Return the most likely choice after what the model has written; the first of equal ones."""
        if len(choices) == 1:
            return choices[0]
        before = [*prompt, *self._model.tokens(written)]

        def surprise(choice: Any) -> float:
            tokens = self._model.tokens(json.dumps(choice))
            return sum(self._model.surprise(before, tokens)) / len(tokens)

        return min(choices, key=surprise)

    def _continue_line(self, prompt: Sequence[int], written: str) -> str:
        """Return a line that continues what the model has written."""
        tokens = [*self._model.continue_tokens([*prompt, *self._model.tokens(written)], _SAID)]
        return "".join(self._model.pieces(tokens)).strip().partition("\n")[0]


def _too_long(tokens: int, window: int) -> dict[str, Any]:
    """Return the error of OpenAI's API for a request that the window does not hold."""
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    kinds = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return {"error": {"message": message, **kinds}}
