"""ctxkernel: the view that its `ContextEngine` assembles of its log."""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from typing import Any

from ctxkernel import Budget, ContextEngine, Elision, HandleRef, Text, Thinking, ToolResult, ToolUse
from ctxkernel.adapters.openai import to_messages

from wane.core import Kind, chars
from wane.strategies.base import Settings, Slot, Substitute
from wane_research.peers import Peer, Turn


class _Counter:
    """Counts a text as Wane does, where it is one of the history."""

    error_bound = 0.0

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def count_text(self, text: str) -> int:
        return self.known.get(text) or chars(text)


class CtxKernel(Peer):
    """`ContextEngine` with the budget as its window, all of which is its target; the rest are its defaults.

    Nothing opens its task frames, notes failures or states a goal: in real use the host or the model does. System
    items are the host's to send, so they stay.
    """

    name = "ctxkernel"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._counter = _Counter()
        # It keeps its log in a directory, which goes with this object.
        self._directory = TemporaryDirectory(prefix="wane-ctxkernel-")
        budget = Budget(window=self.room, generation_reserve=0, target_frac=1.0, pressure_frac=1.0)
        self._engine = ContextEngine(
            session="replayed", root=self._directory.name, budget=budget, tokenizer=self._counter
        )
        self._system: list[int] = []
        self._users: list[int] = []
        self._said: dict[str, list[int]] = {}
        self._places: dict[str, tuple[int, int | None]] = {}  # by its id of a call: the call and its result
        self._open: dict[str | None, list[str]] = {}

    def _append(self, turn: Turn) -> None:
        for index, item, part in zip(turn.indexes, turn.items, turn.parts, strict=True):
            self._counter.known[part.text] = item.tokens
            if part.kind is Kind.SYSTEM:
                self._system.append(index)
            elif part.kind is Kind.CALL:
                own = f"c{index}"
                self._open.setdefault(part.call_id, []).append(own)
                self._places[own] = (index, None)
                self._engine.record_tool_call(own, part.tool or "", _arguments(part.arguments))
            elif part.kind is Kind.RESULT:
                own = self._open[part.call_id].pop(0)
                self._places[own] = (self._places[own][0], index)
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
                # It keeps every turn of the user, in order, ahead of everything else.
                view += self._users
            else:
                unused = {text: [*indexes] for text, indexes in self._said.items()}
                # Its tail is the latest of its log, so equal texts are the latest ones.
                view += reversed([self._slot(block, unused) for block in reversed(zone.blocks)])
        return view

    def _slot(self, block: Any, unused: dict[str, list[int]]) -> Slot:
        if isinstance(block, ToolUse):
            return self._places[block.id][0]
        if isinstance(block, ToolResult | HandleRef):
            index = self._places[block.tool_use_id][1]
            assert index is not None
            if isinstance(block, ToolResult):
                return index
            # It writes a result only behind its call.
            written = to_messages([("assistant", ToolUse(block.tool_use_id, "", {})), ("user", block)])
            text = str(written[-1]["content"])
            return self._substitute(index, text, chars(text))
        text = block.note if isinstance(block, Elision) else block.text
        if unused.get(text):
            return unused[text].pop()
        return Substitute(text, chars(text))


def _arguments(raw: str | None) -> dict[str, Any]:
    """The arguments, from which it tells what a call is about."""
    try:
        read = json.loads(raw or "{}")
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": raw}
