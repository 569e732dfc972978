"""Own calls: answered by the conversation, foreseen, or handed out to whoever runs a framework's tools."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import Dialect, Session, answer_message, every_dialect, fresh, histories, result, user
from tests.strategies import times
from wane import ConfigError, FormatError, HistoryError, Kind
from wane.conversation import Call, Conversation
from wane.conversation.tool_calls import NOT_A_CALL
from wane.journal import MessageRecord


def start(name: str, **more: Any) -> dict[str, Any]:
    return {"action": "start", "name": name, "type": "expl", **more}


END = {"action": "end", "description": "known"}
BAD: list[Any] = [
    '{"action": ',
    "",
    "[]",
    "7",
    "null",
    {"action": 5, "name": []},
    [],
    7,
    None,
    {"action": "end", "x": {1}},
]


def results_of(conversation: Conversation[Any], messages: list[Any]) -> dict[str | None, str]:
    parts = [part for message in messages for part in conversation.format.parts(message)]
    return {part.call_id: part.text for part in parts if part.kind is Kind.RESULT}


# A loop of one's own


@every_dialect
def test_own_calls_are_answered_and_the_hosts_are_handed_out(dialect: Dialect) -> None:
    conversation = Conversation(dialect.name, recall=True)
    task, reply = dialect.write(
        [
            user("Go."),
            answer_message(
                None,
                ("m1", "delimiter", start("look")),
                ("r1", "read", {"path": "a"}),
                ("m2", "delimiter", start("more")),
                ("c1", "recall", {"search": "Go"}),
                ("r2", "grep", "{not json"),
            ),
        ]
    )
    assert conversation.append(task) == []
    calls = conversation.append(reply)
    assert [(call.name, call.id, json.dumps(call.arguments)) for call in calls] == [
        ("read", "r1", json.dumps(calls[0].arguments)),
        ("grep", "r2", json.dumps("{not json")),
    ]
    assert conversation.calls == calls
    conversation.append(calls[1].result({"found": 0}))
    assert conversation.calls == calls[:1]
    conversation.append(calls[0].result("text"))
    assert conversation.calls == []
    assert not conversation.ended
    told = results_of(conversation, conversation.request().view)
    assert told["m1"].startswith('Started exploration "look"')
    assert told["m2"].startswith('Error: episode "look" is still active')
    assert told["c1"].startswith('"Go" was found in 1 place.')
    assert (told["r1"], told["r2"]) == ("text", '{"found": 0}')
    assert set(told) == {"m1", "m2", "c1", "r1", "r2"}


def test_the_loop_goes_on_after_own_calls_alone_and_ends_with_the_answer() -> None:
    conversation = Conversation()
    assert not conversation.ended
    conversation.append(user("Go."))
    assert not conversation.ended
    assert conversation.append(answer_message(None, ("m1", "delimiter", start("look")))) == []
    assert not conversation.ended
    assert conversation.request().messages[-1] == result("m1", conversation.messages[-1]["content"])
    assert conversation.append(answer_message("Done.")) == []
    assert conversation.ended
    conversation.append(user("And now?"))
    assert not conversation.ended


@pytest.mark.parametrize(
    ("format_", "empty"),
    [
        ("openai", {"role": "assistant", "content": None}),
        ("openai", {"role": "assistant", "content": ""}),
        ("anthropic", {"role": "assistant", "content": []}),
        ("openai_responses", {"items": []}),
        ("openai_responses", []),
    ],
)
def test_the_loop_ends_with_an_empty_answer(format_: str, empty: Any) -> None:
    """A model that has nothing to add would be asked the same again, without end."""
    conversation: Conversation[Any] = Conversation(format_)
    conversation.append({"items": [user("Go.")]} if format_ == "openai_responses" else user("Go."))
    conversation.request()
    assert conversation.append(empty) == []
    assert conversation.ended


def test_no_results_are_no_answer() -> None:
    """A host may append the list of its results, and the model may have called own tools alone."""
    conversation = Conversation()
    assert conversation.append([]) == []
    assert not conversation.ended
    conversation.append(user("Go."))
    conversation.request()
    conversation.append(answer_message(None, ("m1", "delimiter", start("look"))))
    conversation.append([])
    assert not conversation.ended


def test_an_own_call_whose_answer_is_interrupted_is_answered_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    conversation = Conversation(recall=True)
    conversation.extend([user("Go."), answer_message(None, ("c1", "recall", {"search": "Go"}))])
    with monkeypatch.context() as patched:
        patched.setattr("wane.conversation.conversation.answer", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            conversation.request()
    assert "was found in 1 place" in conversation.request().messages[-1]["content"]


def test_calls_of_other_tools_are_not_answered() -> None:
    assert "'read' is not a tool of this conversation" in Conversation().host.answer(Call("read"))


def test_results_stand_ahead_of_what_the_user_says_next() -> None:
    """Anthropic takes nothing between a call and its result."""
    conversation = Conversation("anthropic")
    conversation.append(user("Go."))
    use = {"type": "tool_use", "id": "m1", "name": "delimiter", "input": start("look")}
    conversation.append({"role": "assistant", "content": [use]})
    conversation.append(user("Stop."))
    kinds = [part.kind for message in conversation.messages for part in conversation.format.parts(message)]
    assert kinds == [Kind.USER, Kind.CALL, Kind.RESULT, Kind.USER]


def test_tools_that_a_provider_runs_are_nobodys_to_answer() -> None:
    conversation = Conversation("anthropic")
    conversation.append(user("Go."))
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "r1", "name": "read", "input": {}},
    ]
    assert [call.id for call in conversation.append({"role": "assistant", "content": content})] == ["r1"]


@every_dialect
@times(0.4)
@given(session=histories(), data=st.data())
def test_a_saved_history_brings_the_results_of_own_calls_itself(
    dialect: Dialect, session: Session, data: st.DataObject
) -> None:
    messages = dialect.write(session)
    conversation = Conversation(dialect.name)
    cut = data.draw(st.integers(0, len(messages)))
    for message in messages[:cut]:
        conversation.append(message)
    conversation.extend(messages[cut:])
    assert conversation.messages == messages
    again = Conversation(dialect.name)
    assert again.extend(fresh(conversation.messages)) == []
    assert again.ended == conversation.ended


@pytest.mark.parametrize("followed", [False, True])
def test_a_result_that_comes_with_a_whole_history_is_not_written_again(followed: bool) -> None:
    history = [user("Go."), answer_message(None, ("m1", "delimiter", start("look"))), result("m1", "as it was")]
    conversation = Conversation()
    if followed:
        conversation.log.follow(MessageRecord(message) for message in history)
    else:
        conversation.extend(history[:2])
        conversation.host.ingest(history)
    assert conversation.request().messages == history
    assert conversation.messages == history


def test_what_is_left_open_by_a_saved_history_is_handed_out() -> None:
    conversation = Conversation()
    (call,) = conversation.extend(
        [user("Go."), answer_message(None, ("r1", "read", {}), ("r2", "read", {})), result("r1")]
    )
    assert call.id == "r2"
    conversation.append(call.result("x"))
    assert conversation.request().messages[-1] == result("r2", "x")


@pytest.mark.parametrize("how", ["append", "extend"])
def test_a_refused_list_changes_nothing_and_own_calls_are_still_answered(how: str) -> None:
    conversation = Conversation("anthropic")
    conversation.append(user("Go."))
    calls = [("d1", "delimiter", start("look")), ("r1", "read", {})]
    content = [{"type": "tool_use", "id": i, "name": name, "input": given} for i, name, given in calls]
    (call,) = conversation.append({"role": "assistant", "content": content})

    def results(*ids: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]}

    text = {"role": "user", "content": [{"type": "text", "text": "On."}, *results("nobody")["content"]]}
    for wrong in ([results("d1"), results("nobody")], [results("d1", "nobody")], [user("On."), results("d1")], [text]):
        with pytest.raises(HistoryError, match=r"a result answers the call|have no result yet"):
            getattr(conversation, how)(wrong)
        assert (conversation.length, conversation.calls) == (2, [call])
    conversation.append(call.result("read"))
    conversation.request()
    assert conversation.window.open_calls == {}


def test_a_refused_message_leaves_a_lone_own_call_unanswered() -> None:
    conversation = Conversation()
    conversation.extend([user("Go."), answer_message(None, ("m1", "delimiter", start("look")))])
    for wrong, error in (([user("On."), {"role": "robot"}], FormatError), ([user("On."), result("x")], HistoryError)):
        with pytest.raises(error):
            conversation.append(wrong)
        assert conversation.length == 2
    conversation.extend(
        [user("On."), answer_message(None, ("m2", "delimiter", END)), result("m2"), answer_message("Done.")]
    )
    assert [message["role"] for message in conversation.messages[2:4]] == ["tool", "user"]
    assert conversation.window.open_calls == {}


def test_open_calls_are_known_wherever_the_history_came_from() -> None:
    history = [
        user("Go."),
        answer_message(None, ("m1", "delimiter", start("look")), ("r1", "read", {}), ("r2", "read", {})),
        result("m1"),
        result("r1"),
    ]
    first, ingested, restored = (Conversation() for _ in range(3))
    first.extend(history)
    ingested.host.ingest(history)
    assert restored.restore(json.loads(json.dumps(first.state())), history)
    for conversation in (first, ingested, restored, first.branch()):
        (call,) = conversation.calls
        assert call.id == "r2"
        conversation.append(call.result("x"))
        assert conversation.calls == []
        assert conversation.messages == [*history, result("r2", "x")]
    assert [call.id for call in first.branch(3).calls] == ["r1", "r2"]


def test_a_branch_from_before_the_result_of_an_own_call_answers_it() -> None:
    conversation = Conversation()
    conversation.extend(
        [user("Go."), answer_message(None, ("m1", "delimiter", start("look")), ("r1", "read", {})), result("r1")]
    )
    messages = conversation.request().messages
    branch = conversation.branch(2)
    (call,) = branch.calls
    branch.append(call.result("ok"))
    assert branch.request().messages == messages
    ingested = Conversation()
    ingested.host.ingest(messages)
    other = ingested.branch(2)
    other.host.ingest(messages)
    assert other.request().messages == messages


@pytest.mark.parametrize(("recall", "how"), [(True, '{"name": "look", "search": '), (False, "Read again what you")])
def test_the_start_of_an_act_says_what_has_left_and_goes_on_saying_so_wherever_the_history_goes(
    recall: bool, how: str
) -> None:
    """R3: the text is decided when the call is judged, and is a part of the history from then on."""
    act = {"action": "start", "name": "fix", "type": "act", "dependencies": ["look"]}
    lived = Conversation(budget="4k", recall=recall)
    lived.extend([user("Go."), answer_message(None, ("m1", "delimiter", start("look")), ("r1", "read", {}))])
    lived.extend([result("r1", "x" * 12_000), answer_message(None, ("m2", "delimiter", END), ("r2", "read", {}))])
    lived.extend([result("r2", "y" * 12_000), answer_message("Known.")])
    assert lived.request().report is not None
    lived.append(user("Fix it."))
    lived.request()
    before = lived.log.records()
    lived.append(answer_message(None, ("m3", "delimiter", act)))
    text = results_of(lived, lived.messages)["m3"]
    assert 'steps of "look" have left your view.' in text
    assert how in text
    # Judged in another process, which had the calls alone, and brought along by one that has the results, too.
    judged, brought = Conversation(budget="4k", recall=recall), Conversation(budget="400k", recall=recall)
    judged.log.follow(before)
    judged.append(answer_message(None, ("m3", "delimiter", act)))
    brought.log.follow(lived.log.records())
    assert judged.messages == brought.messages == lived.branch().messages == lived.messages
    restored = Conversation(budget="400k", recall=recall)
    assert restored.restore(json.loads(json.dumps(lived.state())), lived.messages)
    assert restored.request().messages == lived.request().messages


def test_a_call_of_no_conversation_writes_no_message() -> None:
    with pytest.raises(ConfigError, match="not from a conversation"):
        Call("read", "{}", "c1").result("x")


# Foreseen


def ahead(*calls: tuple[str | None, Any]) -> list[Call[Any]]:
    made: list[Call[Any]] = []
    for call_id, arguments in calls:
        tool = "read" if arguments is READ else "delimiter"
        made.append(Call(tool, arguments, call_id))
    return made


READ = {"path": "a"}
CALLS = ahead(("a", start("x")), ("r", READ), ("b", start("x")), ("c", END), ("d", start("y")))


def begin_conversation() -> Conversation[Any]:
    conversation = Conversation()
    conversation.append(user("Go."))
    conversation.request()
    return conversation


def verdicts(conversation: Conversation[Any]) -> list[bool]:
    return [not conversation.host.answer(call).startswith("Error") for call in CALLS if call.name == "delimiter"]


def test_calls_are_judged_ahead_as_they_will_be_judged() -> None:
    conversation = begin_conversation()
    conversation.host.foresee(CALLS)
    told = {call.id: conversation.host.answer(call) for call in CALLS if call.name == "delimiter"}
    assert [text.split()[0] for text in told.values()] == ["Started", "Error:", "Ended", "Started"]
    foreseen = [(call.id or "", call.name, call.arguments) for call in CALLS]
    conversation.host.ingest([user("Go."), answer_message(None, *foreseen)])
    assert {call.id: conversation.host.answer(call) for call in CALLS if call.name == "delimiter"} == told
    assert conversation.window.active is not None
    assert conversation.window.active.name == "y"


def test_an_answer_may_be_foreseen_piece_by_piece_and_twice() -> None:
    conversation = begin_conversation()
    for call in (*CALLS, *CALLS):
        conversation.host.foresee([call])
    assert verdicts(conversation) == [True, False, True, True]


def test_an_answer_that_came_to_nothing_is_forgotten() -> None:
    conversation = begin_conversation()
    conversation.host.foresee(ahead(("a", start("x"))))
    conversation.request()
    conversation.host.foresee(ahead((None, start("x"))))
    assert conversation.host.answer(Call("delimiter", start("x"))).startswith("Started")


def test_verdicts_are_found_without_ids() -> None:
    """By arguments however they are written, or in order."""
    calls = [Call(call.name, call.arguments) for call in CALLS]

    def foreseen() -> Conversation[Any]:
        conversation = begin_conversation()
        conversation.host.foresee(calls)
        return conversation

    by_arguments = foreseen()
    spelled = {"type": "expl", "dependencies": None, "name": "y", "action": "start"}
    assert 'exploration "y"' in by_arguments.host.answer(Call("delimiter", spelled))
    assert by_arguments.host.answer(Call("delimiter", json.dumps(END))).startswith("Ended")
    in_order = foreseen()
    assert [in_order.host.answer(Call("delimiter", {"x": n})).split()[0] for n in range(5)] == [
        *("Started", "Error:", "Ended", "Started"),
        NOT_A_CALL.split()[0],
    ]


def test_calls_with_the_same_arguments_are_answered_once_each_whatever_thread_asks() -> None:
    conversation = begin_conversation()
    calls = [Call("delimiter", start("x")) for _ in range(40)]
    conversation.host.foresee(calls)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(conversation.host.answer, calls))
    assert sum(text.startswith("Started") for text in told) == 1
    assert sum(text.startswith("Error: episode") for text in told) == 39


def test_what_was_given_out_ahead_is_not_given_out_again() -> None:
    conversation = begin_conversation()
    calls = [Call("delimiter", start("x")), Call("delimiter", start("x"))]
    conversation.host.foresee(calls)
    assert conversation.host.answer(calls[0]).startswith("Started")
    reply = answer_message(None, ("p1", "delimiter", start("x")), ("p2", "delimiter", start("x")))
    conversation.host.ingest([user("Go."), reply])
    assert conversation.host.answer(calls[1]).startswith("Error: episode")


@pytest.mark.parametrize("given", BAD, ids=repr)
def test_a_bad_call_is_told_what_is_wrong_and_raises_nothing(given: Any) -> None:
    conversation = Conversation(recall=True)
    conversation.append(user("Go."))
    conversation.request()
    good = Call("delimiter", start("x"), "g")
    bad, unknown = Call("delimiter", given, "b"), Call("delimiter", given, "nobody")
    conversation.host.foresee([bad, good])
    assert conversation.host.answer(bad).startswith("Error")
    assert conversation.host.answer(good).startswith("Started")
    assert conversation.host.answer(unknown) == NOT_A_CALL
    assert conversation.host.answer(Call("recall", given)).startswith("Error: `recall` needs")
    assert conversation.host.answer(Call("delimiter", given)) == NOT_A_CALL


def test_calls_of_an_answer_in_the_history_are_found_too() -> None:
    conversation = Conversation()
    conversation.host.ingest(
        [user("Go."), answer_message(None, ("a", "delimiter", start("x")), ("b", "delimiter", END))]
    )
    assert conversation.host.answer(Call("delimiter", {}, "b")).startswith("Ended")
    assert conversation.host.answer(Call("delimiter", start("x"))).startswith("Started")
    assert conversation.host.answer(Call("delimiter", END)) == NOT_A_CALL


def test_open_calls_of_earlier_answers_keep_their_verdicts() -> None:
    conversation = Conversation()
    history = [user("Go."), answer_message(None, ("a", "delimiter", start("x")), ("b", "delimiter", END)), result("b")]
    conversation.host.ingest([*history, answer_message(None, ("c", "delimiter", start("y")))])
    assert [conversation.host.answer(Call("delimiter", "", it)).split()[0] for it in "abc"] == [
        "Started",
        "Error:",
        "Started",
    ]


def test_an_episode_that_is_not_there_yet_is_recalled_as_soon_as_it_is() -> None:
    conversation = Conversation(recall=True)
    conversation.host.ingest([user("Go.")])
    look = Call("recall", {"name": "x"}, "c")
    assert conversation.host.answer(look).startswith("Error: no episode is named 'x'")
    conversation.host.ingest([user("Go."), answer_message(None, ("a", "delimiter", start("x")))])
    assert conversation.host.answer(look).startswith('Episode "x", whole')


CALLED: dict[str, Any] = {
    "openai": {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    "anthropic": {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
    "openai_responses": {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"},
    "gemini": {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "read", "args": {}}}]},
}


@pytest.mark.parametrize("format_name", CALLED)
@pytest.mark.parametrize("way", ["append", "extend"])
def test_turn_ahead_of_a_result_is_refused_where_the_provider_refuses_it(format_name: str, way: str) -> None:
    conversation = Conversation[Any](format_name)
    turn = {"role": "user", "content": "Go on."}
    if format_name == "gemini":
        turn = {"role": "user", "parts": [{"text": "Go on."}]}
    conversation.append(turn)
    (call,) = conversation.append(CALLED[format_name])

    def give() -> object:
        return conversation.append(turn) if way == "append" else conversation.extend([turn])

    if format_name == "openai_responses":
        give()
        assert conversation.length == 3
        return
    with pytest.raises(HistoryError, match=r"the calls a have no result yet, .* Append `call.result"):
        give()
    assert conversation.length == 2
    conversation.append(call.result("r"))
    give()
    conversation.request()
