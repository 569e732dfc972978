"""Clients that change what they have sent before: what was evicted stays so, and what the user says is never lost."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.marks import first_quick
from tests.proxy.sessions.test_index import SMALL, delimiters, disk, result, work, worker
from tests.proxy.world import (
    CLIENTS,
    AnthropicClient,
    ChatClient,
    Client,
    GeminiClient,
    ResponsesClient,
    Upstream,
    begin,
    every_client,
    exchange,
    run_turn,
)
from wane import Kind
from wane.proxy import jsons
from wane.proxy.sessions.client_messages import GivenReply, shape_of
from wane.proxy.sessions.managed_session import UnseenRounds
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.proxy.wire.wire import AnsweredRound
from wane.testing import Call, Reply, Request


def reverse_keys(value: Any) -> Any:
    """The same data with its keys in another order."""
    if isinstance(value, list):
        return [reverse_keys(entry) for entry in value]
    if isinstance(value, dict):
        return {key: reverse_keys(value[key]) for key in reversed(value)}
    return value


def pad_texts(value: Any) -> Any:
    """A history in which the model's texts have more spaces about them."""
    if isinstance(value, list):
        return [pad_texts(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    copied = {key: pad_texts(entry) for key, entry in value.items()}
    key = ""
    if value.get("type") in ("text", "output_text"):
        key = "text"
    elif "tool_calls" in value:
        key = "content"
    if isinstance(value.get(key), str) and value[key].startswith("Saying"):
        copied[key] = f"{value[key]}  "
    return copied


def dump_messages(body: dict[str, Any]) -> str:
    return json.dumps(body.get("messages", body.get("input", body.get("contents"))))


@pytest.mark.quick(1)
@every_client
@pytest.mark.parametrize("edit", [reverse_keys, pad_texts])
@pytest.mark.parametrize("seed", first_quick(*range(2)))
async def test_what_was_evicted_stays_so_however_a_client_writes_it_now(
    make: type[Client], edit: Any, seed: int
) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, seed, reasons=True)
    await work(index, client, upstream, 8)
    client.say("Go on.")
    before = await exchange(index, client, upstream)
    client.history = edit(client.history)
    after = await exchange(index, client, upstream)
    assert after.facts.session == before.facts.session
    assert after.facts.evicted == before.facts.evicted > 0
    gone = [number for number in range(200) if f"Saying {number}." not in dump_messages(before.bodies[0])]
    assert not [number for number in gone if f"Saying {number}." in dump_messages(after.bodies[0])]


async def test_what_a_user_adds_to_a_message_whose_results_are_gone_is_shown() -> None:
    client = AnthropicClient()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 1)
    await work(index, client, upstream, 8)
    for number, message in enumerate(client.history[:20]):
        if message["role"] == "user" and message["content"][0]["type"] == "tool_result":
            message["content"].append({"type": "text", "text": f"Mind number {number}!"})
    client.say("Go on.")
    done = await exchange(index, client, upstream)
    assert len(index.status()) == 1
    assert done.facts.evicted > 0
    told = dump_messages(client.body())
    wanted = [number for number in range(200) if f"Mind number {number}!" in told]
    assert wanted
    assert all(f"Mind number {number}!" in dump_messages(done.bodies[0]) for number in wanted)


@pytest.mark.quick(1)
@every_client
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "on disk"])
async def test_a_client_may_go_back_to_a_message_that_it_has_edited(
    make: type[Client], stored: bool, tmp_path: Path
) -> None:
    client = make()
    index, upstream = SessionIndex(disk(tmp_path) if stored else MemoryStore(), SMALL), worker(client, 1, steps=2)
    lengths = []
    for number in range(5):
        client.say(f"User turn {number}.")
        lengths.append(len(client.history))
        await run_turn(index, client, upstream, result)
    place = next(n for n in reversed(range(lengths[2])) if "User turn 2." in json.dumps(client.history[n]))
    client.history[place] = json.loads(json.dumps(client.history[place]).replace("turn 2.", "turn 2, edited."))
    client.say("Go on.")
    await run_turn(index, client, upstream, result)
    back = client.copy()
    back.history = back.history[: lengths[2]]
    done = await run_turn(index, back, upstream, result)
    done += await work(index, back, upstream, 2)
    assert len({each.facts.session for each in done}) == 1
    assert len(index.status()) == 2
    await index.close()


