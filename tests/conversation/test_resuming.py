"""A conversation that goes on elsewhere goes on as if nothing had happened, by whichever door it comes there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import DIALECTS, Dialect, Log, Session, Told, histories, is_answer, live, standing
from tests.marks import cross_quick
from tests.strategies import policies, times
from wane import Policy
from wane.conversation import Conversation
from wane.conversation.alignment import Change
from wane.core import exact_budget
from wane.strategies.registry import STRATEGY_NAMES

Door: TypeAlias = Callable[[Conversation[Any], Conversation[Any], list[Any]], None]
"""Brings the second conversation to where the first is, with the messages of both and more."""


def by_state(lived: Conversation[Any], revived: Conversation[Any], messages: list[Any]) -> None:
    """Beside a history that the host keeps, through whatever keeps JSON."""
    assert revived.restore(json.loads(json.dumps(lived.state())), messages)
    assert revived.length == lived.length


def by_records(lived: Conversation[Any], revived: Conversation[Any], messages: list[Any]) -> None:
    """From a journal, which holds the messages; nobody is told."""
    log = Log()
    revived.listeners.append(log)
    revived.log.follow(lived.log.records())
    assert not log
    # A framework answers the own calls that the records end with.
    assert revived.host.ingest(lived.messages) == Change(kept=lived.length, dropped=0, added=0)


every_door = pytest.mark.parametrize("door", [by_state, by_records])


@pytest.mark.quick(3)
@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@every_door
@times(0.6)
@given(
    session=histories(tasks=True),
    budget=st.integers(1, 400),
    policy=policies(),
    annotate=st.sampled_from(("model", "infer")),
    tasks=st.booleans(),
    usages=st.lists(st.sampled_from((0, 0, 50, 200, 700)), max_size=4),
    data=st.data(),
)
def test_it_goes_on_as_if_nothing_had_happened(
    dialect: Dialect,
    door: Door,
    session: Session,
    budget: int,
    policy: Policy,
    annotate: Any,
    tasks: bool,
    usages: list[int],
    data: st.DataObject,
) -> None:
    messages = dialect.write(session)
    told = Told(messages, usages)
    cut, asked = data.draw(st.integers(0, len(messages))), data.draw(st.sampled_from(("never", "before", "at last")))

    def make() -> Conversation[Any]:
        settings: Any = {"policy": policy, "annotate": annotate, "tasks": tasks}
        return Conversation(dialect.name, budget=exact_budget(budget), adapter=told, **settings)

    lived, revived = make(), make()
    lived.overhead = 7
    up_to(lived, messages[:cut], asked)
    door(lived, revived, messages)
    revived.overhead = 7
    for conversation in (lived, revived):
        live(conversation, messages, known=cut)
    assert standing(revived) == standing(lived)
    if door is by_state:
        assert revived.state() == lived.state()
    else:
        # A fork behind it keeps what had left the view, too.
        for conversation in (lived, revived):
            conversation.host.ingest(messages[:cut])
        assert standing(revived) == standing(lived)


def up_to(conversation: Conversation[Any], messages: list[Any], asked: str) -> None:
    """Ingest a history at once, or step by step with a request before each answer, and maybe one at last."""
    for stop, message in enumerate(messages):
        if asked != "never" and is_answer(conversation.format.name, message):
            conversation.host.ingest(messages[:stop])
            conversation.request()
    conversation.host.ingest(messages)
    if asked == "at last":
        conversation.request()


@pytest.mark.parametrize(("strategy", "door"), cross_quick(STRATEGY_NAMES, (by_state, by_records)))
@times(0.4)
@given(session=histories(), budget=st.integers(1, 400), data=st.data())
def test_so_it_does_under_any_strategy(
    strategy: str, door: Door, session: Session, budget: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(session)))
    lived, revived = (Conversation(budget=exact_budget(budget), strategy=strategy) for _ in range(2))
    for stop in range(cut + 1):
        if stop == cut or is_answer("openai", session[stop]):
            lived.host.ingest(session[:stop])
            if lived.request().for_summary:
                lived.summarised(f"What happened up to {stop}.")
    door(lived, revived, session)
    for conversation in (lived, revived):
        conversation.host.ingest(session)
        if conversation.request().for_summary:
            conversation.summarised("In short.")
    assert standing(revived) == standing(lived)


@every_door
@times(0.7)
@given(session=histories(), budget=st.integers(10, 600), share=st.sampled_from((0.001, 0.2)), data=st.data())
def test_its_model_is_reminded_as_if_nothing_had_happened(
    door: Door, session: Session, budget: int, share: float, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(session)))
    lived, revived = (Conversation(budget=exact_budget(budget), remind_at=share) for _ in range(2))
    up_to(lived, session[:cut], "before")
    door(lived, revived, session)
    assert reminders(revived, session, cut) == reminders(lived, session, cut)


def reminders(conversation: Conversation[Any], session: Session, known: int) -> list[str | None]:
    """What each request that is yet to come carries at its tail, and the one that comes after all."""
    said = []
    for stop in range(known, len(session) + 1):
        if stop == len(session) or is_answer("openai", session[stop]):
            conversation.host.ingest(session[:stop])
            said.append(conversation.request().reminder)
    return said
