"""Messages of Strands Agents, which need nothing installed."""

from __future__ import annotations

from typing import Any

import pytest

from wane import FormatError, Kind
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.strands import StrandsFormat, joined

FORMAT = StrandsFormat()

ANSWER: dict[str, Any] = {
    "role": "assistant",
    "tracking_id": "m2",
    "content": [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "a", "name": "read", "input": {"path": "é"}}},
        {"toolUse": {"toolUseId": "b", "name": "read", "input": {}}},
    ],
}
RESULTS: dict[str, Any] = {
    "role": "user",
    "content": [
        {"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "x"}, {"json": {"y": 1}}]}},
        {"toolResult": {"toolUseId": "b", "status": "error", "content": [{"image": {"source": {"bytes": b"png"}}}]}},
        {"text": "And mind this."},
        {"cachePoint": {"type": "default"}},
    ],
}


def test_a_message_is_taken_apart() -> None:
    told = [(part.kind, part.text or part.arguments, part.call_id, part.needs) for part in FORMAT.parts(ANSWER)]
    assert told == [
        (Kind.REASONING, "Hm.", None, (1,)),
        (Kind.TEXT, "I look.", None, ()),
        (Kind.CALL, '{"path": "é"}', "a", (-2,)),
        (Kind.CALL, "{}", "b", (-3,)),
    ]
    results = FORMAT.parts(RESULTS)
    assert [(part.kind, part.text, part.call_id) for part in results] == [
        (Kind.RESULT, 'x{"y": 1}', "a"),
        (Kind.RESULT, "", "b"),
        (Kind.USER, "And mind this.", None),
    ]
    assert results[1].extra_tokens


def test_unsigned_reasoning_is_free_to_go_and_sealed_reasoning_has_a_size() -> None:
    free = {"reasoningContent": {"reasoningText": {"text": "Hm."}}}
    sealed = {"reasoningContent": {"redactedContent": b"x" * 400}}
    text = {"text": "So."}
    assert [part.needs for part in FORMAT.parts({"role": "assistant", "content": [free, text]})] == [(), ()]
    hidden, _ = FORMAT.parts({"role": "assistant", "content": [sealed, text]})
    assert (hidden.needs, hidden.extra_tokens) == ((1,), 100)


def test_what_is_kept_is_the_same() -> None:
    kept = FORMAT.keep(ANSWER, [0, 1, 3])
    assert kept == {**ANSWER, "content": [ANSWER["content"][place] for place in (0, 1, 3)]}
    assert kept["content"][0] is ANSWER["content"][0]
    assert FORMAT.keep(RESULTS, [1])["content"] == [RESULTS["content"][1]]


def test_it_writes() -> None:
    assert FORMAT.result(ANSWER, 2, "Yes.") == {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "Yes."}]}}],
    }
    cleared = FORMAT.cleared(RESULTS, 1, "Gone.")
    assert cleared["content"][1]["toolResult"] == {"toolUseId": "b", "status": "error", "content": [{"text": "Gone."}]}
    assert cleared["content"][0] is RESULTS["content"][0]
    assert FORMAT.awaits(ANSWER, 2)


def test_neighbours_of_one_role_are_joined_and_nothing_else_changes() -> None:
    turn = FORMAT.turn("Go.")
    assert joined([turn, ANSWER, RESULTS]) == [turn, ANSWER, RESULTS]
    after = joined([ANSWER, RESULTS, turn])
    assert after == [ANSWER, {**RESULTS, "content": [*RESULTS["content"], *turn["content"]]}]
    assert len(RESULTS["content"]) == 4


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Go.", "must be an object"),
        ({"role": "tool", "content": []}, "role 'tool' is unknown"),
        ({"role": "user", "content": "Go."}, "list of blocks"),
        ({"role": "user", "content": [{"hologram": {}}]}, "block 'hologram' is unknown"),
        ({"role": "assistant", "content": [{"text": "Look."}, {"hologram": {}}]}, "block 'hologram' is unknown"),
    ],
)
def test_what_is_no_message_is_refused(message: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        FORMAT.parts(message)


@pytest.mark.parametrize("kind", ["image", "document", "audio", "video"])
def test_media_count_by_an_estimate_also_where_they_are_guarded(kind: str) -> None:
    medium = {kind: {"format": "x", "source": {"bytes": b"1" * 40_000}}}
    for block in (medium, {"guardContent": medium}):
        part = FORMAT.parts({"role": "user", "content": [block]})[0]
        assert (part.text, part.extra_tokens) == ("", NON_TEXT_TOKENS)