@every_client
async def test_sessions_that_begin_alike_keep_their_own_rounds(make: type[Client]) -> None:
    def model(request: Request) -> Reply:
        if request.results:
            return Reply(text="Done.")
        return Reply(calls=(Call("delimiter", {"action": "start", "name": "a", "type": "expl"}), Call("read")))

    first = make()
    upstream = Upstream(first.provider, model)
    index = SessionIndex(MemoryStore(), SMALL)
    first.say("The same for all.")
    others = [first.copy() for _ in range(4)]
    answers = [await exchange(index, client, upstream) for client in others]
    for client, done in zip(others, answers, strict=True):
        client.take(done.answer, result)
        client.say("On.")
        following = await exchange(index, client, upstream)
        # Beside its definition, the call that the model made.
        assert json.dumps(following.bodies[0]).count('"name": "delimiter"') > 1
    assert len(index.status()) == 4


@pytest.mark.parametrize(
    "echo", [{}, {"INVALID_JSON": "x, please"}, {"__unparsedToolInput": {"raw": "x, please", "len": 9}}]
)
@pytest.mark.parametrize("call_id", ["toolu_01A2b3C4d5E6f7", "call_0"], ids=["unique", "numbered"])
async def test_marks_stay_beside_a_call_that_is_not_json_whatever_its_client_makes_of_it(
    call_id: str, echo: dict[str, Any]
) -> None:
    start = {"action": "start", "name": "look", "type": "expl"}
    script = [Reply(calls=(Call("delimiter", start), Call("read", "x, please", call_id))), Reply("Done.")]
    client, index = AnthropicClient(), SessionIndex(MemoryStore(), SMALL)
    upstream = Upstream(client.provider, lambda _: script.pop(0))
    client.say("Go.")
    done = await exchange(index, client, upstream)
    client.take(done.answer, result)
    (call,) = client.history[1]["content"]
    call["input"] = echo
    await exchange(index, client, upstream)
    assert delimiters(upstream) == 1
    assert upstream.requests[-1].body["messages"][1]["content"][-1]["input"] == echo


def marking(secret: str) -> list[Reply]:
    """Hidden rounds that begin and end an exploration."""
    start = {"action": "start", "name": "look", "type": "expl"}
    end = {"action": "end", "description": secret}
    return [Reply(calls=(Call("delimiter", start),)), Reply(calls=(Call("delimiter", end),))]


@every_client
async def test_a_history_that_has_the_same_answer_gets_no_rounds_of_another_session(make: type[Client]) -> None:
    alice, bob = make(), make()
    script = [*marking("Carol earns 90,000"), Reply("Done."), Reply("Done."), Reply("Yes.")]
    upstream = Upstream(alice.provider, lambda _: script.pop(0))
    index = SessionIndex(MemoryStore(), SMALL)
    alice.say("Look into the salaries.")
    await exchange(index, alice, upstream)
    bob.say("Rename the file.")
    # Bob begins without this proxy.
    begun = await exchange(SessionIndex(MemoryStore(), SMALL), bob, upstream)
    bob.take(begun.answer, result)
    bob.say("Now delete it.")
    await exchange(index, bob, upstream)
    assert "Carol" not in json.dumps(upstream.requests[-1].body)
    assert delimiters(upstream) == 0


@every_client
async def test_a_client_that_rewrites_its_first_message_keeps_its_own_rounds(make: type[Client]) -> None:
    index, clients = SessionIndex(MemoryStore(), SMALL), [make(), make()]
    for name, client in zip(("one", "two"), clients, strict=True):
        script = [
            *marking(f"facts of {name}"),
            Reply("Done."),
            Reply(f"It is {name}, {name} and again {name}." * 20),
            Reply("Well."),
        ]
        upstream = Upstream(client.provider, lambda _, script=script: script.pop(0))
        for text in (f"Today is Monday. Task of {name}.", "Tell me more.", "And on."):
            client.say(text)
            done = await exchange(index, client, upstream)
            client.take(done.answer, result)
    client, upstream = clients[1], Upstream(clients[1].provider, lambda _: Reply("Yes."))
    client.history = json.loads(json.dumps(client.history).replace("Monday", "Tuesday"))
    client.say("Go on.")
    await exchange(index, client, upstream)
    sent = json.dumps(upstream.requests[-1].body)
    assert "facts of two" in sent
    assert "facts of one" not in sent
    assert len(index.status()) == 3


