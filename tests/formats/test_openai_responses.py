"""Items of OpenAI Responses: what each becomes, how they are grouped, what stays together, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.convert import to_responses
from tests.formats.test_contract import Case, Session, live
from tests.strategies import policies, sessions, times
from wane import ContextWindow, FormatError, Kind, Policy
from wane.formats import Part, Transcript
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.openai_responses import REFERENCE_TOKENS, OpenAIResponsesFormat, group

FORMAT = OpenAIResponsesFormat()
RECORDED = Path(__file__).resolve().parents[3] / "shared" / "sessions" / "codex"

Item = dict[str, Any]


def answer_message(text: str = "So.", **fields: Any) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def user_message(text: str = "Go.") -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def reasoning_item(id_: str | None = "rs_1", **fields: Any) -> Item:
    return {"type": "reasoning", "summary": [], **({"id": id_} if id_ else {}), **fields}


def call(id_: str = "c1", name: str = "grep", **fields: Any) -> Item:
    return {"type": "function_call", "call_id": id_, "name": name, "arguments": '{"p": 1}', **fields}


def output(id_: str = "c1", found: Any = "found", kind: str = "function_call_output") -> Item:
    return {"type": kind, "call_id": id_, "output": found}


def parts(*items: Item) -> list[Part]:
    return FORMAT.parts({"items": list(items)})


def part(item: Item) -> Part:
    (only,) = parts(item)
    return only


def needs(*items: Item) -> list[set[int]]:
    return [{here + offset for offset in part.needs} for here, part in enumerate(parts(*items))]


# Grouping


def test_a_run_of_what_the_model_made_is_one_message() -> None:
    run = [
        reasoning_item(),
        answer_message(phase="commentary"),
        call(),
        {"type": "web_search_call", "id": "ws_1"},
        {"id": "msg_9"},
    ]
    items = [user_message(), *run, output(), output("c2"), answer_message(), {"role": "user", "content": "And?"}]
    messages = FORMAT.load(items)
    assert [len(message["items"]) for message in messages] == [1, 5, 1, 1, 1, 1]
    assert messages[1]["items"] == run
    assert FORMAT.dump(messages) == items
    assert all(one is other for one, other in zip(FORMAT.dump(messages), items, strict=True))


@pytest.mark.parametrize(
    "item",
    [
        {"role": "developer", "content": "Be brief."},
        {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "additional_tools", "role": "developer", "tools": []},
        output(kind="shell_call_output"),
        {"type": "program_output", "call_id": "p1", "result": "3", "status": "completed"},
    ],
)
def test_all_else_is_a_message_of_its_own(item: Item) -> None:
    assert [len(message["items"]) for message in group([call(), item, call()])] == [1, 1, 1]


def test_a_body_a_string_and_messages_load_as_well() -> None:
    items = [user_message(), reasoning_item(), call(), output()]
    messages = FORMAT.load({"model": "m", "input": items, "instructions": "Be brief."})
    assert messages == FORMAT.load(items)
    assert FORMAT.load(messages) is messages
    assert FORMAT.load({"input": "Go."}) == [{"items": [{"role": "user", "content": "Go."}]}]
    assert FORMAT.load([]) == []


# Parts


@pytest.mark.parametrize("typed", [{}, {"type": "message"}])
@pytest.mark.parametrize(
    ("role", "kind"),
    [("user", Kind.USER), ("system", Kind.SYSTEM), ("developer", Kind.SYSTEM), ("assistant", Kind.TEXT)],
)
def test_messages_with_and_without_a_type(role: str, kind: Kind, typed: Item) -> None:
    assert part({"role": role, "content": "text", **typed}) == Part(kind, "text")
    content = [{"type": "input_text", "text": "te"}, {"type": "input_text", "text": "xt"}, {"type": "input_image"}]
    assert part({"role": role, "content": content, **typed}) == Part(kind, "text", extra_tokens=NON_TEXT_TOKENS)


def test_a_refusal_is_text() -> None:
    refused = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert part(refused) == Part(Kind.TEXT, "No.")


def test_what_is_empty_gives_no_item_unless_it_has_an_id() -> None:
    empty = {"role": "assistant", "content": ""}
    assert parts(empty, reasoning_item(None)) == []
    assert part(empty | {"id": "msg_1"}) == Part(Kind.TEXT)
    assert part(reasoning_item("rs_1")) == Part(Kind.REASONING)
    assert part({"role": "user", "content": ""}) == Part(Kind.USER)
    assert part(output(found="")) == Part(Kind.RESULT, call_id="c1")


def test_reasoning_has_its_text_and_an_estimate_of_what_is_sealed() -> None:
    summary = [{"type": "summary_text", "text": "Sum"}]
    content = [{"type": "reasoning_text", "text": "Hm."}]
    assert part(reasoning_item(summary=summary, content=content)).text == "Sum\nHm."
    sealed = part(reasoning_item(summary=summary, encrypted_content="s" * 8_867))
    assert sealed.text == "Sum"
    assert sealed.extra_tokens == 1_499
    assert part(reasoning_item(None, encrypted_content="s")) == Part(Kind.REASONING)


@pytest.mark.parametrize(
    ("item", "tool", "arguments"),
    [
        (call(), "grep", '{"p": 1}'),
        (call(arguments='{"p": '), "grep", '{"p": '),
        (call(namespace="mcp", status="completed"), "grep", '{"p": 1}'),
        (
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
            "apply_patch",
            "*** Begin",
        ),
        (
            {"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
            "local_shell",
            '{"type":"exec","command":["ls"]}',
        ),
        ({"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}, "shell", '{"commands":["ls"]}'),
        (
            {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "x"}},
            "apply_patch",
            '{"type":"delete_file","path":"x"}',
        ),
        ({"type": "computer_call", "call_id": "c1", "action": {"type": "wait"}}, "computer", '{"type":"wait"}'),
        ({"type": "tool_search_call", "call_id": "c1", "arguments": {"q": "x"}}, "tool_search", '{"q":"x"}'),
        ({"type": "program", "id": "p1", "call_id": "c1", "code": "1 + 2"}, "program", "1 + 2"),
        ({"type": "mcp_approval_request", "id": "c1", "name": "query", "arguments": "{}"}, "query", "{}"),
        ({"type": "unheard_of_call", "call_id": "c1", "input": "x"}, "unheard_of", "x"),
    ],
)
def test_calls(item: Item, tool: str, arguments: str) -> None:
    assert part(item) == Part(Kind.CALL, call_id="c1", tool=tool, arguments=arguments)


@pytest.mark.parametrize(
    ("item", "text", "extra"),
    [
        (output(), "found", 0),
        (output(found=[{"type": "input_text", "text": "a"}, {"type": "input_image"}]), "a", NON_TEXT_TOKENS),
        (output(kind="custom_tool_call_output"), "found", 0),
        ({"type": "local_shell_call_output", "id": "c1", "output": "{}"}, "{}", 0),
        ({"type": "local_shell_call_output", "call_id": "c1", "output": "{}"}, "{}", 0),
        (output(found={"type": "computer_screenshot", "image_url": "data:"}), "", NON_TEXT_TOKENS),
        (output(found=[{"stdout": "a", "stderr": ""}]), '{"stdout":"a","stderr":""}', 0),
        ({"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}, "completed", 0),
        ({"type": "tool_search_output", "call_id": "c1", "tools": [{"name": "x"}]}, '{"name":"x"}', 0),
        ({"type": "program_output", "call_id": "c1", "result": "3", "status": "completed"}, "3", 0),
        ({"type": "mcp_approval_response", "approval_request_id": "c1", "approve": False}, '{"approve":false}', 0),
    ],
)
def test_results(item: Item, text: str, extra: int) -> None:
    loads = ("x",) if item["type"] == "tool_search_output" else ()
    assert part(item) == Part(Kind.RESULT, text, call_id="c1", extra_tokens=extra, loads=loads)


@pytest.mark.parametrize(
    ("item", "text", "extra"),
    [
        ({"type": "web_search_call", "id": "w", "action": {"query": "x"}}, '{"query":"x"}', 0),
        ({"type": "file_search_call", "queries": ["x"], "results": [{"text": "y"}]}, '["x"]\ny', 0),
        (
            {
                "type": "code_interpreter_call",
                "code": "1",
                "outputs": [{"type": "logs", "logs": "2"}, {"type": "image"}],
            },
            "1\n2",
            NON_TEXT_TOKENS,
        ),
        ({"type": "code_interpreter_call", "code": None, "outputs": None}, "", 0),
        ({"type": "image_generation_call", "result": "iVBO", "revised_prompt": "a cat"}, "a cat", NON_TEXT_TOKENS),
        ({"type": "mcp_call", "name": "query", "arguments": "{}", "output": "row"}, "query\n{}\nrow", 0),
        ({"type": "unheard_of", "data": "?" * 9_000}, "", NON_TEXT_TOKENS),
        ({"type": "item_reference", "id": "msg_1"}, "", REFERENCE_TOKENS),
        ({"id": "fc_1"}, "", REFERENCE_TOKENS),
    ],
)
def test_what_holds_its_own_result_goes_with_its_episode(item: Item, text: str, extra: int) -> None:
    assert part(item) == Part(Kind.TEXT, text, extra_tokens=extra)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "encrypted_content": "s" * 400},
        {"type": "compaction_trigger"},
        {"type": "mcp_list_tools", "id": "m", "server_label": "db", "tools": [{"name": "query"}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"name": "query"}]},
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {"q": "x"}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [{"name": "query"}]},
        {"type": "function_call_output", "call_id": None, "name": "query", "output": "row"},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
    ],
)
def test_what_stands_for_the_past_or_shows_tools_is_never_evicted(item: Item) -> None:
    assert part(item).kind is Kind.SYSTEM


def test_a_message_of_another_agent_is_a_turn_if_it_sets_a_task() -> None:
    task = "Message Type: NEW_TASK\nPayload:\nGo."
    assert part({"type": "agent_message", "content": [{"type": "input_text", "text": task}]}) == Part(Kind.USER, task)
    assert part({"type": "agent_message", "content": "Done."}) == Part(Kind.NOTICE, "Done.")


# What stays together


def test_reasoning_and_what_follows_it_need_each_other_where_both_have_ids() -> None:
    assert needs(reasoning_item(), call(id="fc_1")) == [{1}, {0}]
    assert needs(reasoning_item(), answer_message(id="msg_1"), call(id="fc_1")) == [{1}, {0}, {0}]
    assert needs(reasoning_item(), call(id="fc_1"), call("c2", id="fc_2"), answer_message(id="msg_1")) == [
        {1},
        {0},
        {0},
        set(),
    ]
    assert needs(reasoning_item(), reasoning_item("rs_2"), call(id="fc_1")) == [{1}, {0, 2}, {0, 1}]
    assert needs(reasoning_item(), {"type": "item_reference", "id": "fc_1"}) == [{1}, {0}]
    assert needs({"id": "rs_1"}, {"id": "msg_1"}) == [{1}, {0}]


def test_without_ids_reasoning_stays_with_its_call_and_not_alone() -> None:
    assert needs(reasoning_item(), call()) == [{1}, {0}]
    assert needs(reasoning_item(None, encrypted_content="s"), call(id="fc_1")) == [{1}, {0}]
    assert needs(reasoning_item(None, encrypted_content="s"), answer_message(id="msg_1")) == [{1}, set()]


def test_reasoning_of_servers_that_seal_nothing_stays_with_what_follows_it() -> None:
    text = [{"type": "reasoning_text", "text": "Hm."}]
    assert needs(reasoning_item(None, content=text), call(id="fc_1")) == [set(), {0}]
    assert needs(reasoning_item(None, content=text), answer_message(id="msg_1")) == [set(), {0}]


def test_a_call_made_by_a_program_and_the_program_need_each_other() -> None:
    program = {"type": "program", "id": "p_1", "call_id": "p1", "code": "query()"}
    inner = call(caller={"type": "program", "caller_id": "p1"})
    assert needs(program, inner, call("c2", caller={"type": "direct"})) == [{1}, {0}, set()]


@times(1.5)
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_a_view_keeps_the_rules_of_sealed_reasoning(session: Session, budget: int, policy: Policy) -> None:
    case = Case("sealed", FORMAT, lambda messages: to_responses(messages, sealed=True))
    lived = live(case, session, budget, policy)
    numbers = sorted({lived.transcript.message_of(index) for index in lived.window.visible})
    for number, message in zip(numbers, lived.view, strict=True):
        before, after = lived.messages[number]["items"], message["items"]
        if before[0].get("type") != "reasoning":
            continue
        if before[0] in after:
            assert after[1:2] == before[1:2]
        else:
            assert not any(item in after for item in before[1:2])
            assert not any(item["type"] == "function_call" for item in after)


# Keep


def test_what_is_kept_are_the_same_items_with_all_their_fields() -> None:
    run = [reasoning_item(None), answer_message(phase="commentary", unheard_of=1), call(), call("c2")]
    message = {"items": run, "note": 1}
    kept = FORMAT.keep(message, [0, 2])
    assert kept == {"items": [run[1], run[3]], "note": 1}
    assert kept["items"][0] is run[1]
    assert len(run) == 4


# Load


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("x", "an item must be an object, found str"),
        ({}, "role None is unknown; known: user, assistant, system, developer"),
        ({"role": ["user"]}, r"role \['user'\] is unknown"),
        ({"role": "tool", "content": "x"}, "role 'tool' is unknown"),
        ({"type": 7}, "the type of an item must be a string, found 7"),
        ({"role": "user", "content": 7}, "a part of a content must be an object or a string, found int"),
        (call(""), "call_id must be a string that is not empty, found ''"),
        (call(name=None), "name must be a string that is not empty, found None"),  # type: ignore[arg-type]
        (output(7), "call_id must be a string that is not empty, found 7"),  # type: ignore[arg-type]
        ({"type": "item_reference", "id": ""}, "id must be a string that is not empty, found ''"),
        ({"items": "x"}, "role None is unknown"),
    ],
)
def test_what_is_wrong_is_said_with_the_number_of_the_message(item: Any, said: str) -> None:
    with pytest.raises(FormatError, match=f"^message 1: .*{said}"):
        FORMAT.load([user_message(), item])


def test_a_message_must_hold_a_list_of_items() -> None:
    for message in ({"items": 7}, [], user_message()):
        with pytest.raises(FormatError, match="an object with a list of items"):
            FORMAT.parts(message)  # type: ignore[arg-type]


def test_an_item_is_no_request_body() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "x", "input": "y"}
    with pytest.raises(FormatError, match="expected a list of Responses items, found dict"):
        FORMAT.load(custom)


# What a real client has recorded


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded sessions: ../shared/sessions is not there")
def test_recorded_items_are_taken_apart_and_come_back() -> None:
    for file in sorted(RECORDED.glob("*.jsonl")):
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        items = [line["payload"] for line in lines if line["type"] == "response_item"]
        messages = FORMAT.load({"input": items})
        assert FORMAT.dump(messages) == items
        window, transcript = ContextWindow(1), Transcript(FORMAT)
        for message in messages:
            window.extend(transcript.append(message))
        assert window.item_count > 500
