"""Calls of tools: those that are the host's to run, and the answers to those that are Wane's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from wane.core import DELIMITER
from wane.core.errors import ConfigError
from wane.formats.base import MessageT

NOT_A_CALL: Final = (
    "Error: `delimiter` marks the conversation, so it works only as a tool call of its own in a message."
)
"""What is read in place of a verdict on what is no call of the model's latest answer."""


@dataclass(frozen=True, slots=True)
class Call(Generic[MessageT]):
    """A call of a tool.

    Attributes:
        name: the tool's name.
        arguments: its arguments, as a rule the raw JSON text that the model wrote.
        id: the provider's id of the call; None where a framework does not tell it.
    """

    name: str
    arguments: Any = ""
    id: str | None = None
    _write: Callable[[str], MessageT] | None = field(default=None, repr=False, compare=False)

    def result(self, output: object) -> MessageT:
        """Return the message that answers the call, to be appended to the conversation.

        Args:
            output: what the tool gave: text as it is, anything else as JSON.

        Raises:
            ConfigError: for a call that is not of a conversation, or whose format writes no messages.
        """
        if self._write is None:
            raise ConfigError(f"the call of {self.name!r} is of no conversation that could write a message for it")
        return self._write(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str))

    @property
    def raw(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return "" if self.arguments is None else json.dumps(self.arguments, ensure_ascii=False, default=str)


@dataclass(slots=True)
class _Verdict:
    """The answer to one `delimiter` call of an answer.

    Attributes:
        position: which of the answer's calls it is.
        id: the call's id.
        arguments: its arguments in one spelling.
        text: the answer.
    """

    position: int
    id: str | None
    arguments: str
    text: str


class Verdicts:
    """Hands out what became of `delimiter` calls to whoever runs tools: by id, by position, by arguments, or in order.

    What is asked for neither by id nor by position is handed out once, whatever thread asks.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._left: dict[int, _Verdict] = {}
        self._answer: list[_Verdict] = []  # all of the latest answer
        self._foreseen = 0  # calls of an answer that is not in the history yet
        self._ahead: list[Any] = []  # arguments of its `delimiter` calls

    def taken(
        self,
        judged: Iterable[tuple[int, str | None, str | None, str]],
        open_ids: Iterable[str],
        *,
        more: bool = False,
    ) -> None:
        """An answer is in the history now, with these `delimiter` calls.

        Args:
            judged: of each its position among the answer's calls, its id, its raw arguments, and the verdict's text.
            open_ids: ids of calls that wait for their results.
            more: whether these go on with the answer of which others were told last.
        """
        if more:
            at = len(self._answer)
            judged = [
                *((v.position, v.id, v.arguments, v.text) for v in self._answer),
                *((at + n, *it[1:]) for n, it in enumerate(judged)),
            ]
        verdicts = [_Verdict(at, id_, _spelled(raw), text) for at, id_, raw, text in judged]
        same = [v.arguments for v in verdicts] == [v.arguments for v in self._answer] and self._foreseen > 0
        given = [v.position not in self._left for v in self._answer] if same else [False] * len(verdicts)
        self._by_id = {id_: self._by_id[id_] for id_ in open_ids if id_ in self._by_id}
        self._by_id |= {v.id: v.text for v in verdicts if v.id is not None}
        self._answer = verdicts
        self._left = {v.position: v for v, gone in zip(verdicts, given, strict=True) if not gone}
        self._foreseen, self._ahead = 0, []

    def foresee(self, calls: Sequence[Call[Any]], judge: Callable[[list[str]], list[str]]) -> None:
        """Judge the calls of an answer that is not in the history yet; several times for more of the same answer.

        Args:
            calls: all its calls, in order.
            judge: gives the texts of verdicts on the `delimiter` calls that come next, from their raw arguments.
        """
        if not self._foreseen:
            self._answer, self._left = [], {}
        known = {v.id for v in self._answer if v.id is not None}
        new = [call for call in calls if call.id is None or call.id not in known]
        marks = [call.raw for call in new if call.name == DELIMITER]
        texts = iter(judge([*self._ahead, *marks])[len(self._ahead) :])
        self._ahead += marks
        for call in new:
            if call.name == DELIMITER:
                verdict = _Verdict(self._foreseen, call.id, _spelled(call.raw), next(texts))
                self._answer.append(verdict)
                self._left[verdict.position] = verdict
                if verdict.id is not None:
                    self._by_id[verdict.id] = verdict.text
            self._foreseen += 1

    def dropped(self) -> None:
        """The answer that was foreseen came to nothing: another request is made."""
        if self._foreseen:
            self._answer, self._left, self._foreseen, self._ahead = [], {}, 0, []

    def knows(self, call_id: str) -> bool:
        """Whether a call of this id is known."""
        return call_id in self._by_id

    def find(self, call: Call[Any], position: int | None = None) -> str:
        """Return the answer to a call."""
        known = call.id is not None and call.id in self._by_id
        named = [v for v in self._answer if (v.id == call.id if known else v.position == position)]
        for verdict in named:
            self._left.pop(verdict.position, None)
        if known:
            return self._by_id[call.id or ""]
        if named:
            return named[0].text
        if call.id is not None and self._by_id:
            return NOT_A_CALL
        left, spelled = list(self._left.values()), _spelled(call.raw)
        for verdict in [v for v in left if v.arguments == spelled] or left:
            # Whoever takes it out first has it.
            if self._left.pop(verdict.position, None) is not None:
                return verdict.text
        return NOT_A_CALL

    def export(self) -> dict[str, Any]:
        """Return what has not been handed out, as JSON data."""
        rows = [[v.position, v.id, v.arguments, v.text] for v in self._left.values()]
        return {"by_id": dict(self._by_id), "left": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `export` gave."""
        self._by_id = dict(state["by_id"])
        self._answer = [_Verdict(*row) for row in state["left"]]
        self._left = {verdict.position: verdict for verdict in self._answer}


def _spelled(raw: str | None) -> str:
    """Arguments in one spelling: frameworks hand them on in another order, and what was left out as null."""
    try:
        value = json.loads(raw or "")
    except (ValueError, RecursionError):
        return (raw or "").strip()
    if isinstance(value, dict):
        value = {key: entry for key, entry in value.items() if entry is not None}
    return json.dumps(value, sort_keys=True)
