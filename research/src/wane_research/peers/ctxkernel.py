"""ctxkernel: the view that its `ContextEngine` assembles of its log."""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from typing import Any

from ctxkernel import Budget, ContextEngine, Elision, HandleRef, Text, Thinking, ToolResult, ToolUse
from ctxkernel.adapters.openai import to_messages

from wane.core import Kind, chars
from wane.strategies.strategy import Slot, StrategySettings, Substitute
from wane_research.peers import Peer, Turn


class _Counter:
    """Counts texts of the history as Wane does."""

    error_bound = 0.0

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def count_text(self, text: str) -> int:
        return self.known.get(text) or chars(text)


class CtxKernel(Peer):
    """`ContextEngine` with the budget as its window and target, and otherwise its defaults.

    Nothing opens its task frames, notes failures or states a goal: in real use the host or the model does. The host
    sends system items itself, so they stay.
    """

    name = "ctxkernel"
    summary = "ctxkernel's ContextEngine: drops what its log proves dead"
    distributions = ("ctxkernel",)

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._counter = _Counter()
        # The engine keeps its log in a directory, which is removed with this object.
        self._directory = TemporaryDirectory(prefix="wane-ctxkernel-")
        budget = Budget(window=self.room, generation_reserve=0, target_frac=1.0, pressure_frac=1.0)
        self._engine = ContextEngine(
            session="replayed", root=self._directory.name, budget=budget, tokenizer=self._counter
        )
        self._system: list[int] = []
        self._users: list[int] = []
        self._said: dict[str, list[int]] = {}
        self._calls: dict[str, int] = {}  # index of each call, by the engine's id of it
        self._results: dict[str, int] = {}  # index of each result, by the engine's id of its call
        self._open: dict[str | None, list[str]] = {}

    def _append(self, turn: Turn) -> None:
        for index, item, part in zip(turn.indexes, turn.items, turn.parts, strict=True):
            self._counter.known[part.text] = item.tokens
            if part.kind is Kind.SYSTEM:
                self._system.append(index)
            elif part.kind is Kind.CALL:
                own = f"c{index}"
                self._open.setdefault(part.call_id, []).append(own)
                self._calls[own] = index
                self._engine.record_tool_call(own, part.tool or "", _arguments(part.arguments))
            elif part.kind is Kind.RESULT:
                own = self._open[part.call_id].pop(0)
                self._results[own] = index
                self._engine.record_tool_result(own, part.text)
            elif part.kind in (Kind.TEXT, Kind.REASONING):
                self._said.setdefault(part.text, []).append(index)
                block = Text(part.text) if part.kind is Kind.TEXT else Thinking(part.text)
                self._engine.record_model([block])
            else:
                self._users.append(index)
                self._engine.record_user(part.text)

    def _view(self) -> list[Slot]:
        view: list[Slot] = [*self._system]
        for zone in self._engine.assemble().zones:
            if zone.name == "goal":
                # The engine keeps every turn of the user, in order, ahead of everything else.
                view += self._users
            else:
                unused = {text: [*indexes] for text, indexes in self._said.items()}
                # The tail is the end of the log, so of equal texts it has the latest.
                slots = [self._slot(block, unused) for block in reversed(zone.blocks)]
                view += reversed(slots)
        return view

    def _slot(self, block: Any, unused: dict[str, list[int]]) -> Slot:
        if isinstance(block, ToolUse):
            return self._calls[block.id]
        if isinstance(block, ToolResult):
            return self._results[block.tool_use_id]
        if isinstance(block, HandleRef):
            # The engine writes a result only behind its call.
            written = to_messages([("assistant", ToolUse(block.tool_use_id, "", {})), ("user", block)])
            text = str(written[-1]["content"])
            return self._substitute(self._results[block.tool_use_id], text, chars(text))
        text = block.note if isinstance(block, Elision) else block.text
        if unused.get(text):
            return unused[text].pop()
        return Substitute(text, chars(text))


def _arguments(raw: str | None) -> dict[str, Any]:
    try:
        arguments = json.loads(raw or "{}")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": raw}
