"""A person's choices: what they keep stays, and what they let go leaves; all else goes by the other rules (R23)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_window import FIX, LOOK, episode
from wane import ConfigError, ContextWindow, Conversation, Item, Kind, Policy, UnknownEpisodeError
from wane.core import Level
from wane.journal import ChoiceRecord, PassRecord


def window(budget: int = 1_000_000) -> ContextWindow:
    """A window with two explorations, an act on the second, another exploration, and an answer."""
    window = ContextWindow(budget, replace(Policy(), min_room=0.0, guard=0.0))
    window.add(Item(Kind.USER, 50))
    for items in (episode("a", LOOK), episode("b", LOOK), episode("fix", FIX, ["b"]), episode("c", LOOK)):
        window.extend(items)
    window.add(Item(Kind.TEXT, 20))
    return window


def number(window: ContextWindow, name: str) -> int:
    return next(episode.number for episode in window.episodes if episode.name == name)


def in_view(window: ContextWindow) -> dict[str | None, int]:
    return {episode.name: episode.tokens for episode in window.episodes}


def test_what_a_person_keeps_no_pass_takes_even_if_the_budget_cannot_be_met() -> None:
    given = window()
    whole = in_view(given)["a"]
    given.choose(number(given, "a"), "keep")
    given = ContextWindow.restore(given.export())
    given.budget = 500
    report = given.fit()
    assert in_view(given)["a"] == whole
    assert {step.episode for step in report.trace if step.removed} >= {"b", "fix", "c"}
    assert not report.satisfied
    assert report.pinned is not None
    assert report.pinned.kept == given.accounting.scale(whole)
    assert "kept by you" in report.pinned.explain()
    given.choose(number(given, "a"), "")
    assert given.fit().satisfied


def test_unfinished_work_that_a_person_keeps_is_not_stripped_in_overflow() -> None:
    given = ContextWindow(500, replace(Policy(), min_room=0.0, guard=0.0))
    given.extend([Item(Kind.USER, 50), *episode("a", LOOK)[:-2], Item(Kind.TEXT, 20)])
    given.choose(number(given, "a"), "keep")
    assert not [step for step in given.fit().trace if step.removed]
    given.choose(number(given, "a"), "")
    assert [step.level for step in given.fit().trace if step.removed] == [Level.OVERFLOW]


def test_what_a_kept_act_needs_is_stripped_in_overflow_and_counted_as_needed() -> None:
    given = window()
    given.choose(number(given, "fix"), "keep")
    before = in_view(given)["b"]
    assert given.pinned.needed == given.accounting.scale(before)
    given.budget = 300
    report = given.fit()
    assert 0 < in_view(given)["b"] < before, "its end stays"
    assert report.pinned is not None
    assert report.pinned.total == report.tokens_after


def test_what_a_person_lets_go_leaves_whole_although_no_pass_is_due_and_nothing_else_does() -> None:
    given = window()
    before = given.visible
    given.choose(number(given, "a"), "drop")
    given = ContextWindow.restore(given.export())
    report = given.fit()
    assert report.ran
    removed = {index for step in report.trace for index in step.removed}
    assert {step.episode for step in report.trace} == {"a"}
    assert removed < set(given.members("a")[0])
    assert given.visible == [index for index in before if index not in removed]
    assert [episode.name for episode in given.described] == ["a"], "what it learned stays"
    assert not given.fit().ran


def test_what_an_act_needs_waits_and_so_does_what_has_not_ended() -> None:
    given = window()
    given.choose(number(given, "b"), "drop")
    assert not given.fit().ran
    given.choose(number(given, "fix"), "drop")
    assert [step.episode for step in given.fit().trace if step.level is Level.REMOVE] == ["fix", "b"]
    given.extend(episode("d", LOOK)[:-2])
    given.choose(number(given, "d"), "drop")
    assert not given.fit().ran
    given.extend(episode("d", LOOK)[-2:])
    assert not given.fit().ran, "the model has not seen its end"
    given.add(Item(Kind.TEXT, 20))
    assert {step.episode for step in given.fit().trace} == {"d"}


def test_choices_that_cannot_be_made_are_refused() -> None:
    given = window()
    given.choose(number(given, "a"), "drop")
    gone = number(given, "a")
    given.fit()
    with pytest.raises(UnknownEpisodeError, match="is not in view"):
        given.choose(gone, "keep")
    with pytest.raises(ConfigError, match="must be 'keep', 'drop' or empty"):
        given.choose(number(given, "c"), "hold")  # type: ignore[arg-type]
    conversation = Conversation(strategy="truncate")
    conversation.append({"role": "user", "content": "hi"})
    conversation.append({"role": "assistant", "content": "hello"})
    with pytest.raises(ConfigError, match="does not evict by episode"):
        conversation.choose(0, "keep")


def _call(call_id: str, name: str, arguments: str) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def test_a_choice_is_a_record_that_a_resumed_session_and_a_branch_repeat() -> None:
    first = Conversation(budget="80k")
    first.append({"role": "user", "content": "look"})
    first.request()
    first.append(_call("1", "delimiter", '{"action": "start", "type": "expl", "name": "a"}'))
    first.request()
    first.append(_call("2", "read", "{}"))
    first.append({"role": "tool", "tool_call_id": "2", "content": "word " * 3_000})
    first.request()
    first.append(_call("3", "delimiter", '{"action": "end", "description": "it says word"}'))
    first.request()
    first.append({"role": "assistant", "content": "Done."})
    (chosen,) = [episode.number for episode in first.episodes if episode.name == "a"]
    first.choose(chosen, "drop")
    resumed = Conversation(budget="80k")
    resumed.log.follow(first.log.records())
    branch = first.branch()
    for conversation in (first, resumed, branch):
        conversation.append({"role": "user", "content": "and now?"})
        assert "word word" not in str(conversation.request().messages)
        assert "it says word" in str(conversation.request().messages)
        kinds = [type(record) for record in conversation.log.records()]
        assert kinds.index(ChoiceRecord) < kinds.index(PassRecord)
    again = Conversation(budget="80k")
    again.log.follow(first.log.records())
    assert again.window.visible == first.window.visible
