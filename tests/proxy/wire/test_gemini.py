"""Gemini's protocol: requests with own tools, replies without them, and what a client sends back."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, answer_rounds, events, mark, run
from tests.proxy.wire.views import with_view
from wane.formats.gemini import UNCHECKED
from wane.prices import TokenUsage
from wane.proxy.wire.gemini.gemini_wire import GeminiWire
from wane.proxy.wire.wire import AnsweredRound, Body, BrokenReplyError, ClientReply, Message, OwnCall, Round
from wane.testing import Call, Usage
from wane.testing import Reply as Scripted
from wane.testing.gemini import Gemini

WIRE = GeminiWire()
NEW, OLD = "gemini-3.1-pro-preview", "gemini-2.5-flash"
READ = Call("read", {"path": "a.py"})
GO = {"role": "user", "parts": [{"text": "Go."}]}
TOOLS = [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": {"type": "object"}}]}]


def received_body(stream: bool = False, model: str = NEW, query: bytes = b"alt=sse", **fields: Any) -> Body:
    verb = "streamGenerateContent" if stream else "generateContent"
    body = {"contents": [GO], "tools": TOOLS, **fields}
    return WIRE.read_path(body, f"/v1beta/models/{model}:{verb}", query if stream else b"")


def answer_request(body: Body, reply: Scripted, number: int = 0) -> bytes:
    """What Gemini answers, if it takes the request."""
    provider = Gemini()
    sent = WIRE.outgoing(body, "", counts=False)
    told = {"model": body["model"], "stream": body["stream"]}
    request = provider.parse(json.dumps(sent).encode(), sent, {}, number, told)
    provider.check(request)
    usage = reply.usage or Usage(100, reply.tokens)
    if request.stream:
        return b"".join(event.encode() for event in provider.stream(request, reply, usage))
    return json.dumps(provider.answer(request, reply, usage)).encode()


def serve_script(script: Sequence[Scripted], body: Body, cuts: Sequence[int] = ()) -> tuple[bytes, list[Round]]:
    """One reply for the client from a script of rounds, as the server makes it."""
    equipped = WIRE.equip(body, [DELIMITER], GUIDANCE)
    reply, extra, out = WIRE.reply(body, OWN), list[Message](), b""
    rounds: list[Round] = []
    for number, scripted in enumerate(script):
        asked = with_view(WIRE, equipped, [*body["contents"], *extra])
        raw = answer_request(asked, scripted, number)
        for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(raw)], strict=True):
            out += reply.feed(raw[start:stop])
        rounds.append(reply.end())
        if not rounds[-1].alone:
            break
        for each in answer_rounds(WIRE, rounds[-1:]):
            extra += [each.message, *each.results]
    return out + reply.finish(), rounds


def parts_in(raw: bytes, *, stream: bool) -> list[dict[str, Any]]:
    """The parts that a client gets, with the pieces of texts joined."""
    responses = list(events(raw)) if stream else [json.loads(raw)]
    return merge_texts([part for each in responses for part in each["candidates"][0]["content"].get("parts", ())])


def merge_texts(pieces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts with the pieces of texts joined, as clients do."""
    parts: list[dict[str, Any]] = []
    for part in pieces:
        before = parts[-1] if parts else {}
        if "text" in part and part.keys() == before.keys() and "thoughtSignature" not in part:
            parts[-1] = {**before, "text": before["text"] + part["text"]}
        elif part != {"text": ""}:
            parts.append(part)
    return parts


def tools_in(parts: Sequence[dict[str, Any]]) -> list[str]:
    return [part["functionCall"]["name"] for part in parts if "functionCall" in part]


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
models = pytest.mark.parametrize("model", [NEW, OLD])

# Requests


def test_a_path_tells_the_model_and_the_form_of_the_reply() -> None:
    body = received_body(stream=True)
    assert (body["model"], body["stream"], body["array"]) == (NEW, True, False)
    assert received_body(stream=True, query=b"key=k")["array"] is True
    assert WIRE.outgoing(body, "", counts=False) == {"contents": [GO], "tools": TOOLS}
    path = b"/v1beta/models/m:streamGenerateContent"
    assert WIRE.target(received_body(stream=True, query=b""), path) == path + b"?alt=sse"
    assert WIRE.target(received_body(stream=True, query=b""), path + b"?key=k&alt=json") == path + b"?key=k&alt=sse"
    assert WIRE.target(body, path + b"?alt=sse&key=k") == path + b"?alt=sse&key=k"


