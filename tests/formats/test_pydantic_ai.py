"""Pydantic AI messages: what each part becomes, what needs what, and what is refused."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CapabilityLoadDeltaPart,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    InstructionBaselinePart,
    InstructionDeltaPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelSettingsDeltaPart,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from wane import FormatError, Kind
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.pydantic_ai import PydanticAIFormat

FORMAT = PydanticAIFormat()

IMAGE = BinaryContent(b"\xff\x00\xfe", media_type="image/png")


def reply(*parts: Any, **fields: Any) -> ModelResponse:
    return ModelResponse(list(parts), **fields)


def kinds(message: ModelMessage) -> list[Kind]:
    return [part.kind for part in FORMAT.parts(message)]


def signed_thinking(text: str = "Hm.", **fields: Any) -> ThinkingPart:
    return ThinkingPart(text, signature="c2ln", provider_name="anthropic", **fields)


def item(text: str = "Hm.", id_: str = "rs_1") -> ThinkingPart:
    return ThinkingPart(text, id=id_, signature="ZW5j", provider_name="openai")


def call(id_: str = "c1", tool: str = "grep") -> ToolCallPart:
    return ToolCallPart(tool, "{}", id_)


# Requests

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    BOUND, FREE = RetryPromptPart("Again.", tool_name="grep", tool_call_id="c1"), RetryPromptPart("Again.")

MIXED = [
    "See ",
    CachePoint(),
    IMAGE,
    ImageUrl("https://x.test/a.png"),
    TextContent("this."),
    DocumentUrl("https://x.test/d"),
]


@pytest.mark.parametrize(
    ("part", "kind", "text", "tokens"),
    [
        (SystemPromptPart("Be brief."), Kind.NOTICE, "Be brief.", 0),
        (SystemPromptPart("Left: 3.", scope="request"), Kind.NOTICE, "", 0),  # it weighs nothing later
        (UserPromptPart("Go."), Kind.USER, "Go.", 0),
        (UserPromptPart(""), Kind.USER, "", 0),
        (UserPromptPart(MIXED), Kind.USER, "See this.", 3 * NON_TEXT_TOKENS),
        (SpeechPart(speaker="user", transcript="Go."), Kind.USER, "Go.", 0),
        (SpeechPart(speaker="user", audio=IMAGE), Kind.USER, "", NON_TEXT_TOKENS),
        (ToolReturnPart("grep", "hit", "c1"), Kind.RESULT, "hit", 0),
        (ToolReturnPart("grep", None, "c1"), Kind.RESULT, "", 0),
        (ToolReturnPart("grep", {"hits": ["ä"]}, "c1"), Kind.RESULT, '{"hits":["ä"]}', 0),
        (ToolReturnPart("shot", [IMAGE], "c1"), Kind.RESULT, None, NON_TEXT_TOKENS),
        # A retry answers a call, or speaks for the application.
        (ToolReturnPart("grep", "Bad pattern.", "c1", outcome="retried"), Kind.RESULT, "Bad pattern.", 0),
        (BOUND, Kind.RESULT, "Again.", 0),
        (FREE, Kind.SYSTEM, "Again.", 0),
        (RetryFeedbackPart("Too long.", retry=RetryInfo(cause="model_retry")), Kind.SYSTEM, "Too long.", 0),
        (InstructionDeltaPart(id="agent:main", content="New."), Kind.SYSTEM, "New.", 0),
        (ToolAvailabilityDeltaPart(tools_added=["x"]), Kind.SYSTEM, "", 0),
        (CapabilityLoadDeltaPart(loaded=["x"]), Kind.SYSTEM, "", 0),
        (ModelSettingsDeltaPart(settings={"thinking": "high"}), Kind.SYSTEM, "", 0),
        (InstructionBaselinePart(instructions=[]), Kind.SYSTEM, "", 0),
        (CompactionPart("So far: nothing."), Kind.SYSTEM, "So far: nothing.", 0),
    ],
)
def test_every_part_of_a_request_gives_one_item(part: Any, kind: Kind, text: str | None, tokens: int) -> None:
    (item,) = FORMAT.parts(ModelRequest([part]))
    assert (item.kind, item.extra_tokens) == (kind, tokens)
    assert text is None or (text in item.text and bool(item.text) == bool(text))
    assert item.call_id == (part.tool_call_id if kind is Kind.RESULT else None)


def test_a_request_without_parts_is_a_turn_that_stays() -> None:
    assert kinds(ModelRequest([], instructions="Say hello.")) == [Kind.SYSTEM]


@pytest.mark.parametrize("tool", ["load_capability", "search_tools"])
def test_calls_that_reveal_tools_are_never_evicted(tool: str) -> None:
    """Pydantic AI reads them back from the messages that are sent."""
    assert kinds(reply(call(tool=tool), call("c2", "grep"))) == [Kind.SYSTEM, Kind.CALL]
    assert kinds(ModelRequest([ToolReturnPart(tool, "ok", "c1")])) == [Kind.SYSTEM]


# Responses


def test_a_response_gives_its_parts_in_order_and_nothing_for_empty_ones() -> None:
    message = reply(ThinkingPart("Hm."), TextPart(""), TextPart("So."), call(), ThinkingPart(""), TextPart("Then."))
    assert kinds(message) == [Kind.REASONING, Kind.TEXT, Kind.CALL, Kind.TEXT]
    assert kinds(reply()) == []


@pytest.mark.parametrize(
    ("args", "raw"),
    [
        (None, ""),
        ("", ""),
        ('{"p": ', '{"p": '),
        ("[1]", "[1]"),
        ({"p": "ä", "n": [1]}, '{"p":"ä","n":[1]}'),
        ({}, "{}"),
    ],
)
def test_arguments_are_raw_text(args: Any, raw: str) -> None:
    (part,) = FORMAT.parts(reply(ToolCallPart("grep", args, "c1")))
    assert (part.tool, part.call_id, part.arguments) == ("grep", "c1", raw)


def test_files_and_speech_are_text_and_a_compaction_is_not() -> None:
    assert kinds(reply(FilePart(IMAGE), SpeechPart(speaker="assistant", transcript="Hi."))) == [Kind.TEXT, Kind.TEXT]
    assert FORMAT.parts(reply(FilePart(IMAGE)))[0].extra_tokens == NON_TEXT_TOKENS
    assert kinds(reply(CompactionPart(None, provider_name="openai", provider_details={}))) == [Kind.SYSTEM]


def test_reasoning_of_which_only_the_signature_is_known_has_a_weight() -> None:
    (part,) = FORMAT.parts(
        reply(ThinkingPart("", id="redacted_thinking", signature="x" * 1600, provider_name="anthropic"))
    )
    assert (part.kind, part.extra_tokens) == (Kind.REASONING, 300)


def test_a_native_call_and_its_return_are_a_pair_only_within_one_message() -> None:
    native, answer = NativeToolCallPart("web_search", {}, "n1"), NativeToolReturnPart("web_search", "hits", "n1")
    pair = FORMAT.parts(reply(native, answer, TextPart("So.")))
    assert [(part.kind, part.call_id) for part in pair[:2]] == [(Kind.CALL, "n1"), (Kind.RESULT, "n1")]
    assert kinds(reply(native, TextPart("So."))) == [Kind.TEXT, Kind.TEXT]
    assert kinds(reply(answer)) == [Kind.TEXT]
    assert kinds(reply(answer, native)) == [Kind.TEXT, Kind.TEXT]
    assert all(part.call_id is None for part in FORMAT.parts(reply(answer, native)))


# What needs what (R12)


NATIVE = NativeToolCallPart("web_search", {}, "n1"), NativeToolReturnPart("web_search", "hits", "n1")
CITED = TextPart("So.", provider_name="anthropic", provider_details={"citations": [{}]})
CHAT = {"provider_name": "deepseek"}
SO = TextPart("So.")


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        # Unsigned reasoning is free, but calls and texts need it: DeepSeek and Kimi refuse them without.
        ([ThinkingPart("Hm."), SO], [(), (-1,)]),
        ([ThinkingPart("Hm."), SO, call()], [(), (-1,), (-2,)]),
        ([ThinkingPart("Hm.", id="reasoning_content", **CHAT), TextPart("So.", id="content", **CHAT)], [(), (-1,)]),
        # Calls need the signed reasoning before them, and it needs company: a text, or else the first call.
        ([signed_thinking(), SO, call(), call("c2")], [(1,), (), (-2,), (-3,)]),
        ([signed_thinking(), call(), call("c2")], [(1,), (-1,), (-2,)]),
        ([signed_thinking(), call(), SO], [(2,), (-1,), ()]),
        ([call(), signed_thinking(), call("c2")], [(), (1,), (-1,)]),
        ([signed_thinking(), call(), signed_thinking(), call("c2")], [(1,), (-1,), (1,), (-3, -1)]),
        ([SO, signed_thinking()], [(), ()]),
        ([ThinkingPart("", id="redacted_thinking", signature="x"), SO, call()], [(1,), (), (-2,)]),
        # A reasoning item and what follows it need each other; pieces of one item stay together.
        ([item(), SO, call()], [(1,), (-1,), (-2,)]),
        ([item(), call(), call("c2")], [(1,), (-1,), (-2,)]),
        ([ThinkingPart("Hm.", id="rs_1", provider_name="openai"), SO], [(1,), (-1,)]),
        ([item("One."), ThinkingPart("Two.", id="rs_1", provider_name="openai"), SO], [(1,), (-1, 1), (-1,)]),
        ([TextPart(text, id=id_) for text, id_ in (("a", "m1"), ("b", "m1"), ("c", "m2"))], [(1,), (-1,), ()]),
        # Text with citations needs what it cites.
        ([*NATIVE, CITED, TextPart("Then.")], [(), (), (-2, -1), ()]),
    ],
)
def test_what_needs_what(parts: list[Any], needed: list[tuple[int, ...]]) -> None:
    assert [part.needs for part in FORMAT.parts(reply(*parts))] == needed


# Keep


def test_keep_changes_nothing_but_the_parts() -> None:
    message = reply(
        ThinkingPart("Hm."),
        TextPart(""),
        TextPart("So."),
        call(),
        usage=RequestUsage(input_tokens=7),
        model_name="m",
        provider_details={"x": 1},
        run_id="r",
    )
    kept = FORMAT.keep(message, [1])
    assert kept == reply(
        TextPart("So."),
        usage=message.usage,
        model_name="m",
        provider_details={"x": 1},
        run_id="r",
        timestamp=message.timestamp,
    )
    assert kept.parts[0] is message.parts[2]
    assert len(message.parts) == 4
    request = ModelRequest([ToolReturnPart("grep", "hit", "c1"), UserPromptPart("Go.")], instructions="Be brief.")
    kept = FORMAT.keep(request, [1])
    assert (kept.parts, kept.instructions) == ([request.parts[1]], "Be brief.")


# Load and dump


def test_messages_objects_and_json_data_may_be_mixed() -> None:
    request, response = ModelRequest([UserPromptPart(["See.", IMAGE])]), reply(signed_thinking(), call())
    data = json.loads(json.dumps(FORMAT.dump([request, response])))
    assert FORMAT.load([request, response]) == [request, response]
    mixed = FORMAT.load([request, data[1]])
    assert mixed[0] is request
    assert mixed[1] == response
    loaded = FORMAT.load(data)
    assert loaded[0].parts[0].content[1].data == IMAGE.data
    assert FORMAT.dump(loaded) == data


def test_what_the_adapter_writes_is_read() -> None:
    messages = [ModelRequest([UserPromptPart("Go.")]), reply(TextPart("Gone."))]
    assert FORMAT.load(json.loads(ModelMessagesTypeAdapter.dump_json(messages))) == messages


def test_a_lone_surrogate_does_not_keep_a_session_from_being_read() -> None:
    (written,) = FORMAT.dump([ModelRequest([UserPromptPart("fix \udcff it, \U0001f600")])])
    (message,) = FORMAT.load([json.loads(json.dumps(written))])
    assert message.parts[0].content == "fix \ufffd it, \U0001f600"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {"kind": "request", "parts": [{"part_kind": "user-prompt"}]},
            r"message 1: .*parts.0.*content: Field",
        ),
        ({"kind": "request", "parts": [{"part_kind": "unheard-of"}]}, r"message 1: .*parts.0: .*unheard-of"),
        ({"kind": "request", "parts": 7}, "message 1: .*parts: Input should be"),
        ({"kind": "request"}, "message 1: expected an object with kind and parts"),
        ({"role": "user", "content": "Go."}, "message 1: expected an object with kind and parts, found .'role'"),
        ({"kind": "request", "parts": [{1, 2}]}, "message 1: it is not JSON data"),
    ],
)
def test_what_is_wrong_is_said_with_the_number_of_the_message(entry: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        FORMAT.load([ModelRequest([UserPromptPart("Go.")]), entry])


def test_a_part_of_a_newer_version_is_refused_by_name() -> None:
    class UnheardOfPart:
        pass

    for message in (ModelRequest([UnheardOfPart()]), reply(UnheardOfPart())):
        with pytest.raises(FormatError, match="unknown part: UnheardOfPart"):
            FORMAT.parts(message)
    with pytest.raises(FormatError, match="must be a ModelRequest or a ModelResponse, found dict"):
        FORMAT.parts({"kind": "request"})
