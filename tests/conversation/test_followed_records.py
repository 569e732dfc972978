"""Whoever follows a conversation's records has its view, whatever happened to it before: restores, forks, changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import (
    DIALECTS,
    Dialect,
    Log,
    Session,
    answer_message,
    histories,
    is_answer,
    live,
    result,
    standing,
    turns,
    user,
)
from tests.journal.support import begin
from tests.marks import cross_quick
from tests.strategies import policies, times
from wane import Policy
from wane.conversation import Conversation
from wane.conversation.events import ThrashingBegan
from wane.core import chars, exact_budget
from wane.formats import get_format
from wane.journal import Record
from wane.journal.lines import read_lines, write_lines
from wane.lab.readers import read_session
from wane.rebuilding import rebuild
from wane.strategies.registry import STRATEGY_NAMES


def as_stored(records: Sequence[Record]) -> list[Record]:
    """The records as a journal gives them back."""
    return read_lines(write_lines(records, 0), 0, first=2, name="the journal")


def follow_in(lived: Conversation[Any], revived: Conversation[Any]) -> Conversation[Any]:
    """A new conversation that has followed the records of another one."""
    revived.log.follow(as_stored(lived.log.records()))
    return revived


def restore_in(lived: Conversation[Any], revived: Conversation[Any], messages: Sequence[Any]) -> Conversation[Any]:
    """A new conversation that has another one's state."""
    assert revived.restore(json.loads(json.dumps(lived.state())), messages)
    return revived


def go_through(conversation: Conversation[Any], messages: Sequence[Any], known: int) -> None:
    """Ingest a history step by step; a strategy that asks for a summary gets one."""
    for stop in range(known, len(messages) + 1):
        if stop == len(messages) or is_answer(conversation.format.name, messages[stop]):
            conversation.host.ingest(messages[:stop])
            if conversation.request().for_summary:
                conversation.summarised(f"What happened up to {stop}.")


def view_of(conversation: Conversation[Any]) -> dict[str, Any]:
    """What the next request shows, byte by byte, and all that decides about the ones to come."""
    request = conversation.request()
    return {
        **standing(conversation),
        "request": request.messages if conversation.format.name == "pydantic_ai" else json.dumps(request.messages),
        "reminder": request.reminder,
        "ended": conversation.ended,
        "thrashing": conversation.thrashing,
    }


moves = st.lists(st.sampled_from(("restore", "fork", "follow", "budget")), min_size=1, max_size=5)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("strategy", "dialect"), cross_quick(STRATEGY_NAMES, DIALECTS))
@times(0.4)
@given(
    session=histories(tasks=True),
    budgets=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    policy=policies(),
    annotate=st.sampled_from(("model", "infer")),
    moves=moves,
    data=st.data(),
)
def test_records_give_the_view_after_any_number_of_restores_and_forks(
    strategy: str,
    dialect: Dialect,
    session: Session,
    budgets: tuple[int, int],
    policy: Policy,
    annotate: Any,
    moves: list[str],
    data: st.DataObject,
) -> None:
    budget = budgets[0]

    def make() -> Conversation[Any]:
        settings: Any = {"policy": policy, "annotate": annotate, "tasks": True, "strategy": strategy}
        return Conversation(dialect.name, budget=exact_budget(budget), **settings)

    messages, lived, known = dialect.write(session), make(), 0
    for number, move in enumerate(moves):
        cut = data.draw(st.integers(known, len(messages)))
        go_through(lived, messages[:cut], known)
        known = cut
        if move == "restore":
            lived = restore_in(lived, make(), messages)
        elif move == "follow":
            lived = follow_in(lived, make())
        elif move == "budget":
            budget = budgets[1]
            lived.change(budget=exact_budget(budget))
            continue  # no record tells of the request before it, to which no answer has come
        else:
            known = data.draw(st.integers(0, known))
            messages = [*messages[:known], *dialect.write([user(f"Instead {number}."), answer_message("y" * 99)])]
        revived = follow_in(lived, make())
        assert revived.host.ingest(messages[:known]).dropped == lived.host.ingest(messages[:known]).dropped
        assert view_of(revived) == view_of(lived)
    go_through(lived, messages, known)
    revived = follow_in(lived, make())
    more = dialect.write([user("And now?"), answer_message("z" * 99), user("And then?")])
    messages = [*messages, *more]
    for conversation in (lived, revived):
        go_through(conversation, messages, len(messages) - 3)
    assert view_of(revived) == view_of(lived)


LONG = turns(12)


