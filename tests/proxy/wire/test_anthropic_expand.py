"""What a client made of Anthropic rounds, expanded into the rounds again, whatever it did to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from itertools import groupby
from typing import Any

import pytest
from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.anthropic_replies import (
    WIRE,
    Block,
    Made,
    answer_rounds,
    call,
    make,
    own,
    play,
    replies,
    text,
    thinking,
)
from tests.strategies import times
from wane.proxy.wire.wire import AnsweredRound, Equipped, Message, Round, ViewMessage
from wane.testing.anthropic import Anthropic

THINKING = ("thinking", "redacted_thinking")


def rounds_of(*made: Made) -> list[Round]:
    return play(made)[1]


def flat(rounds: list[AnsweredRound]) -> list[Message]:
    return [each for one in rounds for each in (one.message, *one.results)]


def expand(content: list[Block] | str, *made: Made) -> list[Message]:
    return WIRE.expand({"role": "assistant", "content": content}, answer_rounds(rounds_of(*made)))


def contents(messages: list[Message]) -> list[list[Block]]:
    return [message["content"] for message in messages if message["role"] == "assistant"]


def check(history: list[Message], **body: Any) -> None:
    """Fail if the provider would refuse the history."""
    full = {"model": "claude", "messages": history, **body}
    provider = Anthropic()
    provider.check(provider.parse(json.dumps(full).encode(), full, {}, 0))


def around(message: Message, between: list[Message], calls: list[str]) -> list[Message]:
    """A history with these messages in place of the client's, as it goes into a request."""
    results = [{"type": "tool_result", "tool_use_id": one, "content": "r"} for one in calls]
    first: Message = {"role": "user", "content": "Go"}
    last: Message = {"role": "user", "content": [*results, text("And now?")]}
    history = [first, *between, last]
    view = [
        ViewMessage(first, 0, None, True),
        *map(ViewMessage, between),
        ViewMessage(last, len(history) - 1, None, True),
    ]
    body = Equipped({"messages": [first, message, last]})
    placed: list[Message] = WIRE.with_messages(body, view, history)["messages"]
    return placed


# What clients do

Edit = Callable[[st.DrawFn, list[Block]], list[Block]]


def _texts(content: list[Block], change: Callable[[str], str]) -> list[Block]:
    changed = [{**block, "text": change(block["text"])} if block["type"] == "text" else block for block in content]
    return [block for block in changed if block["type"] != "text" or block["text"].strip()]


