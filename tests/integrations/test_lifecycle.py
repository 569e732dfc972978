"""What adapters share: a conversation continued from stored data, and what stands in one request alone."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from wane import ConfigError, Conversation
from wane.conversation import Adapter
from wane.core import exact_budget
from wane.formats.openai import OpenAIFormat
from wane.integrations import lifecycle
from wane.integrations.lifecycle import (
    LifecycleSettings,
    Warner,
    after_answer,
    insert_passing,
    maker,
    resume,
    split_passing,
)


@pytest.mark.parametrize(
    ("module", "name"), [("mini_swe_agent", "ContextLifecycleConfig"), ("openhands", "ContextLifecycle")]
)
def test_classes_that_spell_the_settings_out_have_them_all(module: str, name: str) -> None:
    """Each reads all of them by name. The frameworks need environments of their own, so the source has to do here."""
    source = Path(lifecycle.__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    (defined,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name]
    fields = {ast.unparse(node.target) for node in defined.body if isinstance(node, ast.AnnAssign)}
    assert fields >= {"budget", *LifecycleSettings.__annotations__}


def text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


TASK, MEMORY = text_message("user", "(task)"), text_message("user", "(memory)")
GO, DONE, AGAIN = text_message("user", "Go."), text_message("assistant", "Done."), text_message("user", "Again.")


@pytest.mark.parametrize(
    "messages",
    [
        [TASK],
        [TASK, MEMORY, GO],
        [GO, DONE, MEMORY, AGAIN],
        [GO, DONE, TASK, MEMORY, AGAIN],
        [GO, DONE, AGAIN, MEMORY],
        [TASK, DONE, MEMORY],
        [TASK, GO, DONE, MEMORY, AGAIN, DONE],
        [GO, DONE],
    ],
)
def test_all_stands_where_it_stood(messages: list[dict[str, Any]]) -> None:
    history, passing = split_passing(messages, lambda message: not message["content"].startswith("("))
    assert not any(message["content"].startswith("(") for message in history)
    conversation = Conversation(remind_at=None)
    conversation.host.ingest(history)
    assert insert_passing(conversation.request(), passing, conversation) == messages


def test_a_reminder_stays_last() -> None:
    conversation = Conversation(budget=1_000, remind_at=0.1)
    calls = [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    messages = [GO, {**text_message("assistant", "x" * 2_000), "tool_calls": calls}, result, MEMORY]
    history, passing = split_passing(messages, lambda message: message is not MEMORY)
    conversation.host.ingest(history)
    request = conversation.request()
    assert request.reminder is not None
    *before, last = insert_passing(request, passing, conversation)
    assert before == messages[:-1]
    # A message of its own would be a second one of the user's.
    assert last == text_message("user", f"{MEMORY['content']}\n\n{request.reminder}")


def test_what_roles_make_one_message_moves_nothing() -> None:
    """R12b joins both turns of the user on the wire, and memory stands ahead of the turn that it belongs to."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    work = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "x" * 8_000}]
    system, long = text_message("system", "(instructions)"), text_message("assistant", "Done. " * 300)
    messages = [system, GO, *work, long, AGAIN, text_message("assistant", "Look."), text_message("user", "Last.")]
    history, passing = split_passing(messages, lambda message: message is not system)
    conversation = Conversation(budget=exact_budget(40), remind_at=None)
    conversation.host.ingest(history)
    request = conversation.request()
    assert len(request.messages) < len(request.view)
    sent = insert_passing(request, passing, conversation)
    assert sent == [system, *request.messages]
    # Where memory makes two turns of the user neighbours in the whole history, none are joined.
    history, passing = split_passing([GO, *messages[2:5], MEMORY, *messages[5:]], lambda message: message is not MEMORY)
    sent = insert_passing(request, passing, conversation)
    assert sent[sent.index(MEMORY) + 1] == AGAIN
    assert len(sent) == len(request.view) + 1


def test_what_left_the_view_moves_nothing() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    work = [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "c1", "content": "x" * 8_000}]
    conversation = Conversation(budget=1_000, remind_at=None)
    messages = [GO, *work, DONE, MEMORY, AGAIN, text_message("assistant", "Look."), AGAIN]
    history, passing = split_passing(messages, lambda message: message is not MEMORY)
    conversation.host.ingest(history)
    sent = insert_passing(conversation.request(), passing, conversation)
    assert len(sent) < len(messages)
    assert sent[sent.index(MEMORY) + 1] == AGAIN


def test_a_conversation_continues_from_its_data() -> None:
    conversation = Conversation(budget=1_000)
    conversation.overhead = 7
    conversation.host.ingest([GO])
    conversation.request()
    again = resume(lambda: Conversation(budget=1_000), after_answer(conversation, []), [GO], Warner())
    assert (again.length, again.overhead) == (1, 7)


@pytest.mark.parametrize("kept", [None, {}, "old", ["old"], {"mark": "x"}, {"state": None}, {"state": "old"}])
def test_with_anything_else_it_begins_anew(kept: object) -> None:
    with pytest.warns(UserWarning, match="starts over") if kept else nullcontext():
        again = resume(lambda: Conversation(budget=1_000), kept, [GO], Warner())
    assert again.length == 0
    assert again.host.ingest([GO]).added == 1


@pytest.mark.parametrize(
    ("setting", "value"), [("strategy", "compact"), ("manage", False), ("cache_lifetime", 3.0), ("bugdet", "8k")]
)
def test_a_setting_that_adapters_do_not_have_is_refused(setting: str, value: object) -> None:
    more: Any = {setting: value}
    with pytest.raises(ConfigError, match=f"no setting '{setting}'; it has budget, policy, annotate"):
        maker(OpenAIFormat(), Adapter(), 8_000, **more)


@pytest.mark.parametrize(("setting", "value"), [("recall", "yes"), ("on_event", 3)])
def test_a_setting_of_a_wrong_type_is_refused(setting: str, value: object) -> None:
    more: Any = {setting: value}
    with pytest.raises(ConfigError, match=f"{setting} is {value!r}; it must be"):
        maker(OpenAIFormat(), Adapter(), 8_000, **more)()
