"""Anthropic messages: what each block becomes, what stays together, what is kept of it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from tests.formats.convert import SIGNATURE, as_input, to_anthropic
from tests.formats.test_contract import Case, Session, live
from tests.strategies import policies, sessions, times
from wane import FormatError, Kind, Policy
from wane.formats import Part
from wane.formats.anthropic import AnthropicFormat
from wane.formats.openai import NON_TEXT_TOKENS

FORMAT = AnthropicFormat()
RECORDED = Path(__file__).resolve().parents[3] / "shared" / "sessions" / "claude-code"

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}
REDACTED = {"type": "redacted_thinking", "data": "RW5jcnlwdGVk" * 40}
FALLBACK = {"type": "fallback", "from": {"model": "one"}, "to": {"model": "other"}}


def text(said: str = "So.", **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def use(
    id_: str = "c1", name: str = "grep", given: Any = None, kind: str = "tool_use", **fields: Any
) -> dict[str, Any]:
    return {"type": kind, "id": id_, "name": name, "input": {} if given is None else given, **fields}


def result(id_: str = "c1", content: Any = "found", kind: str = "tool_result", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "tool_use_id": id_, "content": content, **fields}


def server_tool_blocks(name: str = "web_search", content: Any = (), id_: str = "s1") -> list[dict[str, Any]]:
    """A call and the result of a tool that Anthropic runs."""
    return [use(id_, name, {"query": "x"}, "server_tool_use"), result(id_, list(content), f"{name}_tool_result")]


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def kinds(message: dict[str, Any]) -> list[Kind]:
    return [part.kind for part in FORMAT.parts(message)]


def needs(*blocks: dict[str, Any]) -> list[set[int]]:
    """What each part of an answer needs, as positions."""
    return [{here + offset for offset in part.needs} for here, part in enumerate(FORMAT.parts(assistant(*blocks)))]


# Parts


def test_an_answer_gives_its_blocks_in_order() -> None:
    parts = FORMAT.parts(assistant(THINKING, text(), use("c1", "Grep", {"pattern": "ä", "n": [1]}), use("c2", "Read")))
    assert [part.kind for part in parts] == [Kind.REASONING, Kind.TEXT, Kind.CALL, Kind.CALL]
    assert [part.text for part in parts[:2]] == ["Hm.", "So."]
    assert [(part.call_id, part.tool) for part in parts[2:]] == [("c1", "Grep"), ("c2", "Read")]
    assert parts[2].arguments == '{"pattern":"ä","n":[1]}'


@pytest.mark.parametrize(
    ("given", "raw"), [({}, "{}"), ('{"p": ', '{"p": '), ("", ""), (None, ""), ([1, None], "[1,null]")]
)
def test_arguments_are_the_shortest_json_or_the_text_that_came(given: Any, raw: str) -> None:
    block = use() | {"input": given}
    assert FORMAT.parts(assistant(block))[0].arguments == raw


@pytest.mark.parametrize("content", ["", [], None, [text("")], [{"type": "thinking", "thinking": ""}]])
def test_empty_blocks_of_an_answer_give_no_item(content: Any) -> None:
    assert kinds({"role": "assistant", "content": content}) == []


@pytest.mark.parametrize("content", ["", [], None])
@pytest.mark.parametrize(("role", "kind"), [("user", Kind.USER), ("system", Kind.SYSTEM)])
def test_an_empty_turn_is_an_item(role: str, kind: Kind, content: Any) -> None:
    assert FORMAT.parts({"role": role, "content": content}) == [Part(kind)]


def test_strings_are_one_item() -> None:
    assert FORMAT.parts({"role": "user", "content": "Go."}) == [Part(Kind.USER, "Go.")]
    assert FORMAT.parts({"role": "assistant", "content": "So."}) == [Part(Kind.TEXT, "So.")]


def test_a_system_message_is_one_item_whatever_it_holds() -> None:
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "grep"}}
    (part,) = FORMAT.parts({"role": "system", "content": [text("Be "), text("brief."), addition]})
    assert part.kind is Kind.SYSTEM
    assert part.text.startswith("Be brief.")
    assert "tool_reference" in part.text
    assert FORMAT.parts({"role": "system", "output_config": {"effort": "low"}}) == [Part(Kind.SYSTEM)]


def test_a_turn_of_the_user_gives_results_and_one_item_for_each_other_block() -> None:
    parts = FORMAT.parts(user(result(), result("c2", is_error=True), text("Go on."), IMAGE, text("")))
    assert [part.kind for part in parts] == [Kind.RESULT, Kind.RESULT, Kind.USER, Kind.USER, Kind.USER]
    assert [part.call_id for part in parts[:2]] == ["c1", "c2"]
    assert [(part.text, part.extra_tokens) for part in parts[2:]] == [("Go on.", 0), ("", NON_TEXT_TOKENS), ("", 0)]


@pytest.mark.parametrize(
    ("content", "read", "extra"),
    [
        ("found", "found", 0),
        (None, "", 0),
        ([text("a/b.py"), text("c/d.py")], "a/b.py\nc/d.py", 0),
        ([text("see"), IMAGE, IMAGE], "see", 2 * NON_TEXT_TOKENS),
        ([{"type": "tool_reference", "tool_name": "grep"}], "grep", 0),
        ([{"type": "search_result", "title": "T", "source": "S", "content": [text("body")]}], "T\nS\nbody", 0),
        ([{"type": "document", "source": {"type": "text", "data": "body"}, "title": "T"}], "T\nbody", 0),
        ([{"type": "document", "source": {"type": "content", "content": [text("a"), IMAGE]}}], "a", NON_TEXT_TOKENS),
        ([{"type": "document", "source": {"type": "base64", "data": "JVBERi0="}}], "", NON_TEXT_TOKENS),
        ([{"type": "browser_state", "tabs": []}], '{"type":"browser_state","tabs":[]}', 0),
    ],
)
def test_a_result_holds_text_and_what_is_none(content: Any, read: str, extra: int) -> None:
    (part,) = FORMAT.parts(user(result(content=content)))
    assert (part.text, part.extra_tokens) == (read, extra)


def test_thinking_that_cannot_be_read_is_estimated_by_its_seal() -> None:
    sealed = {"type": "thinking", "thinking": "", "signature": "s" * 4_000}
    for block in (sealed, {"type": "redacted_thinking", "data": "s" * 4_000}):
        (part,) = FORMAT.parts(assistant(block))
        assert (part.kind, part.text) == (Kind.REASONING, "")
        assert 500 < part.extra_tokens < 1_000
    (short,) = FORMAT.parts(assistant(sealed | {"signature": "s"}))
    assert short.extra_tokens == 1


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        *(
            server_tool_blocks(name)
            for name in ("web_search", "web_fetch", "code_execution", "bash_code_execution", "advisor")
        ),
        (use("m1", "query", kind="mcp_tool_use", server_name="db"), result("m1", [text("row")], "mcp_tool_result")),
    ],
)
def test_a_tool_that_anthropic_runs_is_a_call_and_a_result(call: dict[str, Any], answer: dict[str, Any]) -> None:
    first, second = FORMAT.parts(assistant(call, answer))
    assert (first.kind, first.tool, first.needs) == (Kind.CALL, call["name"], (1,))
    assert (second.kind, second.call_id, second.needs) == (Kind.RESULT, first.call_id, (-1,))


def test_what_such_a_tool_found_is_its_text() -> None:
    fetched = {"type": "document", "source": {"type": "text", "data": "page"}}
    found = {"type": "web_fetch_result", "url": "https://x", "content": fetched}
    (part,) = FORMAT.parts(assistant(result("s1", found, "web_fetch_tool_result")))
    assert part.text == "https://x\npage"
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert "max_uses_exceeded" in FORMAT.parts(assistant(result("s1", error, "web_search_tool_result")))[0].text


def test_a_call_that_a_later_answer_holds_the_result_of_is_a_call() -> None:
    # A pause, or a program that waits for a tool of the client's.
    call, answer = server_tool_blocks("code_execution")
    assert kinds(assistant(call)) == [Kind.CALL]
    assert kinds(assistant(answer, text())) == [Kind.RESULT, Kind.TEXT]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "compaction", "content": "So far."},
        {"type": "compaction", "content": None},
        {"type": "mcp_tool_listing", "mcp_server_name": "db", "tools": [{"name": "query"}]},
    ],
)
def test_what_stands_for_the_past_or_shows_tools_is_never_evicted(block: dict[str, Any]) -> None:
    assert kinds(assistant(block)) == [Kind.SYSTEM]


def test_a_search_that_anthropic_ran_loads_tools() -> None:
    """R15: call and result stand while one of the tools is offered."""
    references = [{"type": "tool_reference", "tool_name": name} for name in ("read_mail", "send_mail")]
    found = {"type": "tool_search_tool_search_result", "tool_references": references}
    search = use("s1", "tool_search_tool_regex", kind="server_tool_use")
    call, answer = FORMAT.parts(assistant(search, result("s1", found, "tool_search_tool_result")))
    assert (call.kind, answer.kind, answer.loads) == (Kind.CALL, Kind.RESULT, ("read_mail", "send_mail"))
    error = {"type": "tool_search_tool_result_error", "error_code": "unavailable"}
    assert FORMAT.parts(assistant(search, result("s1", error, "tool_search_tool_result")))[1].loads == ()


@pytest.mark.parametrize("kind", ["unheard_of", "container_upload"])
def test_blocks_of_unknown_kinds_are_not_lost(kind: str) -> None:
    block = {"type": kind, "data": "?" * 10_000}
    assert FORMAT.parts(assistant(block)) == [Part(Kind.TEXT, extra_tokens=NON_TEXT_TOKENS)]
    assert FORMAT.parts(user(block)) == [Part(Kind.USER, extra_tokens=NON_TEXT_TOKENS)]


# What stays together


def test_calls_need_the_signed_thinking_ahead_of_them_and_thinking_needs_company() -> None:
    assert needs(THINKING, text(), use()) == [{1}, set(), {0}]
    assert needs(THINKING, REDACTED, use("c1"), use("c2")) == [{1}, {2}, {0, 1}, {0, 1}]
    assert needs(THINKING, use("c1"), THINKING, use("c2")) == [{1}, {0}, {3}, {0, 2}]
    assert needs(use(), THINKING) == [set(), set()]
    # DeepSeek and Kimi demand it behind an Anthropic endpoint, too.
    unsigned = {"type": "thinking", "thinking": "Hm."}
    assert needs(unsigned, use()) == [set(), {0}]


def test_empty_blocks_are_no_company() -> None:
    assert needs(THINKING, text(""), use()) == [{1}, {0}]


def test_text_needs_what_it_may_cite() -> None:
    cited = text(citations=[{"type": "web_search_result_location", "encrypted_index": "x"}])
    assert needs(*server_tool_blocks(), text(), cited) == [{1}, {0}, set(), {0, 1}]


def test_a_call_made_by_code_and_the_call_that_ran_it_need_each_other() -> None:
    outer = use("s1", "code_execution", kind="server_tool_use")
    inner = use("c1", "query", caller={"type": "code_execution_20260120", "tool_id": "s1"})
    assert needs(outer, inner, use("c2", caller={"type": "direct"})) == [{1}, {0}, set()]


def test_a_fallback_stays_between_the_thinking_that_it_parts() -> None:
    assert needs(THINKING, FALLBACK, THINKING, text()) == [{1, 3}, {3}, {1, 3}, set()]
    assert needs(text(), FALLBACK) == [set(), {0}]
    assert FORMAT.parts(assistant(FALLBACK)) == [Part(Kind.TEXT)]


@times(1.5)
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_a_view_keeps_the_rules_of_signed_thinking(session: Session, budget: int, policy: Policy) -> None:
    case = Case("signed", FORMAT, lambda messages: to_anthropic(messages, signed=True, objects=True))
    lived = live(case, session, budget, policy)
    numbers = sorted({lived.transcript.message_of(index) for index in lived.window.visible})
    views = lived.view if len(numbers) == len(lived.view) else [lived.messages[number] for number in numbers]
    for number, message in zip(numbers, views, strict=True):
        before, after = blocks_of(lived.messages[number]), blocks_of(message)
        assert after[-1:] == before[-1:] or after[-1]["type"] != "thinking"
        if any(block["type"] == "tool_use" for block in after):
            assert [b for b in after if b["type"] == "thinking"] == [b for b in before if b["type"] == "thinking"]


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if message["role"] == "assistant" and isinstance(content, list) else []


@given(session=sessions(), budget=st.integers(1, 400))
def test_arguments_as_objects_are_the_same_session(session: Session, budget: int) -> None:
    for message in session:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = as_input(function["arguments"], objects=True)
            if isinstance(given, dict):
                function["arguments"] = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    chat = wane.plan(session, budget=budget)
    other = wane.plan(to_anthropic(session, objects=True), budget=budget, format="anthropic")
    assert (other.report, other.visible) == (chat.report, chat.visible)


# Keep


def test_what_is_kept_is_kept_word_for_word_with_all_other_fields() -> None:
    cached = text("So.", cache_control={"type": "ephemeral"}, unheard_of=1)
    message = {"id": "msg_1", **assistant(THINKING, text(""), cached, use(), use("c2", caller={"type": "direct"}))}
    kept = FORMAT.keep(message, [1, 3])
    assert kept == {"id": "msg_1", "role": "assistant", "content": [cached, message["content"][4]]}
    assert list(kept) == list(message)
    assert kept["content"][0] is cached
    assert len(message["content"]) == 5


def test_a_request_has_all_results_of_an_answer_in_one_message() -> None:
    first, second = ({"type": "tool_result", "tool_use_id": f"c{n}", "content": "ok"} for n in (1, 2))
    calls = [{"type": "tool_use", "id": f"c{n}", "name": "read", "input": {}} for n in (1, 2)]
    answer = {"role": "assistant", "content": calls}
    results = [{"role": "user", "content": [first]}, {"role": "user", "content": [second]}]
    more = {"role": "user", "content": "And?"}
    # Words behind them stay a message of their own.
    assert FORMAT.wire([more, answer, *results, more]) == [
        more,
        answer,
        {"role": "user", "content": [first, second]},
        more,
    ]
    assert results[0]["content"] == [first]


def test_of_a_turn_the_results_can_go_and_what_was_said_stays() -> None:
    message = user(result("c1", is_error=True), result("c2"), text("Go on."), IMAGE)
    assert FORMAT.keep(message, [0, 2, 3]) == user(result("c1", is_error=True), text("Go on."), IMAGE)


# Load


def test_a_request_body_is_as_good_as_its_messages() -> None:
    messages = [user(text("Go.")), assistant(use())]
    body = {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": messages}
    assert FORMAT.load(body) is messages


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("x", "must be an object, found str"),
        ({"content": "x"}, "role None is unknown; known: user, assistant, system"),
        ({"role": ["user"], "content": "x"}, r"role \['user'\] is unknown"),
        ({"role": "tool", "content": "x"}, "role 'tool' is unknown"),
        ({"role": "user", "content": 7}, "content must be a string or a list of blocks, found int"),
        (user("x"), "a content block must be an object, found str"),  # type: ignore[arg-type]
        (user({"type": "tool_result"}), "tool_use_id must be a string that is not empty, found None"),
        (user(result(content=7)), "content must be a string or a list of blocks, found int"),
        (assistant({"text": "x"}), "the type of a content block must be a string, found None"),
        (assistant({"type": "text", "text": 7}), "text must be a string, found int"),
        (assistant(use("")), "id must be a string that is not empty, found ''"),
        (assistant(use(name="")), "name must be a string that is not empty, found ''"),
    ],
)
def test_what_is_wrong_is_said_with_the_number_of_the_message(message: Any, said: str) -> None:
    with pytest.raises(FormatError, match=f"^message 1: .*{said}"):
        FORMAT.load([user(text("Go.")), message])


def test_arguments_that_cannot_be_written_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FormatError, match="nested too deeply"):
        FORMAT.parts(assistant(use(given={"x": deep})))


# What a real client has sent


def recorded_messages() -> Iterator[dict[str, Any]]:
    for file in sorted(RECORDED.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            message = json.loads(line).get("message")
            if isinstance(message, dict) and message.get("content"):
                yield {"role": message["role"], "content": message["content"]}


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded sessions: ../shared/sessions is not there")
def test_recorded_messages_are_taken_apart_and_come_back() -> None:
    messages = list(recorded_messages())
    assert len(messages) > 1_000
    assert FORMAT.dump(FORMAT.load(messages)) == messages
    for message in messages:
        parts = FORMAT.parts(message)
        assert parts
        if len(parts) > 1:
            assert FORMAT.parts(FORMAT.keep(message, [0]))[0].kind is parts[0].kind
            assert FORMAT.keep(message, range(len(parts))) == message
