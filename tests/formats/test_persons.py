"""Answers of persons that come as results of tools, and tools that stay loaded: by names, by marks, by the host."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wane
from wane.conversation import Conversation
from wane.core import Kind
from wane.core.items import DEFAULT_TOOL_CLASSES, ToolClass
from wane.formats.message_format import Part, PersonCalls
from wane.formats.notices import is_notice, is_persons_result, withdrawn_in

ANSWER = "PERSON: use PostgreSQL, never MySQL"
PERSON_TOOLS = sorted(name for name, value in DEFAULT_TOOL_CLASSES.items() if value is ToolClass.PERSON)
REJECTED = [
    f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{ANSWER}",
    f"The tool use was rejected (the new_string was NOT written to the file). The user said:\n{ANSWER}",
    f"Error: The user rejected permission to use this specific tool call with the following feedback: {ANSWER}",
    f"User has approved your plan.\n\n## Approved Plan (edited by user):\n{ANSWER}",
    f"The user rejected this tool call. User feedback: {ANSWER}",
    f"The plan was not approved. The user provided the following feedback: {ANSWER}",
    f"User rejected the plan. Feedback:\n\n{ANSWER}",
    f"Plan rejected. User feedback: {ANSWER}\n\nThe plan is stored at: /p.md\nRevise the plan based on the feedback.",
    f"The user denied this operation and provided the following feedback:\n<feedback>\n{ANSWER}\n</feedback>",
    f"User rejected the tool call for `write` with reason: {ANSWER}",
    f"Error: write was not run: the user refused it and says: {ANSWER}",
]


def run_conversation(name: str, result: str, **settings: Any) -> Conversation[Any]:
    """A conversation in which the first of many results may be a person's; the others are long."""
    conversation: Conversation[Any] = wane.Conversation("anthropic", budget="3k", **settings)
    conversation.append({"role": "user", "content": "Build it."})
    for number in range(41):
        tool, output = (name, result) if number == 0 else ("read", "line of code. " * 120)
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"path": f"f{number}"}}
        (call,) = conversation.append({"role": "assistant", "content": [use]})
        conversation.append(call.result(output))
        conversation.request()
    return conversation


def shows(conversation: Conversation[Any]) -> bool:
    return ANSWER.partition("\n")[0] in json.dumps(conversation.request().messages)


def test_the_answer_to_a_question_is_never_evicted_whatever_the_tool_is_called() -> None:
    assert {"askuserquestion", "ask_user", "request_user_input", "handoff_to_user"} <= {*PERSON_TOOLS}
    for name in ("AskUserQuestion", "request_user_input", "request_user_input_async"):
        conversation = run_conversation(name, ANSWER)
        assert shows(conversation)
        assert f'"name": "{name}"' in json.dumps(conversation.request().messages)  # its call stays beside it
    assert not shows(run_conversation("query", ANSWER))


@pytest.mark.parametrize("result", REJECTED)
def test_a_rejection_with_a_reason_is_a_persons(result: str) -> None:
    assert is_persons_result(result)
    assert shows(run_conversation("write", result))


def test_a_rejection_without_words_and_a_text_about_one_are_not() -> None:
    for text in (
        "The user doesn't want to proceed with this tool use. The tool use was rejected.",
        "The user rejected permission to use this specific tool call.",
        "The user rejected this tool call.",
        "User has approved your plan. You can now start coding.\n\n## Approved Plan:\n1. Build it.",
        "# Notes\nUser rejected the tool call for `write` with reason: none",
    ):
        assert not is_persons_result(text)


def test_a_host_names_tools_of_its_own_and_may_unname_others() -> None:
    assert shows(run_conversation("Poll_Owner", ANSWER, tool_classes={"poll_owner": "person"}))
    assert not shows(run_conversation("question", ANSWER, tool_classes={"question": "artifact"}))


def test_an_id_that_is_used_again_belongs_to_its_latest_call() -> None:
    calls = PersonCalls()
    calls.mark([Part(Kind.CALL, call_id="c1", tool="ask_user", arguments="{}")])
    (answer,) = calls.mark([Part(Kind.RESULT, "yes", call_id="c1")])
    assert answer.person
    calls.mark([Part(Kind.CALL, call_id="c1", tool="read", arguments="{}")])
    (output,) = calls.mark([Part(Kind.RESULT, "yes", call_id="c1")])
    assert not output.person


def test_no_reminder_stands_behind_a_persons_answer() -> None:
    conversation: Conversation[Any] = wane.Conversation("anthropic", budget="8k")
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    reminders = []
    for number, tool in enumerate(("read", "AskUserQuestion", "read")):
        use = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {}}
        text = {"type": "text", "text": "word " * (500 if number == 1 else 1)}
        (call,) = conversation.append({"role": "assistant", "content": [text, use]})
        conversation.append(call.result("yes"))
        reminders.append(conversation.request().reminder)
    assert reminders[:2] == [None, None]
    assert reminders[2] is not None


LOADED = [{"type": "tool_reference", "tool_name": "mcp__tracker__close"}]


def last_request(*later: dict[str, Any]) -> str:
    """The last request of a session that loaded a tool at its beginning, and worked on behind `later`."""
    conversation: Conversation[Any] = wane.Conversation("anthropic", budget="3k")
    conversation.append({"role": "user", "content": "Close the ticket."})
    for number in range(41):
        tool, output = ("ToolSearch", LOADED) if number == 0 else ("Read", "line of code. " * 120)
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"path": f"f{number}"}}
        conversation.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output}
        more = later if number == 20 else ()
        conversation.append({"role": "user", "content": [result, *more]})
        messages = json.dumps(conversation.request().messages)
    return messages


def test_what_loaded_a_tool_stays_until_a_notice_withdraws_it() -> None:
    assert "tool_reference" in last_request()
    gone = "<system-reminder>\nThe following deferred tools are no longer available (their MCP server is gone):\n{}\n"
    for name, stays in (("mcp__tracker__close", False), ("mcp__other__open", True)):
        block = {"type": "text", "text": gone.format(name) + "</system-reminder>"}
        assert ("tool_reference" in last_request(block)) is stays


def test_a_removal_withdraws_too() -> None:
    tool = {"type": "tool_reference", "name": "mcp__tracker__close"}
    assert '"tool_name": "mcp__tracker__close"' not in last_request({"type": "tool_removal", "tool": tool})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The following tools are no longer available. Do not call them:\na\nb__c: closes it", ("a", "b__c")),
        ("The following tools are no longer available: a, b.\n\nSomething else: c", ("a", "b.")),
        ("The following deferred tools are no longer available (gone):\na\n</system-reminder>\nb", ("a",)),
        ("The following tools are now available: a", ()),
    ],
)
def test_names_of_withdrawn_tools(text: str, names: tuple[str, ...]) -> None:
    assert withdrawn_in(text) == names


def test_the_sentence_behind_a_task_notification_is_the_clients() -> None:
    notification = "<task-notification>\n<task-id>a1</task-id>\n</task-notification>\n"
    assert is_notice(f"{notification}Read the output file to retrieve the result: /tmp/tasks/a1.output")
    assert not is_notice(f"{notification}Read the output file to me, please.")
