"""The engine by itself, where a door drives it otherwise than a conversation does."""

from __future__ import annotations

import pytest

from wane import ConfigError, EpisodeType, Item, Kind
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.core import Mark, chars
from wane.core.room import MIN_ROOM
from wane.formats.message_format import Part
from wane.strategies.strategy import Fitted

BUDGET = 1_000


def add_answers(engine: Engine, *tokens: int) -> None:
    """Answers of the model, with so many tokens each by our own count."""
    for count in tokens:
        engine.add(Item(Kind.TEXT, count, message=engine.item_count), Part(Kind.TEXT, "x" * 4 * count))


def count_view(engine: Engine) -> int:
    """Tokens of what the next request shows, by our own count."""
    assert isinstance(engine.fit(), Fitted)
    return engine.history - engine.evicted


@pytest.mark.parametrize(("partial", "most"), [(False, BUDGET / 0.6), (True, BUDGET)])
def test_of_reports_that_may_be_partial_our_own_count_holds_too(partial: bool, most: float) -> None:
    engine = Engine(ContextSettings(BUDGET, strategy="truncate", remind_at=None), partial_reports=partial)
    add_answers(engine, *[100] * 9)
    assert count_view(engine) == 900
    assert engine.observe(540)
    add_answers(engine, *[100] * 7)
    assert engine.tokens == 960
    assert count_view(engine) == (300 if partial else 1_600)
    assert count_view(engine) <= most


def test_reports_that_are_higher_than_our_own_count_are_believed_in_any_case() -> None:
    for partial in (False, True):
        engine = Engine(ContextSettings(BUDGET, strategy="truncate", remind_at=None), partial_reports=partial)
        add_answers(engine, *[100] * 6)
        assert count_view(engine) == 600
        assert engine.observe(900)
        add_answers(engine, 100)
        count_view(engine)
        assert engine.tokens <= BUDGET


def test_a_request_that_evicts_nothing_builds_no_view() -> None:
    """A history of n messages has n/2 requests, so building each view would take n² steps."""
    engine = Engine(ContextSettings(BUDGET, strategy="cwl", remind_at=None))
    add_answers(engine, 100)
    first = engine.fit()
    add_answers(engine, 100)
    assert isinstance(first, Fitted)
    assert engine.hold().view is engine.view is first.view
    assert engine.view == [0, 1]


def test_a_view_that_is_made_ready_twice_ahead_of_one_request_asks_once() -> None:
    engine = Engine(ContextSettings(BUDGET, strategy="cwl", remind_at=0.2))
    assert engine.remind() is None
    add_answers(engine, 300)
    engine.fit()
    engine.fit()
    first = engine.remind()
    assert first is not None
    assert engine.remind() == first
    add_answers(engine, 1)
    assert engine.remind() is None


def test_a_reminder_counts_as_the_provider_counts() -> None:
    def is_reminded(reported: int, more: int) -> bool:
        engine = Engine(ContextSettings(1_000, strategy="cwl", remind_at=0.2))
        add_answers(engine, 100)
        engine.fit()
        engine.remind()
        assert engine.observe(reported)
        add_answers(engine, more)
        engine.fit()
        reminder = engine.remind()
        assert (engine.added_by(reminder) > 0) == (reminder is not None)
        assert engine.tokens + engine.added_by(reminder) <= 1_000
        return reminder is not None

    # The reminder has some 50 tokens by our own count, and 150 if the provider counts three times as many.
    assert is_reminded(100, 800)
    assert is_reminded(300, 150)
    assert not is_reminded(300, 190)


@pytest.mark.full
def test_a_strategy_that_cannot_be_resumed_is_for_replays() -> None:
    pytest.importorskip("langchain")
    with pytest.raises(ConfigError, match="'langchain-trim' can only be replayed"):
        Engine(ContextSettings(BUDGET, strategy="langchain-trim", remind_at=None))


def exploring(reads: int) -> list[tuple[Item, Part]]:
    """Reads of 1,000 tokens each, which an annotator takes for explorations."""
    taken = [(Item(Kind.USER, 5, message=0), Part(Kind.USER, "Look."))]
    for number in range(reads):
        call = Part(Kind.CALL, call_id=f"c{number}", tool="read", arguments=f'{{"path": "{number}.py"}}')
        result = Part(Kind.RESULT, "x" * 4_000, f"c{number}")
        taken += [(part.item(chars, 2 * number + place), part) for place, part in enumerate((call, result), start=1)]
    return taken


@pytest.mark.parametrize("budget", [10_000, 80_000])
def test_the_inferred_episodes_that_are_told_of_are_those_that_fold(budget: int) -> None:
    engine = Engine(ContextSettings(budget, annotate="infer", strategy="fold", remind_at=None))
    for item, part in exploring(20):
        engine.add(item, part)
    *ended, last = engine.episodes
    assert len(ended) >= 2
    # Without a text, the last call of an episode stays with its result.
    kept = [index for episode in ended for index in (episode.last - 1, episode.last)]
    assert engine.fit().view == [0, *kept, *range(last.spans[0][0], engine.item_count)]


def test_recorded_episodes_fold_and_no_others() -> None:
    engine = Engine(ContextSettings(annotate="infer", strategy="fold", remind_at=None))
    marks = {
        3: (Mark("start", "look", EpisodeType.EXPL),),
        9: (Mark("end", "look", EpisodeType.EXPL, description="seen"),),
    }
    for item, part in exploring(20):
        engine.add(item, part, marks.get(engine.item_count, ()))
    assert [episode.name for episode in engine.episodes if not episode.implicit] == ["look"]
    assert engine.fit().view == [0, 1, 2, 7, 8, *range(9, engine.item_count)]


@pytest.mark.parametrize(("strategy", "user"), [("cwl", 600), ("truncate", 0)])
def test_only_strategies_that_keep_the_users_turns_count_them_as_fixed(strategy: str, user: int) -> None:
    engine = Engine(ContextSettings(BUDGET, overhead=100, strategy=strategy, remind_at=None))
    engine.add(Item(Kind.SYSTEM, 200), Part(Kind.SYSTEM, "s"))
    engine.add(Item(Kind.USER, 300), Part(Kind.USER, "u"))
    engine.fit()
    engine.observe(1_200)
    room = engine.room
    assert room is not None
    assert (room.system, room.user, room.min_room) == (600, user, MIN_ROOM if strategy == "cwl" else 0.0)
