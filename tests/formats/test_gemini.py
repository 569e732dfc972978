"""Gemini's contents: what each part becomes, what stays together, what goes into a request, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from tests.conversation.support import place_results
from tests.formats.convert import SIGNATURE, to_gemini
from tests.formats.test_contract import Case, Session, live
from tests.strategies import policies, sessions
from wane import FormatError, Kind, Policy
from wane.formats import Part
from wane.formats.gemini import GeminiFormat, is_reasoning, seal_of
from wane.formats.gemini_calls import field, name_results
from wane.formats.openai import NON_TEXT_TOKENS

FORMAT = GeminiFormat()
SEAL = {"thoughtSignature": SIGNATURE}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}


def call(name: str = "grep", args: Any = None, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {} if args is None else args}, **fields}


def response(name: str = "grep", output: Any = "found", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **fields}}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def text(said: str = "So.") -> dict[str, Any]:
    return {"text": said}


def needs(*parts: dict[str, Any]) -> list[set[int]]:
    """What each item of an answer needs, as positions."""
    return [{here + offset for offset in part.needs} for here, part in enumerate(FORMAT.parts(model(*parts)))]


def first_calls(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of each content that has one."""
    calls = [[part for part in message["parts"] if "functionCall" in part] for message in messages]
    return [called[0] for called in calls if called]


# Parts


def test_an_answer_gives_its_parts_in_order() -> None:
    thought = {"text": "Hm.", "thought": True}
    parts = FORMAT.parts(model(thought, text(), call("Grep", {"pattern": "ä", "n": [1]}), call("Read")))
    assert [part.kind for part in parts] == [Kind.REASONING, Kind.TEXT, Kind.CALL, Kind.CALL]
    assert [part.text for part in parts[:2]] == ["Hm.", "So."]
    assert parts[2].arguments == '{"pattern":"ä","n":[1]}'


def test_calls_without_ids_are_named_by_their_tool_and_pair_with_their_results() -> None:
    named = {"functionCall": {"name": "read", "id": "x"}}
    calls = FORMAT.parts(model(call("read"), call("grep"), call("read"), named))
    results = FORMAT.parts(user(response("read"), response("grep"), response("read"), response("read", id="x")))
    assert [part.call_id for part in calls] == ["read#0", "grep#0", "read#1", "x"]
    assert [part.call_id for part in results] == ["read#0", "grep#0", "read#1", "x"]
    assert FORMAT.parts(model(named)) == [Part(Kind.CALL, call_id="x", tool="read", arguments="{}")]


def test_results_given_one_by_one_answer_parallel_calls_without_ids() -> None:
    """An older model names no calls, and a loop appends each result by itself."""
    conversation = wane.Conversation("gemini")
    conversation.append(user(text("Go.")))
    first, second = conversation.append(model(call("read", {"path": "a"}), call("read", {"path": "b"})))
    conversation.append(second.result("of b"))
    assert [open_.id for open_ in conversation.calls] == [first.id]
    conversation.append(first.result("of a"))
    (_, _, answers) = conversation.request().messages
    # They go out in the order of the calls, without the ids that Gemini never gave.
    assert answers["parts"] == [response("read", "of a"), response("read", "of b")]