def test_what_a_strategy_took_before_a_restore_stays_out_when_it_comes_back() -> None:
    lived = Conversation(budget="0.6k")
    live(lived, LONG)
    lived = restore_in(lived, Conversation(budget="0.6k"), LONG)
    view = lived.view
    assert len(view) < len(LONG)
    lived.change(strategy="truncate")
    assert lived.view == LONG
    lived.change(strategy="cwl")
    assert lived.view == follow_in(lived, Conversation(budget="0.6k")).view == view


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_restored_session_is_rebuilt_under_any_strategy_that_it_had(strategy: str) -> None:
    lived = Conversation(budget="0.6k")
    live(lived, LONG)
    lived = restore_in(lived, Conversation(budget="0.6k"), LONG)
    live(lived, [*LONG, *LONG[:4]], known=len(LONG))
    lived.change(strategy=strategy)
    assert rebuild(lived.log.records(), get_format("openai")).messages == lived.messages
    lived.change(strategy="cwl")
    assert rebuild(lived.log.records(), get_format("openai")).engine.view == lived.window.visible


def test_a_persons_words_stay_theirs_in_the_records() -> None:
    words = "No, never touch the production database."
    history = [user("Go."), answer_message(None, ("c1", "approve", {})), result("c1", words), *turns(8)]

    def make() -> Conversation[Any]:
        return Conversation(budget="0.5k")

    lived = make()
    lived.host.persons.add("c1")
    live(lived, history[:3])
    for revived in (follow_in(lived, make()), follow_in(restore_in(lived, make(), history), make())):
        live(revived, history, known=3)
        assert revived.evicted
        assert result("c1", words) in revived.view
        assert result("c1", words) in follow_in(revived, make()).view


def test_a_turn_that_the_provider_wants_back_goes_on() -> None:
    def make() -> Conversation[Any]:
        return Conversation("anthropic")

    lived = make()
    lived.append(user("Go."))
    lived.request()
    lived.append({"role": "assistant", "content": [{"type": "text", "text": "Wait."}], "stop_reason": "pause_turn"})
    assert not lived.ended
    assert not follow_in(lived, make()).ended
    again = restore_in(lived, make(), lived.messages)
    assert not again.ended
    assert not follow_in(again, make()).ended


def test_an_answer_without_items_ends_the_turn() -> None:
    lived = Conversation("openai_responses")
    lived.append({"role": "user", "content": "Go."})
    lived.request()
    lived.append([])
    assert lived.ended
    assert follow_in(lived, Conversation("openai_responses")).ended
    assert restore_in(lived, Conversation("openai_responses"), lived.messages).ended


def test_a_window_that_thrashes_goes_on_thrashing_and_nobody_is_told_again() -> None:
    def make() -> Conversation[Any]:
        return Conversation(budget=1_000)

    history = [user("Go.")]
    for number in range(20):
        read = ("c" + str(number), "read", {"path": "a.py"})
        history += [answer_message(None, read), result(read[0], "x" * 3_000)]
    lived = make()
    live(lived, history)
    assert lived.thrashing is not None
    again = restore_in(lived, make(), history)
    for revived in (again, follow_in(lived, make()), follow_in(again, make())):
        assert revived.thrashing == lived.thrashing
        told = Log()
        revived.listeners.append(told)
        revived.append(user("And?"))
        revived.request()
        assert not told.of(ThrashingBegan)


def test_what_had_left_before_a_restore_is_an_eviction_of_its_journal(tmp_path: Path) -> None:
    for strategy in ("cwl", "truncate"):
        lived = Conversation(budget="0.6k", strategy=strategy)
        live(lived, LONG)
        again = restore_in(lived, Conversation(budget="0.6k", strategy=strategy), LONG)
        (session,) = read_session(begin(tmp_path, again.log.records()))
        (eviction,) = session.evictions
        shown = set(map(id, lived.view))
        assert eviction.removed == tuple(number for number, message in enumerate(LONG) if id(message) not in shown)
        assert (eviction.tokens_before, eviction.tokens_after) == (sum(map(tokens_of, LONG)), lived.tokens)


def tokens_of(message: dict[str, Any]) -> int:
    return chars(message["content"])


def test_whoever_follows_the_records_knows_whether_the_cache_has_expired() -> None:
    """A pass that is due for that alone runs after a restart as it would have run before."""

    def begin_cold() -> Conversation[Any]:
        return Conversation(budget=exact_budget(1_000), annotate="infer", policy=Policy(low_water=0.3))

    lived, revived = begin_cold(), begin_cold()
    for turn in range(4):
        lived.append(user(f"Question {turn}. "), at=turn * 10.0)
        lived.request()
        lived.append(answer_message("Well. " * 90), at=turn * 10.0 + 5)
    lived.append(user("Question 4."), at=9_999.0)
    follow_in(lived, revived)
    evicted = lived.evicted
    sent = lived.request().messages
    assert lived.evicted > evicted
    assert revived.request().messages == sent
