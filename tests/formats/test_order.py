"""Shortcuts of a request's order of roles and of its breakpoints: they say what the whole search says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wane.formats.breakpoints import blocks_of, breakpoint_of, has_breakpoint
from wane.formats.message_format import GrowingOrder, OrderReader, order_of
from wane.formats.roles import CALLING, RESULTS, NeighbourJoiner, Order, join_neighbours

SPEAKERS = st.lists(st.sampled_from(["user", "assistant", CALLING, RESULTS, None]), max_size=8)
MARKS = st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}, {"cache_control": None}])
TEXTS = st.builds(lambda mark: {"type": "text", "text": "words", **mark}, MARKS)
RESULT_CONTENTS = st.one_of(st.just("output"), st.lists(TEXTS, max_size=2))
RESULT_BLOCKS = st.builds(
    lambda content, mark: {"type": "tool_result", "tool_use_id": "c", "content": content, **mark},
    RESULT_CONTENTS,
    MARKS,
)
CONTENTS = st.one_of(st.just("words"), st.none(), st.lists(st.one_of(TEXTS, RESULT_BLOCKS), max_size=3))


class Turns:
    """A format whose messages are pairs: whose turn one is, and its words."""

    def speaker(self, message: tuple[Any, str]) -> Any:
        return message[0]

    def merge(self, first: tuple[Any, str], second: tuple[Any, str]) -> tuple[Any, str]:
        return first[0], f"{first[1]} {second[1]}"


@given(SPEAKERS)
def test_the_order_of_a_beginning_that_has_none_is_that_of_all(speakers: list[str | None]) -> None:
    reader = OrderReader()
    for speaker in speakers:
        reader.read(speaker)
    assert order_of(speakers, lambda speaker: speaker) is reader.order


@given(SPEAKERS)
def test_where_there_is_no_order_nothing_is_joined(speakers: list[str | None]) -> None:
    messages = [(speaker, str(number)) for number, speaker in enumerate(speakers)]
    joiner = NeighbourJoiner(Turns(), Order.FREE)
    for message in messages:
        joiner.add(message)
    assert joiner.joined == messages == join_neighbours(messages, Turns(), Order.FREE)


@given(CONTENTS)
def test_a_message_has_a_breakpoint_if_a_block_of_it_has(content: Any) -> None:
    message = {"role": "user", "content": content}
    assert has_breakpoint(message) is any(breakpoint_of(block) is not None for block in blocks_of(message))


@given(st.lists(SPEAKERS, max_size=4), st.data())
def test_the_order_of_a_growing_list_is_that_of_all_of_it(
    additions: list[list[str | None]], data: st.DataObject
) -> None:
    messages: list[list[str | None]] = []
    asked: list[str | None] = []

    def speaker_of(message: list[str | None]) -> str | None:
        asked.append(message[0])
        return message[0]

    growing = GrowingOrder(speaker_of)
    for speakers in additions:
        if messages and data.draw(st.booleans()):
            # A client may send another message in its place, or fewer.
            number = data.draw(st.integers(0, len(messages) - 1))
            messages[number:] = [[data.draw(st.sampled_from(["user", "assistant", CALLING, RESULTS, None]))]]
        messages += [[speaker] for speaker in speakers]
        assert growing.of(messages) is order_of(messages, lambda message: message[0])
    asked.clear()
    growing.of(messages)
    assert len(asked) <= 1