@pytest.mark.parametrize("ids", [("c1", "c2", "c3"), (None, None, None)])
def test_results_that_do_not_name_their_calls_answer_them_in_order(ids: tuple[str | None, ...]) -> None:
    """As Google's SDK gives them, in one content or one by one."""
    named = [{"id": id_} if id_ else {} for id_ in ids]
    tools = ("read", "grep", "read")
    calls = [{"functionCall": {"name": tool, "args": {}, **id_}} for tool, id_ in zip(tools, named, strict=True)]
    answers = [response(tool, str(number)) for number, tool in enumerate(tools)]
    expected = [{**answer["functionResponse"], **id_} for answer, id_ in zip(answers, named, strict=True)]
    for way in ([user(*answers)], [user(each) for each in answers], [user(answers[1]), user(answers[0], answers[2])]):
        conversation = wane.Conversation("gemini")
        assert len(conversation.extend([user(text("Go.")), model(*calls)])) == 3
        for content in way:
            conversation.append(content)
        assert conversation.calls == []
        sent = [part["functionResponse"] for part in conversation.request().messages[-1]["parts"]]
        assert sorted(sent, key=lambda each: str(each["response"])) == expected
        hosted = wane.Conversation("gemini")
        hosted.host.ingest([user(text("Go.")), model(*calls), *way])
        hosted.host.ingest([user(text("Go.")), model(*calls), *way, model(text("Done."))])
        assert (hosted.length, hosted.calls) == (3 + len(way), [])


def test_a_result_that_is_repeated_is_left_out() -> None:
    """As in a resumed session of Gemini CLI 0.61; Gemini refuses more results than calls."""
    named = {"functionCall": {"id": "c1", "name": "read", "args": {}}}
    answer = {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "x"}}}
    conversation = wane.Conversation("gemini")
    conversation.extend([user(text("Go.")), model(named), user(answer, answer, text("On."))])
    assert conversation.request().messages[-1] == user(answer, text("On."))


def test_a_result_that_is_repeated_further_behind_is_left_out() -> None:
    """As in a session of Gemini CLI 0.61 that an editor loads again: all calls stand in one content."""
    called = [{"functionCall": {"id": each, "name": "read", "args": {}}} for each in ("c1", "c2")]
    first, second = ({"functionResponse": {"id": each, "name": "read", "response": {}}} for each in ("c1", "c2"))
    again = {"functionCall": {"id": "c1", "name": "read", "args": {}}}
    history = [user(text("Go.")), model(*called), user(first, second, first), model(text("A.")), user(second)]
    history += [model(text("B.")), user(text("On."), second), model(again), user(first)]
    expected = [user(text("Go.")), model(*called), user(first, second), model(text("A.")), model(text("B."))]
    assert name_results(history) == [*expected, user(text("On.")), model(again), user(first)]


def test_fields_may_be_spelled_as_in_the_protocol_buffer() -> None:
    snake = {"function_call": {"name": "read", "args": {}}, "thought_signature": SIGNATURE}
    assert FORMAT.parts(model(snake)) == FORMAT.parts(model(call("read", **SEAL)))
    assert seal_of(snake) == SIGNATURE
    answer = {"function_response": {"name": "read", "response": {"output": "x"}}}
    assert FORMAT.parts(user(answer)) == FORMAT.parts(user(response("read", "x")))
    assert FORMAT.clear_result(user(answer), 0, "gone")["parts"][0]["function_response"]["response"] == {
        "output": "gone"
    }


@pytest.mark.parametrize(
    ("given_response", "read"),
    [
        ({"output": "found"}, "found"),
        ({"error": "no such file"}, "no such file"),
        ({"result": "x"}, "x"),
        ({"result": {"n": 1}}, '{"result":{"n":1}}'),
        ({"output": "x", "n": 1}, '{"output":"x","n":1}'),
        ({}, "{}"),
        (None, ""),
    ],
)
def test_a_result_is_its_text_or_its_json(given_response: Any, read: str) -> None:
    part = {"functionResponse": {"name": "grep", "response": given_response}}
    failed = "error" in (given_response or {})
    assert FORMAT.parts(user(part)) == [Part(Kind.RESULT, read, call_id="grep#0", shows_nothing=failed)]


def test_media_are_estimated() -> None:
    shown = {"functionResponse": {"name": "look", "response": {}, "parts": [IMAGE, IMAGE]}}
    assert [part.extra_tokens for part in FORMAT.parts(user(IMAGE, shown))] == [NON_TEXT_TOKENS, 2 * NON_TEXT_TOKENS]
    assert FORMAT.parts(model(IMAGE)) == [Part(Kind.TEXT, extra_tokens=NON_TEXT_TOKENS)]


