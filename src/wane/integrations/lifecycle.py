"""The common parts of adapters: their settings, state and warnings, and what a request passes on as it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Unpack
from uuid import uuid4

from wane.conversation import Adapter, Call, Change, Conversation, Request
from wane.conversation.context import EpisodeArguments
from wane.conversation.events import Listener
from wane.conversation.scopes import OpenScope
from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError, HistoryError, WaneError
from wane.formats.message_format import Format, MessageT, order_of, writes
from wane.formats.roles import Order

UNMANAGED_CALL: Final = (
    "Error: this conversation's context is not managed, so the tool does nothing. Do not call it again."
)
"""Result of an own tool whose conversation is not known, or cannot be taken in."""


class LifecycleSettings(EpisodeArguments, total=False):
    """Settings of an adapter besides the budget, all by name.

    Most are those of `wane.conversation.ContextSettings`.

    Attributes:
        on_event: called with each event (`wane.conversation.events`).
    """

    on_event: Listener | None


def maker(
    format: Format[MessageT],  # noqa: A002 - the field's word
    adapter: Adapter[MessageT],
    budget: int | str,
    owner: object = None,
    **settings: Unpack[LifecycleSettings],
) -> Callable[[], Conversation[MessageT]]:
    """Return a function that makes an adapter's conversations; call it once at the start to check the settings.

    Args:
        format: the messages' format.
        adapter: reads ids, usage and times from the messages.
        budget: tokens that a request may hold.
        owner: whose scopes concern the conversations; None if each has its own.
        settings: the other settings.

    Raises:
        ConfigError: for a setting that adapters do not have; a conversation may have it.
    """
    accepted = LifecycleSettings.__annotations__
    if unknown := [name for name in settings if name not in accepted]:
        raise ConfigError(
            f"an adapter has no setting {', '.join(map(repr, unknown))}; it has budget, {', '.join(accepted)}"
        )

    def make() -> Conversation[MessageT]:
        conversation = Conversation(format, budget=budget, adapter=adapter, **settings)
        if owner is not None:
            conversation.host.owner = owner
        return conversation

    return make


class HostMarks:
    """Lets the program around an adapter's agents mark episodes and tasks, with `annotate="host"` (R18).

    What the adapter's agents answer in a scope belongs to it. A sub-agent with an adapter of its own is not in it.

    Attributes:
        marks: whether the program marks them. An adapter sets it.
    """

    marks: bool

    def episode(self, name: str, type: str = "expl", dependencies: Iterable[str] = ()) -> OpenScope:  # noqa: A002
        """Return an episode to enter by `with`, or to put before a function as a decorator: each call is one.

        If a conversation has used the name before, a number is added.

        Args:
            name: its name.
            type: `expl` or `act`.
            dependencies: for an act, names of the explorations that it builds on, as far as there are any.

        Raises:
            ConfigError: for a name or a type that cannot be used, and without `annotate="host"`.
        """
        return self._scope(name, type, dependencies)

    def task(self, name: str) -> OpenScope:
        """Return a task, which holds episodes and other tasks (R17); see `episode`."""
        return self._scope(name, "task")

    def _scope(self, name: str, type: str, dependencies: Iterable[str] = (), id: str = "") -> OpenScope:  # noqa: A002
        if not self.marks:
            raise ConfigError(f"the episode {name!r} has no effect: give the adapter annotate='host'")
        return OpenScope(self, name, type, dependencies, id=id)


def resume(
    make: Callable[[], Conversation[MessageT]], stored: object, messages: Sequence[MessageT], warner: Warner
) -> Conversation[MessageT]:
    """Return a new conversation that continues from the data of `after_answer`.

    Args:
        make: makes a conversation.
        stored: the data that the framework has stored, if it has any.
        messages: the history, to be passed to `ingest` next.
        warner: warns of data that do not fit; the conversation then begins anew.
    """
    conversation = make()
    if not stored:
        return conversation
    state = stored.get("state") if isinstance(stored, Mapping) else None
    try:
        conversation.restore(state if isinstance(state, Mapping) else {}, messages)
    except HistoryError as error:
        warner.unreadable(error)
    return conversation


def after_answer(conversation: Conversation[MessageT], calls: Sequence[Call[MessageT]]) -> dict[str, Any]:
    """Judge the calls of an answer, and return the data for the framework to store; tools may run with only that.

    Args:
        conversation: the conversation.
        calls: all calls of the answer, in order.

    Returns:
        `state`, for `resume`; `told`, the results of `delimiter` calls by id; and `mark`, a unique id of this state.
    """
    conversation.host.foresee(calls)
    results = {call.id: conversation.host.answer(call) for call in calls if call.name == DELIMITER and call.id}
    return {"mark": uuid4().hex, "state": conversation.state(), "told": results}


def has_budget(thinking: object) -> bool:
    """Return whether Anthropic's setting `thinking` gives thinking a budget (`Conversation.keep_opening`)."""
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


