"""Going on elsewhere: the state and the history together are the conversation, and the state stays small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import (
    Dialect,
    Log,
    Session,
    every_dialect,
    fresh,
    histories,
    is_answer,
    live,
    standing,
    turns,
)
from tests.strategies import times
from wane import Policy
from wane.conversation import Adapter, Call, Conversation
from wane.core import exact_budget
from wane.core.errors import HistoryError
from wane.strategies.registry import STRATEGY_NAMES

USAGES = st.lists(st.sampled_from((0, 0, 50, 200, 700)), max_size=4)


def stored_state(conversation: Conversation[Any]) -> Any:
    """The state as it comes back from wherever it was kept."""
    return json.loads(json.dumps(conversation.state()))


@pytest.mark.quick(2)
@every_dialect
@times(0.3)
@given(session=histories(), other=histories(), budget=st.integers(1, 400))
def test_a_state_of_another_history_is_refused_and_changes_nothing(
    dialect: Dialect, session: Session, other: Session, budget: int
) -> None:
    messages, others = dialect.write(session), dialect.write(other)
    lived, revived = (
        Conversation(dialect.name, budget=exact_budget(budget)),
        Conversation(dialect.name, budget=exact_budget(budget)),
    )
    live(lived, messages)
    revived.host.ingest(others)
    before = standing(revived)
    assert revived.restore(stored_state(lived), messages[:-1]) == (not messages)
    said = [lived.format.parts(message) for message in messages]
    same = [lived.format.parts(message) for message in others[: len(messages)]] == said
    if not same:
        assert not revived.restore(stored_state(lived), others)
        assert standing(revived) == (
            before if messages else standing(Conversation(dialect.name, budget=exact_budget(budget)))
        )


LONG = turns(12)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"format": "anthropic"},
        lambda state: state | {"strategy": "paper"},
        lambda state: state | {"annotate": "infer"},
        lambda state: state | {"tasks": True},
        lambda state: state | {"digest": "00"},
    ],
)
def test_a_state_of_another_history_or_strategy_changes_nothing(change: Any) -> None:
    lived, revived = Conversation(budget="0.5k"), Conversation(budget="0.5k")
    live(lived, LONG)
    assert not revived.restore(change(stored_state(lived)), LONG)
    assert revived.length == 0
    assert revived.restore(stored_state(lived), LONG)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"version": 99},
        lambda state: state | {"messages": "x"},
        lambda state: {key: value for key, value in state.items() if key != "engine"},
        lambda state: state | {"engine": None},
        lambda state: state | {"engine": state["engine"] | {"window": {}}},
        lambda state: state | {"verdicts": []},
        lambda _: {},
    ],
)
def test_a_state_that_cannot_be_read_is_refused(change: Any) -> None:
    lived, revived = Conversation(budget="0.5k"), Conversation(budget="0.5k")
    live(lived, LONG)
    with pytest.raises(HistoryError, match="the state cannot be read"):
        revived.restore(change(stored_state(lived)), LONG)
    assert revived.length == 0
    assert revived.restore(stored_state(lived), LONG)


def test_the_settings_of_now_count() -> None:
    lived, revived = Conversation(budget="0.5k"), Conversation(budget="2k", policy=Policy.paper())
    live(lived, LONG)
    assert revived.restore(stored_state(lived), LONG)
    assert (revived.settings.budget, revived.settings.policy) == (2_000, Policy.paper())
    assert revived.window.visible == lived.window.visible


def test_a_fork_behind_a_restored_state_is_passed_through_anew() -> None:
    lived, revived = Conversation(budget="0.5k"), Conversation(budget="0.5k")
    live(lived, LONG)
    revived.restore(stored_state(lived), LONG)
    branch = [*LONG[:16], {"role": "user", "content": "Instead."}]
    assert revived.host.ingest(branch).forked
    assert lived.host.ingest(branch).forked
    assert standing(revived) == standing(lived)


def test_what_was_evicted_before_a_state_stays_out_of_a_fork_behind_it() -> None:
    lived, revived = Conversation(budget="0.5k"), Conversation(budget="0.5k")
    live(lived, LONG)
    assert len(lived.view) < len(LONG)
    revived.restore(stored_state(lived), LONG)
    more: Session = [{"role": role, "content": f"{n}"} for n in range(3) for role in ("user", "assistant")]
    for conversation in (lived, revived):
        live(conversation, [*LONG, *more], known=len(LONG))
        conversation.change(budget=10_000)
        assert conversation.host.ingest([*LONG, *more[:2], {"role": "user", "content": "Instead."}]).forked
    assert standing(revived) == standing(lived)
    assert len(revived.view) < len(LONG)


def test_what_is_reported_of_a_request_that_a_state_was_taken_behind_counts() -> None:
    lived, revived = Conversation(), Conversation()
    lived.append(LONG[0])
    lived.request()
    revived.restore(stored_state(lived), LONG[:1])
    for conversation in (lived, revived):
        conversation.append(LONG[1], input_tokens=700)
    assert revived.tokens == lived.tokens > 700


def test_what_every_request_carries_travels_with_the_state() -> None:
    lived, revived = Conversation(), Conversation()
    lived.overhead = 300
    lived.append(LONG[0])
    assert revived.restore(stored_state(lived), LONG[:1])
    assert revived.overhead == lived.overhead == 300
    assert revived.tokens == lived.tokens > 300


def test_what_a_host_says_of_a_persons_results_travels_with_the_state() -> None:
    """R21: no message says so, and the host may have forgotten it."""
    function = {"name": "drop", "arguments": "{}"}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "d", "type": "function", "function": function}]}
    history = [{"role": "user", "content": "Go."}, call, {"role": "tool", "tool_call_id": "d", "content": "Never!"}]
    lived = Conversation(budget=exact_budget(300), annotate="infer")
    lived.host.persons.add("d")
    lived.host.ingest(history)
    revived = Conversation(budget=exact_budget(300), annotate="infer")
    assert revived.restore(stored_state(lived), fresh(history))
    for number in range(9):
        revived.append({"role": "assistant", "content": f"Answer {number}. " * 40})
        revived.append({"role": "user", "content": "On."})
    sent = revived.request().messages
    assert revived.evicted > 0
    assert sent[1:3] == history[1:]


class Ids(Adapter[dict[str, Any]]):
    def key(self, message: dict[str, Any]) -> str | None:
        return message.get("id")


def test_messages_are_the_same_by_their_ids_whatever_they_say() -> None:
    """A framework may cut what it stores; what a message is called stays."""
    history = [message | {"id": f"m{n}"} for n, message in enumerate(LONG)]
    lived = Conversation(budget="0.5k", adapter=Ids())
    live(lived, history)
    assert Conversation(budget="0.5k", adapter=Ids()).restore(stored_state(lived), fresh(history))
    assert not Conversation(budget="0.5k").restore(stored_state(lived), history)


def test_verdicts_that_wait_travel_with_the_state() -> None:
    lived = Conversation()
    lived.host.ingest([{"role": "user", "content": "Go."}])
    lived.request()
    start = Call("delimiter", {"action": "start", "name": "look", "type": "expl"}, "c1")
    again = Call("delimiter", {"action": "start", "name": "more", "type": "expl"})
    lived.host.foresee([start, again])
    revived = Conversation()
    assert revived.restore(stored_state(lived), lived.messages)
    assert revived.host.answer(start).startswith('Started exploration "look"')
    assert revived.host.answer(again).startswith('Error: episode "look" is still active')


def session_of(episodes: int, description: str = "it is a thing") -> Session:
    """Many settled episodes, with names of their own."""
    messages: Session = [{"role": "user", "content": "Go."}]
    for number in range(episodes):
        for call, arguments in (
            ("a", {"action": "start", "name": f"look-at-thing-{number}", "type": "expl"}),
            ("b", {"action": "end", "description": description}),
        ):
            function = {"name": "delimiter", "arguments": json.dumps(arguments)}
            made = {"id": f"{call}{number}", "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": "x" * 200, "tool_calls": [made]},
                {"role": "tool", "tool_call_id": made["id"], "content": "y" * 200},
            ]
    return messages


@pytest.mark.quick(1)
@pytest.mark.parametrize("annotate", ["model", "infer"])
def test_the_state_is_bounded_by_the_view(annotate: Any) -> None:
    sizes = []
    for episodes in (60, 400):
        messages = session_of(episodes)
        conversation = Conversation(budget=2_000, annotate=annotate)
        conversation.host.ingest(messages)
        conversation.request()
        state = conversation.state()
        sizes.append(len(json.dumps(state)))
        assert Conversation(budget=2_000, annotate=annotate).restore(state, messages)
    assert sizes[1] < 1.2 * sizes[0]
    assert sizes[1] < 20_000


@pytest.mark.full
def test_so_is_a_state_with_many_notices() -> None:
    sizes = []
    for episodes in (60, 400):
        messages: Session = []
        for message in session_of(episodes):
            notice = {"role": "user", "content": "<system-reminder>Mind the gap.</system-reminder>"}
            messages += [notice, message] if message["role"] == "assistant" else [message]
        conversation = Conversation(budget=2_000)
        conversation.host.ingest(messages)
        conversation.request()
        state = conversation.state()
        sizes.append(len(json.dumps(state)))
        assert conversation.window.notices
        assert Conversation(budget=2_000).restore(state, messages)
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.quick(4)
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_so_is_the_state_under_any_strategy(strategy: str) -> None:
    sizes, views = [], []
    for episodes in (30, 90):
        messages = session_of(episodes)
        conversation = Conversation(budget=4_000, strategy=strategy)
        for message in messages:
            if is_answer("openai", message) and conversation.request().for_summary:
                conversation.summarised("In short.")
            conversation.append(message)
        state = stored_state(conversation)
        sizes.append(len(json.dumps(state)))
        views.append(len(json.dumps(conversation.view)))
        assert Conversation(budget=4_000, strategy=strategy).restore(state, messages)
    assert all(size < 0.6 * view for size, view in zip(sizes, views, strict=True))
    # Under these, every message stays in view, or at least a part of it.
    if strategy not in ("none", "fold", "mask", "clear-tools", "paper"):
        assert sizes[1] < 1.3 * sizes[0]


@pytest.mark.full
def test_descriptions_that_stay_in_view_do_not_make_the_state_larger_than_it() -> None:
    messages = session_of(150, "it is a thing, " * 20)
    conversation = Conversation(budget=20_000, policy=Policy.paper())
    live(conversation, messages)
    assert sum(episode.removed for episode in conversation.episodes) > 100
    state = stored_state(conversation)
    assert len(json.dumps(state)) < 0.5 * len(json.dumps(conversation.view))
    assert Conversation(budget=20_000, policy=Policy.paper()).restore(state, messages)


def test_names_and_places_of_old_episodes_come_back_from_the_history() -> None:
    messages = session_of(50)
    lived, revived = Conversation(budget=2_000), Conversation(budget=2_000)
    live(lived, messages)
    assert revived.restore(stored_state(lived), messages)
    assert revived.recall("look-at-thing-3") == lived.recall("look-at-thing-3")
    assert revived.search("thing-7") == lived.search("thing-7")
    taken = Call("delimiter", {"action": "start", "name": "look-at-thing-3", "type": "expl"}, "x")
    revived.host.foresee([taken])
    assert "was used before" in revived.host.answer(taken)


def test_restoring_tells_nobody() -> None:
    log = Log()
    lived = Conversation(budget="0.5k")
    live(lived, LONG)
    revived = Conversation(budget="0.5k", on_event=log)
    revived.restore(stored_state(lived), LONG)
    revived.request()
    assert log == []
