"""OpenAI chat messages: what each becomes, what is kept of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from wane import FormatError, Kind
from wane.formats.openai import NON_TEXT_TOKENS, REASONING_LISTS, OpenAIFormat

FORMAT = OpenAIFormat()


def call(id_: str = "c1", name: str = "grep", arguments: Any = '{"p": "x"}') -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, **fields}


def kinds(message: dict[str, Any]) -> list[Kind]:
    return [part.kind for part in FORMAT.parts(message)]


# Parts


@pytest.mark.parametrize(
    ("role", "kind"), [("system", Kind.SYSTEM), ("developer", Kind.SYSTEM), ("user", Kind.USER), ("tool", Kind.RESULT)]
)
def test_a_message_that_is_no_assistants_gives_one_item_even_if_empty(role: str, kind: Kind) -> None:
    for content in ("text", "", None, [], [{"type": "text", "text": "te"}, {"type": "text", "text": "xt"}]):
        (part,) = FORMAT.parts({"role": role, "content": content, "tool_call_id": "c1"})
        assert part.kind is kind
        # The pieces of a result are outputs of their own; those of a turn are one text.
        text = "te\nxt" if kind is Kind.RESULT and isinstance(content, list) else "text"
        assert part.text == (text if content else "")


def test_an_assistant_message_gives_reasoning_then_text_then_calls() -> None:
    message = assistant(tool_calls=[call(), call("c2", "read")], content="So.", reasoning_content="Hm.")
    parts = FORMAT.parts(message)
    assert [part.kind for part in parts] == [Kind.REASONING, Kind.TEXT, Kind.CALL, Kind.CALL]
    assert [part.text for part in parts] == ["Hm.", "So.", "", ""]
    assert [(part.tool, part.call_id) for part in parts[2:]] == [("grep", "c1"), ("read", "c2")]
    assert parts[2].item(len, 0).tokens == len('grep{"p": "x"}')


@pytest.mark.parametrize("nothing", [None, "", []])
def test_empty_parts_of_an_assistant_message_give_no_item(nothing: Any) -> None:
    assert kinds({"role": "assistant", "content": nothing, "reasoning_content": nothing, "tool_calls": nothing}) == []
    assert kinds({"role": "assistant"}) == []


def test_reasoning_is_taken_once_under_whichever_name() -> None:
    assert kinds(assistant(reasoning="Hm.")) == [Kind.REASONING]
    assert kinds(assistant(reasoning="Hm.", reasoning_content="Hm.")) == [Kind.REASONING]
    # OpenRouter also sends an object under this name.
    assert kinds(assistant(reasoning={"effort": "high"}, content="So.")) == [Kind.TEXT]


def test_a_refusal_is_text() -> None:
    assert [part.text for part in FORMAT.parts(assistant(refusal="No."))] == ["No."]
    assert [part.text for part in FORMAT.parts(assistant(content=[{"type": "refusal", "refusal": "No."}]))] == ["No."]


def test_images_count_flat() -> None:
    content = [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    (part,) = FORMAT.parts({"role": "user", "content": content})
    assert (part.text, part.extra_tokens) == ("See.", NON_TEXT_TOKENS)


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ('{"p": ', '{"p": '),
        (None, ""),
        ("", ""),
        ({"p": "ä"}, '{"p": "ä"}'),
        ([1], "[1]"),
    ],
)
def test_arguments_are_raw_text_whatever_the_server_sends(arguments: Any, raw: str) -> None:
    assert FORMAT.parts(assistant(tool_calls=[call(arguments=arguments)]))[0].arguments == raw


def test_custom_tool_calls_and_calls_without_a_type_are_calls() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
    plain = {"id": "c2", "type": None, "function": {"name": "grep", "arguments": "{}"}}
    first, second = FORMAT.parts(assistant(tool_calls=[custom, plain]))
    assert (first.tool, first.arguments) == ("apply_patch", "*** Begin")
    assert (second.tool, second.arguments) == ("grep", "{}")


# Keep


def test_what_is_kept_is_kept_word_for_word_with_all_other_fields() -> None:
    message = assistant(content="So.", reasoning_content="Hm.", tool_calls=[call(), call("c2")], name="bot", audio=None)
    kept = FORMAT.keep(message, [1, 3])
    assert kept == {"role": "assistant", "content": "So.", "tool_calls": [call("c2")], "name": "bot", "audio": None}
    assert list(kept) == ["role", "content", "tool_calls", "name", "audio"]
    assert kept["tool_calls"][0] is message["tool_calls"][1]


def test_without_its_calls_a_message_has_no_list_of_them() -> None:
    message = assistant(content="So.", tool_calls=[call()])
    assert FORMAT.keep(message, [0]) == {"role": "assistant", "content": "So."}


def test_without_its_text_a_message_has_null_beside_calls_and_a_string_otherwise() -> None:
    message = assistant(content="So.", reasoning_content="Hm.", tool_calls=[call()])
    assert FORMAT.keep(message, [2])["content"] is None
    assert FORMAT.keep(message, [0]) == {"role": "assistant", "content": "", "reasoning_content": "Hm."}
    assert FORMAT.keep(assistant(content="So.", refusal="No."), [1])["content"] is None
    bare = {"role": "assistant", "tool_calls": [call(), call("c2")]}
    assert FORMAT.keep(bare, [1]) == {"role": "assistant", "content": None, "tool_calls": [call("c2")]}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_evicted_reasoning_leaves_no_copy_of_itself(key: str) -> None:
    copies = {name: [{"text": "Hm."}] for name in REASONING_LISTS}
    message = assistant(content="So.", **{key: "Hm."}, **copies)
    assert FORMAT.keep(message, [1]) == {"role": "assistant", "content": "So."}
    both = assistant(content="So.", reasoning="Hm.", reasoning_content="Hm.")
    assert FORMAT.keep(both, [1]) == {"role": "assistant", "content": "So."}
    assert FORMAT.keep({**message, "tool_calls": [call()]}, [0, 2])["reasoning_details"] == [{"text": "Hm."}]


# Load


def test_a_request_body_is_as_good_as_its_messages() -> None:
    messages = [{"role": "user", "content": "Go."}]
    assert FORMAT.load({"model": "m", "messages": messages}) == messages


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("x", "must be an object, found str$"),
        (ChatCompletionMessage(role="assistant", content="x"), "must be an object, found ChatCompletionMessage"),
        ({"content": "x"}, "role None is unknown"),
        ({"role": ["user"]}, r"role \['user'\] is unknown"),
        ({"role": "function", "content": "x"}, "role 'function' is unknown; known: system"),
        ({"role": "user", "content": 7}, "content must be a string, a list of parts or null, found int"),
        ({"role": "tool", "content": "x"}, "tool_call_id must be a string that is not empty, found None"),
        (assistant(tool_calls="x"), "tool_calls must be a list, found str"),
        (assistant(tool_calls=["x"]), "a tool call must be an object, found str"),
        (assistant(tool_calls=[{"id": "c1"}]), "tool call 'c1' has no function"),
        (assistant(tool_calls=[{"id": "c1", "type": []}]), "tool call 'c1' has no function"),
        (assistant(tool_calls=[{"id": "c1", "type": ["x"]}]), "tool call 'c1' has no function"),
        (assistant(tool_calls=[call("")]), "id must be a string that is not empty, found ''"),
        (assistant(tool_calls=[call(name="")]), "name must be a string that is not empty, found ''"),
    ],
)
def test_what_is_wrong_is_said_with_the_number_of_the_message(message: Any, said: str) -> None:
    with pytest.raises(FormatError, match=f"^message 1: .*{said}"):
        FORMAT.load([{"role": "user", "content": "Go."}, message])


# What needs what (R12)


def needs(**fields: Any) -> list[tuple[int, ...]]:
    return [part.needs for part in FORMAT.parts({"role": "assistant", "content": None, **fields})]


def chat_call(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "read", "arguments": "{}"}, **fields}


def test_calls_need_their_reasoning_in_whatever_field_it_stands() -> None:
    calls = [chat_call("c1"), chat_call("c2")]
    for field in ("reasoning_content", "reasoning", "reasoning_text"):
        assert needs(**{field: "Hm."}, tool_calls=calls) == [(), (-1,), (-2,)]
        assert needs(**{field: "Hm."}, content="So.") == [(), (-1,)]
    sealed = {"type": "reasoning.encrypted", "data": "c2VhbA==" * 9, "id": "c1"}
    assert needs(reasoning_details=[sealed], tool_calls=calls) == [(1,), (-1,), (-2,)]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="}
    assert needs(thinking_blocks=[thinking], content="So.", tool_calls=calls[:1]) == [(1,), (), (-2,)]
    assert needs(reasoning_opaque="c2VhbA==", tool_calls=calls[:1]) == [(1,), (-1,)]


def test_parallel_calls_need_the_one_that_carries_geminis_signature() -> None:
    for signed in (
        chat_call("c1", extra_content={"google": {"thought_signature": "c2VhbA=="}}),
        chat_call("c1", provider_specific_fields={"thought_signature": "c2VhbA=="}),
        chat_call("c1__thought__c2VhbA=="),
    ):
        assert needs(tool_calls=[signed, chat_call("c2"), chat_call("c3")]) == [(), (-1,), (-2,)]


def test_a_calls_signature_among_the_details_leaves_with_the_call() -> None:
    details = [{"type": "reasoning.encrypted", "data": f"s{n}", "id": f"c{n}"} for n in (1, 2)]
    message = {
        "role": "assistant",
        "content": "So.",
        "reasoning_details": details,
        "tool_calls": [chat_call("c1"), chat_call("c2")],
    }
    kept = FORMAT.keep(message, [0, 1, 3])
    assert kept["reasoning_details"] == details[1:]
    assert kept["tool_calls"] == message["tool_calls"][1:]
    assert "reasoning_details" not in FORMAT.keep(message, [1])
