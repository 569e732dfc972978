"""OpenAI Agents: `ToolOutputTrimmer`."""

from __future__ import annotations

from typing import Any

from agents import Agent
from agents.extensions import ToolOutputTrimmer
from agents.run import CallModelData, ModelInputData

from wane.core import Item, Kind, chars
from wane.formats.message_format import Part
from wane.strategies.strategy import Slot, StrategySettings
from wane_research.peers import Peer, Turn


class OpenAIAgentsTrim(Peer):
    """`ToolOutputTrimmer()`, with all its defaults.

    It has no budget: before the last two user turns, it cuts each tool output of more than 500 characters to a preview
    of 200.
    """

    name = "openai-agents-trim"
    summary = "OpenAI Agents' ToolOutputTrimmer, without a budget"
    distributions = ("openai-agents",)

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._trimmer = ToolOutputTrimmer()
        self._agent: Agent[None] = Agent(name="replayed")
        self._input: list[Any] = []
        self._items: list[Item] = []

    def _append(self, turn: Turn) -> None:
        for item, part in zip(turn.items, turn.parts, strict=True):
            self._input.append(_input_item(part))
            self._items.append(item)

    def _view(self) -> list[Slot]:
        original = list(self._input)
        data = CallModelData(model_data=ModelInputData(original, None), agent=self._agent, context=None)
        view: list[Slot] = []
        for index, new in enumerate(self._trimmer(data).input):
            view.append(index if new is original[index] else self._shorten_output(index, new))
        return view

    def _shorten_output(self, index: int, new: Any) -> Slot:
        # Most of the new text is from the output, so it has as many tokens per character.
        text, tokens, length = new["output"], self._items[index].tokens, len(self._input[index]["output"])
        return self._substitute(index, text, min(chars(text), -(-tokens * len(text) // length)))


def _input_item(part: Part) -> dict[str, Any]:
    if part.kind is Kind.CALL:
        return {"type": "function_call", "call_id": part.call_id, "name": part.tool, "arguments": part.arguments or ""}
    if part.kind is Kind.RESULT:
        return {"type": "function_call_output", "call_id": part.call_id, "output": part.text}
    if part.kind is Kind.REASONING:
        return {"type": "reasoning", "id": "", "summary": [{"type": "summary_text", "text": part.text}]}
    role = {Kind.SYSTEM: "system", Kind.USER: "user"}.get(part.kind, "assistant")
    return {"role": role, "content": part.text}