def drop_thinking(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return [block for block in content if block["type"] not in THINKING]


def drop_some_thinking(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return [block for block in content if block["type"] not in THINKING or draw(st.booleans())]


def change_thinking(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return [{**block, "thinking": ""} if block["type"] == "thinking" else block for block in content]


def trim(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return _texts(content, str.strip)


def cut(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return _texts(content, lambda value: value[: draw(st.integers(1, 12))])


def merge(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return join_texts(content, draw(st.sampled_from(["", "\n", "\n\n"])))


def join_texts(content: list[Block], between: str) -> list[Block]:
    joined: list[Block] = []
    for is_text, group in groupby(content, lambda block: block["type"] == "text"):
        blocks = list(group)
        joined += [text(between.join(block["text"] for block in blocks))] if is_text else blocks
    return joined


def gather(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    """Into an order that other APIs have: reasoning, text, calls."""
    order = {"thinking": 0, "redacted_thinking": 0, "tool_use": 2}
    return sorted(content, key=lambda block: order.get(block["type"], 1))


def drop_text(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return [block for block in content if block["type"] != "text" or draw(st.booleans())]


def say_other(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return _texts(content, lambda value: draw(st.sampled_from([value, "[shortened]"])))


def change_calls(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    return [{**block, "input": {"other": True}} if block["type"] == "tool_use" else block for block in content]


def mark(draw: st.DrawFn, content: list[Block]) -> list[Block]:
    if not content or content[-1]["type"] in THINKING:
        return content
    return [*content[:-1], {**content[-1], "cache_control": {"type": "ephemeral"}}]


EDITS: list[Edit] = [
    drop_thinking,
    drop_some_thinking,
    change_thinking,
    trim,
    cut,
    merge,
    gather,
    drop_text,
    say_other,
    change_calls,
    mark,
]


@st.composite
def edited_content(draw: st.DrawFn, shown: list[Block]) -> list[Block]:
    content = deepcopy(shown)
    for edit in draw(st.lists(st.sampled_from(EDITS), max_size=3)):
        note(edit.__name__)
        content = edit(draw, content)
    return content


def words_of(content: list[Block]) -> list[Block]:
    """Neighbouring texts as one, without white space: a client may join texts, and the provider gets its own again."""
    joined = join_texts(content, "")
    return [text("".join(block["text"].split())) if block["type"] == "text" else block for block in joined]


def bare(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "cache_control"}


# Properties


@times(2)
@given(replies())
def test_what_the_client_was_shown_gives_the_rounds(made: list[Made]) -> None:
    rounds = answer_rounds(played := rounds_of(*made))
    result = WIRE.expand(WIRE.visible(played), rounds)
    assert result == flat(rounds)
    assert all(one is other for one, other in zip(result, flat(rounds), strict=True))


@times(2)
@given(replies())
def test_the_client_makes_of_a_reply_what_it_was_shown(made: list[Made]) -> None:
    whole, rounds = play(made, stream=False)
    assert WIRE.visible(rounds) == {"role": "assistant", "content": json.loads(whole)["content"]}


@times(6)
@given(st.data(), replies())
def test_whatever_the_client_does_the_history_is_one_that_the_provider_takes(
    data: st.DataObject, made: list[Made]
) -> None:
    rounds = answer_rounds(played := rounds_of(*made))
    content = data.draw(edited_content(WIRE.visible(played)["content"]))
    message: Message = {"role": "assistant", "content": content}
    result = WIRE.expand(message, rounds)
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    check(around(message, result, ids))
    # Each own call stays, and its result follows it at once.
    for one in rounds:
        for answer in one.results:
            place = next(number for number, each in enumerate(result) if each is answer)
            asked = [block["id"] for block in result[place - 1]["content"] if block.get("name") == "delimiter"]
            assert asked == [block["tool_use_id"] for block in answer["content"]]
    # The client's calls stand in the last assistant message, in their order.
    said = contents(result)
    theirs = [[block["id"] for block in each if block["type"] == "tool_use" and block["id"] in ids] for each in said]
    assert not any(theirs[:-1])
    assert (theirs[-1] if theirs else []) == ids


@times(6)
@given(st.data(), replies())
def test_the_clients_own_contents_count(data: st.DataObject, made: list[Made]) -> None:
    rounds = answer_rounds(played := rounds_of(*made))
    shown = WIRE.visible(played)["content"]
    content = data.draw(edited_content(shown))
    result = [
        block for each in contents(WIRE.expand({"role": "assistant", "content": content}, rounds)) for block in each
    ]
    originals = {block.get("signature") or block.get("data"): block for block in shown if block["type"] in THINKING}
    expected = [originals.get(block.get("signature") or block.get("data"), block) for block in content]
    thinks = any(block["type"] in THINKING for block in content)
    rest = [block for block in result if block.get("name") != "delimiter"]
    if not thinks:
        assert words_of(rest) == words_of(expected)
    # What thinking there is beyond the client's is of rounds of which it has nothing else, and none ends a message.
    known = [block for block in rest if block["type"] not in THINKING]
    assert words_of(known) == words_of([block for block in expected if block["type"] not in THINKING])
    assert all(
        each[-1]["type"] not in THINKING
        for each in contents(WIRE.expand({"role": "assistant", "content": content}, rounds))
    )


@times(6)
@given(st.data(), replies())
def test_expanding_what_was_expanded_changes_nothing(data: st.DataObject, made: list[Made]) -> None:
    rounds = answer_rounds(played := rounds_of(*made))
    content = data.draw(edited_content(WIRE.visible(played)["content"]))
    once = WIRE.expand({"role": "assistant", "content": content}, rounds)
    shown = [block for each in contents(once) for block in each if block.get("name") != "delimiter"]
    assert WIRE.expand({"role": "assistant", "content": shown}, rounds) == once


@given(st.data(), replies())
def test_nothing_is_changed_in_place(data: st.DataObject, made: list[Made]) -> None:
    rounds = answer_rounds(played := rounds_of(*made))
    message: Message = {"role": "assistant", "content": data.draw(edited_content(WIRE.visible(played)["content"]))}
    before = deepcopy((message, rounds))
    WIRE.expand(message, rounds)
    assert (message, rounds) == before


# Cases

FIRST = make(thinking("Hm", "s1"), text("Let me start."), own("o1"))
SILENT = make(thinking("Hm", "s1"), own("o1"))
LAST = make(thinking("So", "s2"), text("Now I read."), call("c1"), own("o2"))


def test_texts_that_a_client_joined_stand_in_their_rounds_again() -> None:
    both, begun, reads = text("Let me start.\n\nNow I read."), text("Let me start."), text("Now I read.")
    assert contents(expand([both, call("c1")], FIRST, LAST)) == [[begun, own("o1")], [reads, call("c1"), own("o2")]]
    start = thinking("Hm", "s1")
    assert contents(expand([start, both, call("c1")], FIRST, LAST))[0] == [start, begun, own("o1")]


def test_what_was_merged_into_one_text_is_not_looked_for_again() -> None:
    a, b = make(text("Alpha"), own("o1")), make(text("Beta"), own("o2"))
    again, other = make(text("Beta"), call("c1")), make(text("Gamma"), call("c1"))
    both, parted = text("Alpha\n\nBeta"), [[text("Alpha"), own("o1")], [text("Beta"), own("o2")]]
    assert contents(expand([both, text("Beta")], a, b, again)) == [*parted, [text("Beta")]]
    assert contents(expand([both, text("Gamma")], a, b, other)) == [*parted, [text("Gamma")]]
    assert contents(expand([text("Alp"), text("Beta")], a, again)) == [[text("Alp"), own("o1")], [text("Beta")]]


def test_a_text_that_was_cut_stands_in_its_round() -> None:
    assert contents(expand("Let me", FIRST, LAST)) == [[text("Let me"), own("o1")], [own("o2")]]


def test_text_as_a_string() -> None:
    assert contents(expand(" Now I read.", FIRST, LAST)) == [[own("o1")], [text(" Now I read."), own("o2")]]
    assert contents(expand("", FIRST, LAST)) == [[own("o1")], [own("o2")]]


def test_a_text_that_comes_twice_is_that_of_the_thinking_it_stands_by() -> None:
    again = make(thinking("So", "s2"), text("Let me start."), call("c1"))
    result = contents(expand([thinking("So", "s2"), text("Let me start."), call("c1")], FIRST, again))
    assert result == [[thinking("Hm", "s1"), own("o1")], again.content]
    first = contents(expand([text("Let me start."), thinking("So", "s2"), call("c1")], FIRST, again))
    assert first == [[text("Let me start."), own("o1")], [thinking("So", "s2"), call("c1")]]


def test_a_text_is_looked_for_behind_what_was_found_before_it() -> None:
    middle, last = make(thinking("So", "s2"), own("o2")), make(text("Let me start."), call("c1"))
    result = contents(
        expand([thinking("So", "s2"), text("Let me start.")], make(text("Let me start."), own("o1")), middle, last)
    )
    assert result == [[own("o1")], middle.content, [text("Let me start.")]]


def test_a_text_is_looked_for_ahead_of_what_follows_it() -> None:
    end = make(text("Done."))
    assert contents(expand([text("Done."), thinking("Hm", "s1")], SILENT, end)) == [[text("Done."), *SILENT.content]]


def test_thinking_of_a_round_that_shows_nothing_else_follows_the_rest() -> None:
    """Without any, thinking may be off; with some, the turn must begin with it."""
    kept = contents(expand([thinking("So", "s2"), text("Now I read."), call("c1")], SILENT, LAST))
    assert kept == [SILENT.content, LAST.content]
    left_out = contents(expand([text("Now I read."), call("c1")], SILENT, LAST))
    assert left_out == [[own("o1")], [text("Now I read."), call("c1"), own("o2")]]


def test_thinking_that_the_client_has_left_out_stays_out() -> None:
    kept = contents(expand([text("Let me start."), thinking("So", "s2"), text("Now I read."), call("c1")], FIRST, LAST))
    assert kept == [[text("Let me start."), own("o1")], LAST.content]


def test_thinking_that_a_client_has_run_together_is_given_as_it_was() -> None:
    """Its signature is that of the last, and the provider would refuse it with another text."""
    result = contents(expand([thinking("HmSo", "s2"), call("c1")], SILENT, LAST))
    assert result == [SILENT.content, [thinking("So", "s2"), call("c1"), own("o2")]]


def test_thinking_that_led_to_nothing_is_left_out() -> None:
    end = make(thinking("So", "s2"), text("Done."))
    assert contents(expand([thinking("Hm", "s1"), thinking("So", "s2")], SILENT, end)) == [SILENT.content]


def test_thinking_that_is_all_of_the_last_round_stays_an_answer() -> None:
    """It parts the user's turns, as it does in the client's history."""
    end = make(thinking("So", "s2"))
    result = contents(expand([text("Let me start."), thinking("So", "s2")], FIRST, end))
    assert result == [[text("Let me start."), own("o1")], end.content]


def test_an_empty_last_round_is_left_out() -> None:
    end = make(text("Done."))
    result = expand([], SILENT, end)
    assert [message["role"] for message in result] == ["assistant", "user"]
    assert expand([], end) == []


def test_changed_and_unknown_calls_stand_in_the_last_round() -> None:
    other, new = call("c1", path="b"), call("c9")
    assert contents(expand([text("Let me start."), other], FIRST, LAST))[1] == [other, own("o2")]
    assert contents(expand([new, text("Now I read.")], FIRST, LAST)) == [
        [own("o1")],
        [new, text("Now I read."), own("o2")],
    ]


def test_what_is_not_known_goes_with_what_stands_before_it() -> None:
    note = {"type": "hologram", "x": 1}
    result = contents(expand([text("Let me start."), note, text("Now I read."), call("c1")], FIRST, LAST))
    assert result[0] == [text("Let me start."), note, own("o1")]
    assert contents(expand([note], FIRST, LAST)) == [[note, own("o1")], [own("o2")]]


def test_own_calls_keep_their_place_among_the_clients() -> None:
    mixed = make(text("a"), call("c1"), own("o1"), call("c2"), own("o2"))
    changed = [text("a"), call("c1", x=1), call("c2", x=2)]
    assert contents(expand(changed, mixed)) == [[text("a"), call("c1", x=1), own("o1"), call("c2", x=2), own("o2")]]


def test_parts_that_anthropic_runs_stay_in_their_round() -> None:
    query = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    searched = make(query, found, text("Found."), own("o1"))
    result = contents(expand([query, found, call("c1")], searched, LAST))
    assert result == [[query, found, own("o1")], [call("c1"), own("o2")]]


@pytest.mark.parametrize("odd", [{"type": "thinking", "signature": {}}, {"type": "tool_use", "id": []}, {"x": {}}])
def test_odd_blocks_do_not_stop_it(odd: Block) -> None:
    assert [block for each in contents(expand([odd], FIRST, LAST)) for block in each if block is odd]


def test_many_blocks_take_no_long_time() -> None:
    many = make(*(text(f"t{number}") for number in range(500)), own("o1"))
    content = [text(f"u{number}") for number in range(2_000)]
    assert len(contents(expand(content, many, LAST))[0]) == 2_001
