"""What a request must show of the beginning of a turn. The proxy's and the conversation's tests cover the rest."""

from __future__ import annotations

from collections.abc import Sequence

from wane.core import Kind
from wane.formats.message_format import Part
from wane.formats.turns import openings, required_opening

USER = [Part(Kind.USER, "Hi")]


def call(name: str) -> Part:
    return Part(Kind.CALL, call_id=name, tool="look", arguments="{}")


def result(name: str, text: str = "found", needs: tuple[int, ...] = ()) -> Part:
    return Part(Kind.RESULT, text, call_id=name, needs=needs)


THINKING = Part(Kind.REASONING, "I think.")
LATER = [[call("z")], [result("z")]]


def find_required(history: Sequence[list[Part]], *visible: int) -> dict[int, list[int]]:
    shown = ((number, history[number]) for number in reversed(visible))
    return required_opening(history.__getitem__, len(history), shown)


def test_a_call_that_was_never_answered_is_not_shown_for_the_reasoning_before_it() -> None:
    history = [USER, [THINKING, call("a"), call("b")], [result("b", "long " * 99)], *LATER]
    assert find_required(history, 0, 3, 4) == {1: [0, 2], 2: [0]}
    assert find_required([USER, [THINKING, call("a")], [], *LATER], 0, 3, 4) == {}


def test_a_call_that_the_provider_runs_is_answered_in_its_own_message() -> None:
    own = [THINKING, Part(Kind.CALL, call_id="s", tool="web_search", arguments="{}", needs=(1,))]
    own += [result("s", needs=(-1,))]
    assert find_required([USER, own, [result("a")], *LATER], 0, 3, 4) == {1: [0, 1, 2]}


def test_a_call_that_the_provider_ran_over_a_pause_is_shown_with_its_result_in_a_later_answer() -> None:
    run = Part(Kind.CALL, call_id="s", tool="code_execution", arguments="{}")
    history = [USER, [THINKING, run], [result("s"), Part(Kind.TEXT, "So it is.")], *LATER]
    assert find_required(history, 0, 3, 4) == {1: [0, 1], 2: [0]}
    # What it needs comes with it: here a call that its code made, with that one's result.
    resumed = [Part(Kind.CALL, call_id="c", tool="look", arguments="{}", needs=(1,)), result("s", needs=(-1,))]
    history = [USER, [THINKING, run], resumed, [result("c")], *LATER]
    assert find_required(history, 0, 4, 5) == {1: [0, 1], 2: [0, 1], 3: [0]}
    # A result behind the user's next turn answers nothing of this one.
    assert find_required([USER, [THINKING, run], *LATER, USER, [result("s")]], 0, 2, 3) == {}


def test_blank_text_does_not_follow_the_reasoning() -> None:
    history = [USER, [THINKING, Part(Kind.TEXT, " "), Part(Kind.TEXT, "I look."), call("a")], [result("a")], *LATER]
    assert find_required(history, 0, 3, 4) == {1: [0, 2]}


def test_a_persons_words_inside_a_result_begin_no_turn() -> None:
    answered = [Part(Kind.USER, "Yes, do.", needs=(1,)), result("a")]
    history = [USER, [THINKING, call("a")], answered, *LATER]
    backwards = list(reversed(list(enumerate(history))))
    assert [(each.after, each.at, each.reasons) for each in openings(backwards, lambda number: number in (1, 3))] == [
        (0, 1, True)
    ]


def test_the_history_is_read_only_as_far_back_as_the_turn_goes() -> None:
    history = [USER, [Part(Kind.TEXT, "Done.")], USER, [THINKING, call("a")], [result("a")]]
    read = []

    def backwards() -> object:
        for number in range(len(history) - 1, -1, -1):
            read.append(number)
            yield number, history[number]

    assert len(list(openings(backwards(), lambda number: number in (1, 3)))) == 1  # type: ignore[arg-type]
    assert read == [4, 3, 2, 1]
