"""What every adapter of a framework has in common: its arguments, and what it warns of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from wane.conversation import Adapter, Call, Change, Conversation
from wane.conversation.events import Listener
from wane.core import DELIMITER, Counter, Policy, ToolClass
from wane.core.errors import WaneError
from wane.formats.base import Format, MessageT
from wane.strategies.base import Annotate


class LifecycleSettings(TypedDict, total=False):
    """What an adapter takes besides the budget, all by name.

    Attributes:
        policy: what a pass evicts, and how far; `Policy()` if it is left out.
        annotate: who marks episodes: `model`, the agent itself, or `infer`, what its tool calls tell. It then gets no
            tool `delimiter`.
        recall: whether the agent gets the tool `recall`, for what was evicted.
        remind_at: share of the budget that unannotated work may fill before the agent is reminded; None for never.
        tool_classes: classes of tools by name, on top of the defaults.
        counter: `chars`, `tiktoken`, or a function from text to tokens.
        on_event: told of every event (`wane.conversation.events`).
    """

    policy: Policy | None
    annotate: Annotate
    recall: bool
    remind_at: float | None
    tool_classes: Mapping[str, ToolClass | str] | None
    counter: str | Counter
    on_event: Listener | None


def maker(
    format: Format[MessageT],  # noqa: A002 - the field's word
    adapter: Adapter[MessageT],
    budget: int | str,
    **settings: Unpack[LifecycleSettings],
) -> Callable[[], Conversation[MessageT]]:
    """Return what makes an adapter's conversations; call it once at the start, so that wrong settings show.

    Args:
        format: the messages' format.
        adapter: what they tell of themselves.
        budget: tokens that a request may hold.
        settings: everything else.
    """
    return lambda: Conversation(format, budget=budget, adapter=adapter, **settings)


def resumed(
    make: Callable[[], Conversation[MessageT]], kept: Mapping[str, Any], messages: Sequence[MessageT]
) -> Conversation[MessageT]:
    """Return a new conversation that goes on from what `after_answer` returned, if there is any.

    Args:
        make: makes a conversation.
        kept: what the framework has kept; empty if nothing.
        messages: the history, to be given to `ingest` next.
    """
    conversation = make()
    if kept:
        conversation.restore(kept["state"], messages)
    return conversation


def after_answer(conversation: Conversation[MessageT], calls: Sequence[Call[MessageT]]) -> dict[str, Any]:
    """Judge the calls of an answer, and return what a framework keeps: the tools may run where only that is known.

    Args:
        conversation: the conversation.
        calls: all calls of the answer, in order.

    Returns:
        `state`, for `resumed`; `told`, the results of `delimiter` calls by id; and `mark`, which tells this state from
        every other one.
    """
    conversation.foresee(calls)
    told = {call.id: conversation.answer(call) for call in calls if call.name == DELIMITER and call.id}
    return {"mark": uuid4().hex, "state": conversation.state(), "told": told}


class Warner:
    """Warns of what keeps Wane from working as it should, of each thing once.

    Args:
        competes: what else may take messages out of the framework's history, and the setting against it, if anything.
    """

    def __init__(self, competes: str = "") -> None:
        self._competes = competes
        self._told: set[str] = set()

    def warn(self, text: str) -> None:
        """Warn, unless it was said before."""
        if text not in self._told:
            self._told.add(text)
            warnings.warn(f"Wane: {text}", stacklevel=4)

    def ingested(self, change: Change) -> None:
        """A history was taken in: one that took another's place, and is no new beginning, has lost something."""
        if change.replaced and change.added > 1:
            self.warn(f"the history was replaced, so what had been evicted cannot be recalled. {self._competes}")

    def aside(self, error: WaneError) -> None:
        """A history cannot be taken in: the request is sent as it is, and its provider may refuse it as well."""
        if "aside" not in self._told:
            self._told.add("aside")
            warnings.warn(f"Wane: a request is sent as it is, with nothing evicted: {error}", stacklevel=4)