def first_message(client: Client, files: str) -> dict[str, Any]:
    """A first message as Gemini CLI and Qwen Code write it anew with each run: notices, and then a person's words."""
    texts = [f"<system-reminder>\nThe folder holds {files}.\n</system-reminder>", "Tidy up."]
    if isinstance(client, GeminiClient):
        return {"role": "user", "parts": [{"text": text} for text in texts]}
    kind = "input_text" if isinstance(client, ResponsesClient) else "text"
    content = [{"type": kind, "text": text} for text in texts]
    message = {"role": "user", "content": content}
    return {"type": "message", **message} if isinstance(client, ResponsesClient) else message


@pytest.mark.quick(1)
@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize("drops", [False, True], ids=["reworded", "left out"])
async def test_a_resumed_client_may_write_the_notices_beside_a_prompt_anew(
    make: type[Client], drops: bool, tmp_path: Path
) -> None:
    client = make()
    first = len(client.history)
    client.history.append(first_message(client, "a.py"))
    index, upstream = SessionIndex(disk(tmp_path), SMALL), worker(client, 1, steps=3)
    done = await run_turn(index, client, upstream, result)
    for number in range(6):
        client.say(f"Go on {number}.")
        done += await run_turn(index, client, upstream, result)
    await index.close()
    anew = first_message(client, "a.py, notes.txt")
    if drops:
        key = "parts" if isinstance(client, GeminiClient) else "content"
        anew[key] = anew[key][1:]
    client.history[first] = anew
    client.say("Go on at last.")
    index = SessionIndex(disk(tmp_path), SMALL)
    done += await run_turn(index, client, upstream, result)
    assert len({exchanged.facts.session for exchanged in done}) == 1
    assert done[-1].facts.evicted > 0
    shown = dump_messages(done[-1].bodies[0])
    assert "Tidy up." in shown
    assert ("notes.txt" in shown) is not drops
    await index.close()


@every_client
async def test_calls_that_a_server_numbers_do_not_mix_up_sessions_that_begin_alike(make: type[Client]) -> None:
    names = iter(("first", "second"))

    def model(request: Request) -> Reply:
        turn = sum(part.kind is Kind.RESULT for part in request.parts)
        who = next(names, "")
        hidden = Call("delimiter", {"action": "start", "name": who, "type": "expl"}, id="delimiter_0")
        read = Call("read", {"path": f"{who}.py"}, id="read_1")
        return Reply(calls=(hidden, read)) if not turn else Reply("Done.")

    clients = [make(), make()]
    index, upstream = SessionIndex(MemoryStore(), SMALL), Upstream(make.provider, model)
    answers = []
    for client in clients:
        client.say("The same for all.")
        answers.append(await exchange(index, client, upstream))
    for client, done, who in zip(clients, answers, ("first", "second"), strict=True):
        client.take(done.answer, lambda _, arguments: f"Content by {arguments}")
        await exchange(index, client, upstream)
        started = [part for part in upstream.requests[-1].parts if part.tool == "delimiter"]
        assert [json.loads(part.text)["name"] for part in started] == [who]


@every_client
async def test_a_later_reply_without_rounds_takes_the_place_of_one_with_rounds(make: type[Client]) -> None:
    client = make()
    script = [*marking("first"), Reply("OK."), Reply("OK."), Reply("Yes.")]
    upstream = Upstream(client.provider, lambda _: script.pop(0))
    index = SessionIndex(MemoryStore(), SMALL)
    client.say("Go.")
    await exchange(index, client, upstream)
    done = await exchange(index, client, upstream)  # a retry
    client.take(done.answer, result)
    client.say("On.")
    await exchange(index, client, upstream)
    assert delimiters(upstream) == 0