class Warner:
    """Warns once of each thing that keeps Wane from working properly.

    Args:
        competes: how to turn off what else may remove messages from the framework's history; empty if nothing does.
    """

    def __init__(self, competes: str = "") -> None:
        self._competes = competes
        self._given: set[str] = set()

    def warn(self, text: str, subject: str = "") -> None:
        """Give a warning, unless it was given before, or another one of its subject."""
        if (subject or text) not in self._given:
            self._given.add(subject or text)
            warnings.warn(f"Wane: {text}", stacklevel=4)

    def warn_replaced(self, change: Change) -> None:
        """Warn of a history that replaced another one, because something was lost unless it begins anew."""
        if change.replaced and change.added > 1:
            self.warn(f"the history was replaced, so what had been evicted cannot be recalled. {self._competes}")

    def unreadable(self, error: HistoryError) -> None:
        """Warn of a stored state that cannot be read."""
        self.warn(f"the view starts over with estimated counts, as {error}")

    def warn_unmanaged(self, error: WaneError) -> None:
        """Warn of a history that cannot be taken in; the request is sent unchanged, and the provider may refuse it."""
        self.warn(f"a request is sent as it is, with nothing evicted: {error}", "unmanaged")


Passing = list[tuple[int, MessageT]]
"""Messages that are not history, each with the number of messages of the history before it."""


def split_passing(
    messages: Sequence[MessageT], is_of_history: Callable[[MessageT], bool]
) -> tuple[list[MessageT], Passing[MessageT]]:
    """Separate the history from the messages of this request only.

    Args:
        messages: all messages of a request.
        is_of_history: whether a message will be part of the next request too.
    """
    history: list[MessageT] = []
    passing: Passing[MessageT] = []
    for message in messages:
        if is_of_history(message):
            history.append(message)
        else:
            passing.append((len(history), message))
    return history, passing


def set_overhead(conversation: Conversation[MessageT], text: str, passing: Iterable[MessageT]) -> None:
    """Tell a conversation what a request carries besides its history.

    Args:
        conversation: the conversation.
        text: the system prompt and the definitions of tools, as text to count.
        passing: messages of this request only.

    Raises:
        FormatError: for a message that cannot be part of a conversation.
    """
    parts = [part for message in passing for part in conversation.format.parts(message)]
    conversation.overhead = "".join([text, *(part.text for part in parts)])
    conversation.overhead += sum(part.extra_tokens for part in parts)


def insert_passing(
    request: Request[MessageT], passing: Passing[MessageT], conversation: Conversation[MessageT]
) -> list[MessageT]:
    """Insert messages into a request again: at its beginning, before the user's turn that followed, or at the end.

    They go into its view, whose messages have numbers: on the wire a reminder, and neighbours of one role, may have
    joined other messages.
    """
    if not passing:
        return list(request.messages)
    history, view = conversation.messages, list(request.view)
    whole = list(history)
    for ahead, message in reversed(passing):
        whole.insert(ahead, message)
        turns = (
            position
            for position, number in enumerate(request.numbers)
            if number is not None and number >= ahead and _is_turn(conversation, history[number])
        )
        view.insert(next(turns, len(request.view)) if ahead else 0, message)
    return conversation.host.wire(view, request.reminder, order=_order_of(conversation, whole))


def _is_turn(conversation: Conversation[MessageT], message: MessageT) -> bool:
    return all(part.kind is Kind.USER for part in conversation.format.parts(message))


def with_guidance(
    system: Sequence[MessageT],
    guidance: str,
    read: Callable[[MessageT], str],
    write: Callable[[MessageT | None, str], MessageT],
) -> list[MessageT]:
    """Return the messages of a system prompt with the guidance at the end of the last one, or as the only one.

    Args:
        system: the messages.
        guidance: the text; empty for none.
        read: returns a message's text.
        write: returns a message with another text, or a new one for None.
    """
    if not guidance:
        return list(system)
    if not system:
        return [write(None, guidance)]
    *others, last = system
    return [*others, write(last, "\n\n".join(filter(None, (read(last), guidance))))]


def _order_of(conversation: Conversation[MessageT], messages: Sequence[MessageT]) -> Order:
    format_ = conversation.format
    return order_of(messages, format_.speaker) if writes(format_) else Order.FREE
