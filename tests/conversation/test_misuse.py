"""Misuse of a conversation: it is refused, and changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import wane

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


def test_a_request_while_a_call_waits_is_refused() -> None:
    conversation = wane.Conversation()
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    (call,) = conversation.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
    with pytest.raises(wane.HistoryError, match=r"calls without a result: read \(c1\)\. Append `call.result"):
        conversation.request()
    conversation.append(call.result("x"))
    assert len(conversation.request().messages) == 3


def test_a_framework_may_ask_while_a_call_waits() -> None:
    """Its own rules decide what it sends."""
    conversation = wane.Conversation()
    conversation.host.ingest([{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [CALL]}])
    assert len(conversation.request().messages) == 2


@pytest.mark.parametrize("budget", [1, 80, 999, "80"])
def test_a_budget_that_lacks_its_unit_is_refused(budget: Any) -> None:
    with pytest.raises(wane.ConfigError, match="has no unit; did you mean"):
        wane.Conversation(budget=budget)
    conversation = wane.Conversation()
    with pytest.raises(wane.ConfigError, match="has no unit; did you mean"):
        conversation.change(budget=budget)
    assert conversation.settings.budget == 80_000
    assert wane.Conversation(budget="0.08k").settings.budget == 80


@pytest.mark.parametrize("number", ["80k", True, float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_refused_by_name(number: Any) -> None:
    conversation = wane.Conversation()
    turn = {"role": "user", "content": "Go."}
    with pytest.raises(wane.ConfigError, match=r"input_tokens is .*; it must be a number"):
        conversation.append(turn, input_tokens=number)
    with pytest.raises(wane.ConfigError, match=r"at is .*; it must be a number"):
        conversation.append(turn, at=number)
    assert not conversation.length
    conversation.append(turn)
    with pytest.raises(wane.ConfigError, match=r"at is .*; it must be a number"):
        conversation.request(at=number)
    conversation.request()
    with pytest.raises(wane.ConfigError, match=r"input_tokens is .*; it must be a number"):
        conversation.observe(number)


@pytest.mark.parametrize(("pattern", "problem"), [("", "is empty"), (7, "is 7; it must be text")])
def test_a_search_for_nothing_or_for_no_text_is_refused(pattern: Any, problem: str) -> None:
    with pytest.raises(wane.ConfigError, match=f"the pattern of a search {problem}"):
        wane.Conversation().search(pattern)


@pytest.mark.parametrize("offset", [-1, "2", None])
def test_a_search_from_nowhere_is_refused(offset: Any) -> None:
    with pytest.raises(wane.ConfigError, match=f"the offset of a search is {offset!r}; it must be a whole number"):
        wane.Conversation().search("Go", offset)


@pytest.mark.full
def test_threads_share_a_conversation() -> None:
    """Each call is whole: nothing is lost or torn, and each request is within the budget."""
    conversation = wane.Conversation(budget="4k", remind_at=None)

    def work(thread: int) -> list[int]:
        sizes = []
        for turn in range(40):
            conversation.append({"role": "user", "content": f"{thread}.{turn}"})
            sizes.append(conversation.request().tokens)
            conversation.append({"role": "assistant", "content": f"{thread}.{turn} " + "x" * 400})
            assert conversation.search(f"{thread}.{turn}")
            assert conversation.view
        return sizes

    with ThreadPoolExecutor(8) as pool:
        sizes = [size for each in pool.map(work, range(8)) for size in each]
    assert conversation.length == 8 * 40 * 2
    assert len({message["content"] for message in conversation.messages}) == conversation.length
    assert max(sizes) <= 4_000 + 8 * 40 * 2  # what the user said stays
