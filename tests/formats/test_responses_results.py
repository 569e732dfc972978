"""What answers a call of each kind in OpenAI's Responses, checked by the SDK's own types."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import ResponseInputItem
from pydantic import TypeAdapter

import wane
from wane import FormatError
from wane.conversation import Conversation

ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItem)
SHELL = {"type": "shell_call", "id": "sh1", "call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}}
EXEC = {"type": "exec", "command": ["ls"], "env": {}}
LOCAL = {"type": "local_shell_call", "id": "ls1", "call_id": "c1", "status": "completed", "action": EXEC}
DELETE = {"type": "delete_file", "path": "a"}
PATCH = {"type": "apply_patch_call", "id": "ap1", "call_id": "c1", "status": "completed", "operation": DELETE}
CLICK = {"type": "screenshot"}
COMPUTER = {
    "type": "computer_call",
    "id": "cu1",
    "call_id": "c1",
    "status": "completed",
    "action": CLICK,
    "pending_safety_checks": [],
}
APPROVAL = {"type": "mcp_approval_request", "id": "c1", "server_label": "s", "name": "close", "arguments": "{}"}
LOAD = {
    "type": "tool_search_call",
    "id": "ts1",
    "call_id": "c1",
    "execution": "client",
    "arguments": {"query": "x"},
    "status": "completed",
}
EXIT = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
SCREEN = {"type": "computer_screenshot", "image_url": "data:image/png;base64,eA=="}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}


def begin_with_call(call: dict[str, Any]) -> tuple[Conversation[Any], Any]:
    conversation: Conversation[Any] = wane.Conversation("openai_responses", budget="80k")
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    (waiting,) = conversation.append([call])
    return conversation, waiting


@pytest.mark.parametrize(
    ("call", "output", "fields"),
    [
        (SHELL, EXIT, {"output": [EXIT], "call_id": "c1"}),
        (SHELL, [EXIT, EXIT], {"output": [EXIT, EXIT]}),
        (SHELL, {"output": [EXIT], "max_output_length": 10}, {"max_output_length": 10}),
        (LOCAL, "a\n", {"output": "a\n", "id": "c1"}),
        (PATCH, {"status": "failed", "output": "no such file"}, {"status": "failed", "call_id": "c1"}),
        (COMPUTER, SCREEN, {"output": SCREEN}),
        (COMPUTER, {"output": SCREEN, "acknowledged_safety_checks": []}, {"acknowledged_safety_checks": []}),
        (APPROVAL, False, {"approve": False, "approval_request_id": "c1"}),
        (APPROVAL, {"approve": False, "reason": "Not on a Friday."}, {"reason": "Not on a Friday."}),
        (LOAD, {"tools": [TOOL], "execution": "client"}, {"tools": [TOOL]}),
        (LOAD, [TOOL], {"tools": [TOOL], "call_id": "c1"}),
    ],
)
def test_a_result_is_the_item_that_the_kind_of_its_call_demands(
    call: dict[str, Any], output: object, fields: dict[str, Any]
) -> None:
    conversation, waiting = begin_with_call(call)
    message = waiting.result(output)
    (item,) = message["items"]
    assert ITEM.validate_python(item).type == item["type"]
    assert item.items() >= fields.items()
    conversation.append(message)
    assert conversation.request().messages[-1] == item


@pytest.mark.parametrize("call", [SHELL, PATCH, COMPUTER, APPROVAL, LOAD])
def test_a_text_where_a_kind_demands_more_is_refused_by_name(call: dict[str, Any]) -> None:
    _, waiting = begin_with_call(call)
    with pytest.raises(FormatError, match=rf"output of a '{call['type']}' is an item .*text alone"):
        waiting.result("done")


def test_a_call_of_an_unknown_kind_is_answered_by_the_host_itself() -> None:
    call = {"type": "robot_call", "call_id": "c1", "action": {}}
    conversation: Conversation[Any] = wane.Conversation("openai_responses", budget="80k")
    conversation.extend([{"role": "user", "content": "Go."}])
    format_ = conversation.format
    with pytest.raises(FormatError, match="how a 'robot_call' is answered is not known"):
        format_.result({"items": [call]}, 0, "x")  # type: ignore[attr-defined]


def test_what_cannot_be_text_is_not_replaced_by_one() -> None:
    conversation, _ = begin_with_call(SHELL)
    format_: Any = conversation.format
    for item in (
        {"type": "computer_call_output", "call_id": "c1", "output": SCREEN},
        {"type": "tool_search_output", "call_id": "c1", "tools": [TOOL]},
        {"type": "shell_call_output", "call_id": "c1", "output": [EXIT]},
    ):
        (cleared,) = format_.clear_result({"items": [item]}, 0, "[cleared]")["items"]
        assert ITEM.validate_python(cleared).type == item["type"]
    assert cleared["output"] == [{**EXIT, "stdout": "[cleared]"}]


@pytest.mark.parametrize("format_", ["openai", "anthropic", "openai_responses"])
def test_two_calls_of_one_id_in_an_answer_are_refused(format_: str) -> None:
    function = {"name": "read", "arguments": "{}"}
    twice: dict[str, Any] = {
        "openai": {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}] * 2},
        "anthropic": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}] * 2,
        },
        "openai_responses": [{"type": "function_call", "call_id": "c1", **function}] * 2,
    }
    conversation: Conversation[Any] = wane.Conversation(format_, budget="80k")
    conversation.append({"role": "user", "content": "Go."})
    before = conversation.messages
    with pytest.raises(wane.HistoryError, match="several calls of one answer have the id 'c1'"):
        conversation.append(twice[format_])
    assert conversation.messages == before
