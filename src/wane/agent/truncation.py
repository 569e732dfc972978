"""Recency truncation, for comparison: the oldest messages go when the budget is exceeded, whatever they hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from typing_extensions import override

from wane.core import chars
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.events import Event, UsageObserved

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import ModelRequestContext

    from wane.integrations.tracker import Tracker

_FORMAT = PydanticAIFormat()


@dataclass
class Truncation(AbstractCapability[Any]):
    """Leaves the oldest messages out of a request that is over the budget, down to the policy's low water.

    The cut is remembered and only ever moves on, so that the cached prefix stays as it is from one cut to the
    next. The first message of the user stays, as most agents keep it and as some providers demand one; later
    ones go with the rest. Calls keep their results.

    Attributes:
        tracker: knows the budget, and from reported usage what the last request held.
    """

    tracker: Tracker
    _cut: int = field(default=0, init=False, repr=False)
    _anchored: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.tracker.listeners.append(self._note)

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send what is left; the history stays whole."""
        messages, window = request_context.messages, self.tracker.window
        size = self._size(messages)
        if size > window.budget:
            self._cut = _cut_for(messages, self._cut, size - window.policy.target(window.budget))
        return replace(request_context, messages=_from(messages, self._cut))

    def _size(self, messages: list[ModelMessage]) -> int:
        """Tokens of the next request if the cut stays where it is."""
        counted = self.tracker.window.overhead + sum(map(_tokens, _from(messages, self._cut)))
        # What the provider reports is the request as it was cut, and the window counts on from there. Without
        # a report the window counts the whole history.
        return max(counted, self.tracker.window.tokens) if self._anchored else counted

    def _note(self, event: Event) -> None:
        self._anchored |= isinstance(event, UsageObserved)


def _cut_for(messages: list[ModelMessage], cut: int, excess: float) -> int:
    """The first place at or after `cut` that frees so many tokens, before the latest response at the latest."""
    places = [number for number, message in enumerate(messages) if isinstance(message, ModelResponse)]
    first = _first_of_user(messages)
    for place in places:
        dropped = sum(_tokens(messages[number]) for number in range(cut, place) if number != first)
        if place > cut and dropped >= excess:
            return place
    return max([cut, *places[-1:]])


def _from(messages: list[ModelMessage], cut: int) -> list[ModelMessage]:
    if not cut:
        return messages
    first = _first_of_user(messages)
    kept = [messages[first]] if first is not None and first < cut else []
    return [*kept, *messages[cut:]]


def _first_of_user(messages: list[ModelMessage]) -> int | None:
    for number, message in enumerate(messages):
        if isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts):
            return number
    return None


def _tokens(message: ModelMessage) -> int:
    return sum(part.item(chars, 0).tokens for part in _FORMAT.parts(message))