def test_what_is_counted_is_the_whole_request() -> None:
    path = f"/v1beta/models/{NEW}:countTokens"
    body = WIRE.read_path({"contents": [GO]}, path, b"")
    assert WIRE.outgoing(body, path, counts=True) == {"contents": [GO]}
    equipped = WIRE.equip(WIRE.read_path({"contents": [GO], "tools": TOOLS}, path, b""), [DELIMITER], GUIDANCE).body
    counted = WIRE.outgoing(equipped, path, counts=True)["generateContentRequest"]
    assert (counted["model"], tools_of(counted)) == (f"models/{NEW}", ["read", "delimiter"])
    again = WIRE.read_path({"generateContentRequest": counted}, path, b"")
    assert tools_of(again) == ["read", "delimiter"]
    vertex = path.replace("/models", "/publishers/google/models")
    assert WIRE.outgoing(equipped, vertex, counts=True).keys() == {"contents", "tools", "systemInstruction"}


def tools_of(body: Body) -> list[str]:
    (tool,) = [tool for tool in body["tools"] if "functionDeclarations" in tool]
    return [declared["name"] for declared in tool["functionDeclarations"]]


@pytest.mark.parametrize("name", ["systemInstruction", "system_instruction"])
def test_own_tools_and_guidance_come_after_the_clients(name: str) -> None:
    body = received_body(**{name: {"parts": [{"text": "Be brief."}]}}, tools=[*TOOLS, {"googleSearch": {}}])
    saved = copy.deepcopy(body)
    equipped = WIRE.equip(body, [DELIMITER], GUIDANCE).body
    assert tools_of(equipped) == ["read", "delimiter"]
    assert equipped["tools"][1] == {"googleSearch": {}}
    assert equipped[name]["parts"] == [{"text": "Be brief."}, {"text": GUIDANCE}]
    assert body == saved
    plain = WIRE.equip(received_body(), [DELIMITER], GUIDANCE).body
    assert plain["systemInstruction"] == {"parts": [{"text": GUIDANCE}]}
    assert WIRE.equip(body, [], "").body == body


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"contents": []}, "contents"),
        ({"contents": "Go."}, "contents"),
        ({"tools": []}, "no tools"),
        ({"tools": [{"googleSearch": {}}]}, "no tools"),
        ({"tools": {}}, "not a list|no tools"),
        ({"cachedContent": "cachedContents/x"}, "cache"),
        ({"generationConfig": {"candidateCount": 2}}, "several answers"),
        ({"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}, "more than text"),
        ({"systemInstruction": "Be brief."}, "systemInstruction"),
    ],
)
def test_what_cannot_be_managed_is_said(fields: Any, why: str) -> None:
    assert re.search(why, WIRE.why_unmanaged(received_body(**fields)) or "")
    assert WIRE.why_unmanaged(received_body(generationConfig={"maxOutputTokens": 9})) is None


def test_signatures_and_ids_do_not_tell_contents_apart() -> None:
    call = {"functionCall": {"name": "read", "args": {"p": 1}}}
    signed = {"role": "model", "parts": [{**call, "thoughtSignature": UNCHECKED[0]}]}
    plain = {"role": "model", "parts": [call]}
    assert WIRE.canonical(signed) == WIRE.canonical(plain)
    named = {"role": "model", "parts": [{"functionCall": {"id": "x", **call["functionCall"]}}]}
    assert WIRE.shape_parts(named) == WIRE.shape_parts(plain)


def test_a_note_stands_behind_results_and_not_behind_the_models_words() -> None:
    body = received_body()
    noted = WIRE.add_note(body, "Mark.")
    assert noted["contents"] == [{"role": "user", "parts": [{"text": "Go."}, {"text": "Mark."}]}]
    own = received_body(contents=[GO, {"role": "model", "parts": [{"text": "So"}]}])
    assert WIRE.add_note(own, "Mark.") is own


# Replies


@both
@models
def test_a_reply_without_own_calls_is_passed_on_unchanged(stream: bool, model: str) -> None:
    body = received_body(stream, model)
    raw = answer_request(body, Scripted("Hello, world.", calls=(READ, READ)))
    told = run(WIRE.reply(body, OWN), [raw], [9, 40, 41])
    assert told.bytes == raw
    (round_,) = told.rounds
    assert (round_.own, round_.calls, round_.alone, round_.complete) == ((), 2, False, True)
    assert round_.message["parts"] == parts_in(raw, stream=stream)