def test_a_signature_by_itself_is_reasoning_with_an_estimate() -> None:
    (part,) = FORMAT.parts(model({"text": "", **SEAL}))
    assert (part.kind, part.text) == (Kind.REASONING, "")
    assert part.extra_tokens == len(SIGNATURE) * 3 // 16
    assert FORMAT.parts(model({"text": "So.", **SEAL})) == [Part(Kind.TEXT, "So.")]


@pytest.mark.parametrize("role", ["user", None, "function"])
def test_an_empty_turn_is_an_item(role: str | None) -> None:
    assert FORMAT.parts({"parts": []} | ({"role": role} if role else {})) == [Part(Kind.USER)]


def test_what_a_harness_says_is_a_notice() -> None:
    parts = FORMAT.parts(user(text("<system-reminder>x</system-reminder>"), text("Go.")))
    assert [part.kind for part in parts] == [Kind.NOTICE, Kind.USER]


def test_what_gemini_runs_is_a_call_with_its_result() -> None:
    search = {"toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"query": "x"}}}
    found = {"toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}}
    message = model(CODE, RAN, search, found, call())
    parts = FORMAT.parts(message)
    assert [part.kind for part in parts] == [Kind.CALL, Kind.RESULT, Kind.CALL, Kind.RESULT, Kind.CALL]
    assert [part.call_id for part in parts] == ["code_execution#0", "code_execution#0", "t1", "t1", "grep#0"]
    assert [FORMAT.awaits(message, position) for position in (0, 2, 4)] == [False, False, True]
    assert needs(CODE, RAN, search, found, call())[:4] == [{1}, {0}, {3}, {2}]
    assert FORMAT.clear_result(message, 1, "gone") is message


# What stays together (R12)


def test_parallel_calls_need_the_one_that_is_signed() -> None:
    assert needs(call("a", **SEAL), call("b"), call("c")) == [set(), {0}, {0}]
    assert needs(call("a", **SEAL), call("b"), call("c", **SEAL), call("d")) == [set(), {0}, set(), {2}]
    assert needs(text(), call("a"), call("b")) == [set(), set(), set()]


def test_calls_need_a_signed_thought_and_it_needs_what_follows() -> None:
    thought = {"text": "Hm.", "thought": True}
    assert needs({**thought, **SEAL}, text(), call("a")) == [{1}, set(), {0}]
    assert needs(thought, call("a", **SEAL), call("b")) == [set(), set(), {1}]


def _answers_early(session: Session) -> bool:
    """Whether an answer comes while calls of an earlier one wait for their results."""
    waiting: set[str] = set()
    for message in session:
        if message["role"] == "assistant":
            if waiting:
                return True
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
        elif message["role"] == "tool":
            waiting.discard(message["tool_call_id"])
    return False


@given(session=sessions(), budget=st.integers(1, 400), policy=policies(), ids=st.booleans())
def test_no_view_has_a_content_whose_first_call_lost_its_signature(
    session: Session, budget: int, policy: Policy, ids: bool
) -> None:
    if not ids:
        # Without ids, results can only be told by their order.
        session = place_results(session)
    case = Case("gemini", FORMAT, lambda messages: name_results(to_gemini(messages, signed=True, ids=ids)))
    lived = live(case, session, budget, policy)
    assert all(seal_of(part) == SIGNATURE for part in first_calls(lived.view))
    whole = {id(part): part for message in lived.messages for part in message["parts"]}
    assert all(whole[id(part)] == part for message in lived.view for part in message["parts"])


# Requests


def test_neighbours_become_one_content_with_results_first() -> None:
    sent = FORMAT.wire(
        [user(text("Go.")), model(text("A.")), model(call()), user(text("Wait.")), user(response()), user(text("On."))]
    )
    assert sent == [
        user(text("Go.")),
        model(text("A."), call()),
        user(response(), text("Wait."), text("On.")),
    ]


def test_what_gemini_refuses_is_not_sent() -> None:
    go, raw = user(text("Go.")), call(args='{"p": ')
    thought = {"text": "Hm.", "thought": True, **SEAL}
    sent = FORMAT.wire([go, model(thought), model(text("")), user(), go])
    assert sent == [user(text("Go."), text("Go."))]
    (answer,) = FORMAT.wire([model(text(""), raw, {"text": "", **SEAL}, call(args=" "))])
    assert [field(part, "functionCall") for part in answer["parts"]] == [
        {"name": "grep", "args": {"INVALID_JSON": '{"p": '}},
        None,
        {"name": "grep", "args": {}},
    ]
    assert answer["parts"][1] == {"text": "", **SEAL}
    whole = model(call(args={"p": 1}, **SEAL))
    assert FORMAT.wire([whole])[0] is whole
    assert FORMAT.wire([{"role": "system", "parts": [text("Be brief.")]}]) == [user(text("Be brief."))]


@given(session=sessions(), joined=st.booleans())
def test_a_request_alternates_and_has_no_empty_content(session: Session, joined: bool) -> None:
    sent = FORMAT.wire(to_gemini(session, joined=joined))
    roles = [content["role"] for content in sent]
    assert all(one != other for one, other in pairwise(roles))
    assert all(content["parts"] for content in sent)
    assert not any(all(map(is_reasoning, content["parts"])) for content in sent if content["role"] == "model")


# What is taken in


def test_an_answer_of_googles_sdk_is_taken() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    part = types.Part(function_call=types.FunctionCall(name="read", args={"path": "a"}), thought_signature=b"\xff\xfe?")
    content = types.Content(role="model", parts=[types.Part(text="Hm.", thought=True), part])
    answer = types.GenerateContentResponse(candidates=[types.Candidate(content=content)])
    expected = model(
        {"text": "Hm.", "thought": True},
        {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "__4_"},
    )
    for entry in (answer, answer.candidates[0], content, {"candidates": [{"content": expected}]}):
        conversation = wane.Conversation("gemini")
        conversation.append(user(text("Go.")))
        (made,) = conversation.append(entry)
        assert (made.name, made.arguments) == ("read", '{"path":"a"}')
        assert conversation.messages[-1] == expected
        # The SDK takes it back, with the same signature.
        assert types.Content.model_validate(conversation.messages[-1]).parts[1].thought_signature == b"\xff\xfe?"


def test_an_answer_with_several_candidates_is_refused_and_one_without_words_is_not() -> None:
    conversation = wane.Conversation("gemini")
    conversation.append(user(text("Go.")))
    with pytest.raises(FormatError, match="an answer with 2 candidates; append the content of the one you use"):
        conversation.append({"candidates": [{}, {}]})
    conversation.append({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]})
    assert conversation.messages[-1] == {"role": "model", "parts": []}


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ({"role": "assistant", "parts": []}, "role 'assistant' is unknown; known: user, model"),
        (model({"text": 3}), "text must be a string, found int"),
        (model({"functionCall": "read"}), "functionCall must be an object, found str"),
        (model({"functionCall": {"args": {}}}), "name must be a string that is not empty"),
        (user({"functionResponse": {"response": {}}}), "name must be a string that is not empty"),
        (user({"functionResponse": []}), "functionResponse must be an object, found list"),
        ({"role": "user"}, "the parts of a content must be a list, found NoneType"),
        ({"role": "user", "parts": ["Go."]}, "a part must be an object, found str"),
        ("Go.", "a content must be an object, found str"),
    ],
)
def test_what_is_malformed_is_refused(message: Any, match: str) -> None:
    with pytest.raises(FormatError, match=match):
        FORMAT.parts(message)