@every_client
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "on disk"])
async def test_a_reply_that_ends_after_a_twin_has_gone_on_keeps_its_rounds(
    make: type[Client], stored: bool, tmp_path: Path
) -> None:
    first, second = make(), make()
    upstream = Upstream(first.provider, lambda _: script.pop(0))
    index = SessionIndex(disk(tmp_path) if stored else MemoryStore(), SMALL)
    for client in (first, second):
        client.say("The same for all.")
    body = second.body()
    begun = await begin(index, second.wire, body)
    script = [*marking("of the first"), Reply("I am the first."), Reply("Well.")]
    done = await exchange(index, first, upstream)
    first.take(done.answer, result)
    first.say("On.")
    await exchange(index, first, upstream)
    script = [*marking("of the second"), Reply("I am the second."), Reply("Well.")]
    asked, out = begun.body, b""
    while asked is not None:
        await begun.send_body(jsons.dumps(asked), "https://provider.example")
        out += begun.feed(upstream.ask(asked))
        asked = await begun.record(begun.end_round())
    second.take(json.loads(out + begun.reply.finish()), result)
    second.say("On.")
    await exchange(index, second, upstream)
    sent = json.dumps(upstream.requests[-1].body)
    assert "of the second" in sent
    assert "of the first" not in sent
    await index.close()


@every_client
async def test_a_client_that_compacts_to_two_answers_keeps_their_rounds(make: type[Client]) -> None:
    client, script = make(), list[Reply]()
    upstream = Upstream(client.provider, lambda _: script.pop(0))
    index = SessionIndex(MemoryStore(), SMALL)
    kept = 0
    for number in range(3):
        script[:] = [*marking(f"facts {number}"), Reply(f"Answer {number}. " * 30)]
        if number == 1:
            kept = len(client.history)
        client.say(f"Question {number}?")
        client.take((await exchange(index, client, upstream)).answer, result)
    other = make()
    other.say("Summary: much was asked.")
    other.history += client.history[kept:]
    other.say("Go on.")
    script[:] = [Reply("Yes.")]
    await exchange(index, other, upstream)
    sent = json.dumps(upstream.requests[-1].body)
    assert "facts 1" in sent
    assert "facts 2" in sent
    assert "facts 0" not in sent


async def test_a_damaged_session_is_told_of_and_refused_where_it_is_to_be_strict(tmp_path: Path) -> None:
    client = ChatClient()
    upstream = worker(client, 1)
    index = SessionIndex(disk(tmp_path), SMALL)
    await work(index, client, upstream, 4)
    await index.close()
    (path,) = tmp_path.rglob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"a", b"b")
    path.write_bytes(b"".join(lines))
    client.say("Go on.")
    strict = SessionIndex(disk(tmp_path), SMALL, strict=True)
    with pytest.raises(Exception, match="damaged"):
        await begin(strict, client.wire, client.body())
    await strict.close()
    index = SessionIndex(disk(tmp_path), SMALL)
    done = await exchange(index, copy.copy(client), upstream)
    assert "damaged" in done.facts.note
    again = await exchange(index, client, upstream)
    assert again.facts.note == ""
    await index.close()


def test_rounds_of_an_empty_reply_stand_where_the_client_went_on_or_nowhere() -> None:
    """It may have gone on with another reply, whose results stand right behind their calls."""
    wire = ChatClient.wire
    mark = {"id": "m", "type": "function", "function": {"name": "delimiter", "arguments": "{}"}}
    read = {"id": "r", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    unseen = (AnsweredRound({"role": "assistant", "content": None, "tool_calls": [mark]}, ()),)
    answer = {"role": "assistant", "content": None, "tool_calls": [read]}
    for following, expected in (([answer, {"role": "tool", "tool_call_id": "r", "content": "x"}], []), ([], [3])):
        rounds = UnseenRounds(wire)
        rounds.take_reply(GivenReply(shape_of([]), 3, unseen))
        for number, message in enumerate(following or [{"role": "user", "content": "Go on."}], 3):
            rounds.settle(number, shape_of(wire.format.parts(message)))
        assert [*rounds.insertions] == expected