@both
@models
def test_own_calls_are_hidden_and_rounds_become_one_reply(stream: bool, model: str) -> None:
    body = received_body(stream, model)
    script = [
        Scripted("A", calls=(mark(),), usage=Usage(100, 10, cache_read=40)),
        Scripted(None, calls=(mark("end"), mark()), usage=Usage(120, 10)),
        Scripted("B", calls=(mark(), READ), usage=Usage(130, 20)),
    ]
    raw, rounds = serve_script(script, body)
    assert [round_.alone for round_ in rounds] == [True, True, False]
    assert [len(round_.own) for round_ in rounds] == [1, 2, 1]
    parts = parts_in(raw, stream=stream)
    assert "".join(part.get("text", "") for part in parts) == "A\n\nB"
    assert tools_in(parts) == ["read"]
    last = list(events(raw))[-1] if stream else json.loads(raw)
    usage = last["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (350, 40)
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert rounds[0].usage == TokenUsage(100, 10, 40, 0)
    ids = {response["responseId"] for response in (events(raw) if stream else [json.loads(raw)])}
    assert len(ids) == 1
    assert merge_texts(WIRE.visible(rounds)["parts"]) == parts


def test_an_array_has_what_events_have() -> None:
    script = [Scripted("A", calls=(mark(),)), Scripted("B", calls=(READ,))]
    raw, _ = serve_script(script, received_body(stream=True, query=b""))
    shown, _ = serve_script(script, received_body(stream=True))
    assert json.loads(raw) == list(events(shown))
    single, _ = serve_script([Scripted("Hi.")], received_body(stream=True, query=b""))
    assert json.loads(single) == list(events(serve_script([Scripted("Hi.")], received_body(stream=True))[0]))
    assert WIRE.reply(received_body(stream=True, query=b""), OWN).content_type == b"application/json"
    reply = WIRE.reply(received_body(stream=True, query=b""), OWN)
    begun = reply.feed(answer_request(received_body(stream=True), Scripted("Hi.")))
    error = json.loads(begun + reply.fail(503, b"busy"))[-1]
    assert error == {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}


REPLIES = st.builds(
    Scripted,
    st.sampled_from([None, "A", "B. ", "é…"]),
    calls=st.lists(st.sampled_from([READ, mark(), mark("end")]), max_size=3).map(tuple),
)


@both
@models
@given(script=st.lists(REPLIES, min_size=1, max_size=4), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_whatever_is_said_goes_back_as_it_came_and_is_never_refused(
    stream: bool, model: str, script: list[Scripted], cuts: list[int]
) -> None:
    """A client sends back what it saw; what goes upstream is exactly the rounds, which Gemini accepts."""
    body = received_body(stream, model)
    ends = next((number for number, reply in enumerate(script) if is_last(reply)), None)
    script = [*script[:ends], Scripted("Done.")] if ends is None else script[: ends + 1]
    raw, rounds = serve_script(script, body, cuts)
    parts = parts_in(raw, stream=stream)
    assert not any(tool in OWN for tool in tools_in(parts))
    visible = WIRE.visible(rounds)
    assert merge_texts(visible["parts"]) == parts
    if not parts:
        return
    known = answer_rounds(WIRE, rounds)
    for sent in (visible, {**visible, "parts": parts}, edit_message(visible)):
        back = WIRE.expand(sent, known)
        assert [message for message in back if message["role"] == "user"] == [r for k in known for r in k.results]
        if sent is visible:
            assert back == [message for each in known for message in (each.message, *each.results) if message["parts"]]
        results = [
            {"functionResponse": {"name": tool, "response": {"output": "r"}}} for tool in tools_in(visible["parts"])
        ]
        turn = {"role": "user", "parts": results or [{"text": "And?"}]}
        again = WIRE.read_path({**body, "contents": [GO, sent, turn]}, f"/models/{model}:generateContent", b"")
        equipped = WIRE.equip(again, [DELIMITER], GUIDANCE)
        whole = [again["contents"][0], *WIRE.expand(again["contents"][1], known), *again["contents"][2:]]
        answer_request(with_view(WIRE, equipped, whole), Scripted("Fine."), 9)


def is_last(reply: Scripted) -> bool:
    return READ in reply.calls or not reply.calls


def edit_message(message: Message) -> Message:
    """As Gemini CLI writes it: with a signature on the first call if it has none, and texts joined."""
    parts = copy.deepcopy(message["parts"])
    for part in parts:
        if "functionCall" in part:
            part.setdefault("thoughtSignature", UNCHECKED[0])
            break
    return {**message, "parts": parts}


def test_a_blocked_prompt_is_passed_on() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}
    for stream in (False, True):
        raw = json.dumps(blocked).encode()
        raw = b"data: %b\n\n" % raw if stream else raw
        told = run(WIRE.reply(received_body(stream), OWN), [raw])
        assert told.bytes == raw
        (round_,) = told.rounds
        assert (round_.complete, round_.usage) == (False, TokenUsage(7, 0, 0, 0))


@pytest.mark.parametrize(
    ("raw", "cut"),
    [
        (b"", False),
        (b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}\n\n', True),
        (b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"delimiter"', True),
        (b'data: {"error":{"code":503,"message":"busy"}}\n\n', False),
    ],
)
def test_a_stream_without_its_end_is_broken(raw: bytes, cut: bool) -> None:
    reply = WIRE.reply(received_body(stream=True), OWN)
    reply.feed(raw)
    hides = b"delimiter" in raw
    assert reply.hides is hides
    with pytest.raises(BrokenReplyError) as caught:
        reply.end()
    assert caught.value.cut is cut
    assert caught.value.reported is (b"error" in raw)
    assert (b"delimiter" in reply.held_back()) is False


@pytest.mark.parametrize("raw", [b"[]", b"{}", b"<html>", b'{"error": {"code": 500}}'])
def test_a_whole_reply_that_is_none_is_broken(raw: bytes) -> None:
    reply = WIRE.reply(received_body(), OWN)
    reply.feed(raw)
    with pytest.raises(BrokenReplyError):
        reply.end()
    assert reply.held_back() == raw


# Corrections


@pytest.mark.parametrize("words", ["Corrupted thought signature.", "Function call is missing a thought_signature in"])
def test_refused_signatures_are_replaced_by_one_that_is_not_checked(words: str) -> None:
    call = {"functionCall": {"name": "read", "args": {}}}
    contents = [
        GO,
        {
            "role": "model",
            "parts": [{"text": "A", "thoughtSignature": "old"}, {**call, "thoughtSignature": "old"}, call],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}] * 2},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}]},
    ]
    body = received_body(contents=contents)
    correction = WIRE.correction(400, json.dumps({"error": {"message": words}}).encode(), body, body)
    assert correction is not None
    corrected = correction(body, body)
    unchecked = {**call, "thoughtSignature": UNCHECKED[0]}
    assert corrected["contents"][1]["parts"] == [{"text": "A"}, unchecked, call]
    assert corrected["contents"][3]["parts"] == [unchecked]
    assert correction(corrected, body) is corrected
    # Later signatures are valid.
    later = received_body(contents=[GO, {"role": "model", "parts": [{**call, "thoughtSignature": "new"}]}])
    assert correction(later, later) is later
    assert WIRE.correction(400, b"no such model", body, body) is None
    assert WIRE.correction(500, words.encode(), body, body) is None


def test_errors_have_geminis_form() -> None:
    error = json.loads(WIRE.error(429, "Slow down."))
    assert error == {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}
    reply: ClientReply = WIRE.reply(received_body(stream=True), OWN)
    assert list(events(reply.fail(503, json.dumps(Gemini().error(503, "busy")).encode()))) == [
        {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    ]


def test_results_of_own_calls_stand_beside_the_clients() -> None:
    (own,) = WIRE.results([(OwnCall("c1", "delimiter", "{}"), "ok")])
    call = {"functionCall": {"id": "c1", "name": "delimiter", "args": {}}, "thoughtSignature": "s"}
    read = {"functionCall": {"id": "c2", "name": "read", "args": {}}}
    answer = {"role": "user", "parts": [{"functionResponse": {"id": "c2", "name": "read", "response": {}}}]}
    body = received_body(contents=[GO, {"role": "model", "parts": [read]}, answer])
    rounds = [AnsweredRound({"role": "model", "parts": [call, read]}, (own,))]
    go, said, results = WIRE.messages(body)
    placed = with_view(WIRE, body, [go, *WIRE.expand(said, rounds), results])["contents"]
    assert placed[1]["parts"] == [call, read]
    assert placed[2]["parts"] == [*own["parts"], *answer["parts"]]
    assert with_view(WIRE, body, body["contents"])["contents"] == body["contents"]
    assert WIRE.results([]) == ()
