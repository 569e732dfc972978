"""Reminders through the proxy: at the tail of a request that goes upstream, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cross_quick
from tests.proxy.agents import Worker
from tests.proxy.world import (
    CLIENTS,
    AnthropicClient,
    Client,
    Done,
    Upstream,
    begin,
    every_client,
    exchange,
    result,
    run_turn,
)
from wane import ConfigError, Kind, chars
from wane.cli.failure import UsageError
from wane.cli.proxy.proxy_commands import ContextOptions
from wane.cli.proxy.proxy_options import context_settings
from wane.conversation import ContextSettings, Conversation
from wane.flags import options_of
from wane.journal import SessionStore
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.sender import sender_of
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore
from wane.testing import Call, Reply, Request, Usage

SETTINGS = ContextSettings(budget=20_000)
NOTE = "Automatic note on the context window"


async def work(
    client: Client, settings: ContextSettings, model: Any, turns: int = 3
) -> tuple[list[Done], SessionIndex]:
    """Let an agent work; return its exchanges, and the sessions.

    Each request is looked at ahead, too: `peek` says what would be sent upstream, without a reminder.
    """
    index, upstream = SessionIndex(MemoryStore(), settings), Upstream(client.provider, model)
    done: list[Done] = []
    for number in range(turns):
        client.say(f"User turn {number}.")
        while True:
            body = client.body()
            bare = await Exchange(index, client.wire, body).count_body() if done else None
            done.append(await exchange(index, client, upstream))
            if bare is not None:
                sent = done[-1].bodies[0]
                assert sent == (client.wire.add_note(bare, note) if (note := text_of(sent)) else bare)
            if not client.take(done[-1].answer, result):
                break
    return done, index


def text_of(body: dict[str, Any]) -> str:
    """The note in a body; empty if there is none."""
    raw = json.dumps(body)
    found = raw.find(f"[{NOTE}")
    return json.loads(f'"{raw[found : raw.index("]", found) + 1]}"') if found >= 0 else ""


@pytest.mark.full
@every_client
async def test_a_model_that_marks_nothing_is_reminded_and_nothing_else_changes(make: type[Client]) -> None:
    client = make()
    done, index = await work(client, SETTINGS, Worker(3, steps=20, marks=False))
    notes = [text_of(body) for each in done for body in each.bodies]
    # 5 % of the budget are 1,000 tokens, and a result has some 120.
    assert 2 <= len(list(filter(None, notes))) <= len(notes) / 5
    assert all("you have not started an episode yet" in note for note in notes if note)
    # The client never saw it, and each of its requests was known again.
    assert NOTE not in json.dumps(client.history)
    assert len(index.status()) == 1


class Endless(Worker):
    """Starts one episode, and never ends it."""

    def __call__(self, request: Request) -> Reply:
        reply = super().__call__(request)
        if self._number > 1:
            return reply
        return Reply(calls=(Call("delimiter", {"action": "start", "name": "endless", "type": "expl"}),))


@pytest.mark.quick(1)
@every_client
async def test_a_model_that_never_ends_is_told_what_it_holds_is_going(make: type[Client]) -> None:
    settings = replace(SETTINGS, budget=3_000)
    done, _ = await work(make(), settings, Endless(3, steps=20, marks=False), turns=5)
    notes = list(filter(None, (text_of(body) for each in done for body in each.bodies)))
    assert notes
    assert all('End the episode "endless" with `delimiter`' in note for note in notes)
    assert all(each.facts.view + chars(text_of(each.bodies[0])) <= 3_000 for each in done)


class Builder(Worker):
    """Explores for long, and builds on it in an act that it never ends: that takes of the exploration alone (R16)."""

    def __call__(self, request: Request) -> Reply:
        reply = super().__call__(request)
        marks = {
            1: {"action": "start", "name": "look", "type": "expl"},
            14: {"action": "end", "description": "It is known."},
            15: {"action": "start", "name": "build", "type": "act", "dependencies": ["look"]},
        }
        if self._number in marks:
            return Reply(calls=(Call("delimiter", marks[self._number]),))
        return replace(reply, calls=tuple(Call("read", call.arguments) for call in reply.calls))


@every_client
async def test_a_reminder_without_room_waits_also_where_a_later_round_makes_room(
    make: type[Client], tmp_path: Path
) -> None:
    settings = replace(SETTINGS, budget=3_000)

    def model(request: Request) -> Reply:
        reads = sum(part.kind is Kind.CALL and part.tool == "read" for part in request.parts)
        marks = sum(part.kind is Kind.CALL and part.tool == "delimiter" for part in request.parts)
        if reads == 2 and not marks:
            # No answer to the client, and refused; it takes the next request over the budget.
            wrong = {"action": "end", "description": "so " * 200}
            return Reply(calls=(Call("delimiter", wrong),), usage=Usage(0, 0))
        return Reply(calls=(Call("read", {"n": len(request.parts)}),), usage=Usage(0, 0))

    async def live(size: int, *, restarts: bool) -> list[Done]:
        def index() -> SessionIndex:
            store = SessionStore(tmp_path / f"{size}{restarts}")
            return SessionIndex(DiskStore(store, fsync=False), settings)

        client, known, done = make(), index(), list[Done]()
        upstream = Upstream(client.provider, model)
        client.say("Go.")
        for tokens in (400, size, 10, 10):
            done.append(await exchange(known, client, upstream))
            client.take(done[-1].answer, lambda *_, tokens=tokens: f"<{tokens:04}>" + "x" * 4 * tokens)
            if restarts:
                await known.close()
                known = index()
        await known.close()
        return done

    small = (await live(1_000, restarts=False))[2]
    size = 1_000 + 2_990 - small.facts.view
    steady, restarted = await live(size, restarts=False), await live(size, restarts=True)
    assert [each.bodies for each in restarted] == [each.bodies for each in steady]
    # The third view leaves room for 10 tokens, until the round within that request has a pass run.
    assert [bool(text_of(each.bodies[0])) for each in steady] == [False, True, False, True]
    assert steady[2].facts.view == 2_990
    assert ["<0400>" in json.dumps(body) for body in steady[2].bodies] == [True, False]


async def test_a_round_that_only_marks_is_not_reminded_again() -> None:
    marked: list[bool] = []

    def model(request: Request) -> Reply:
        if NOTE in request.raw.decode():
            marked.append(True)
            return Reply(calls=(Call("delimiter", {"action": "start", "name": "late", "type": "expl"}),))
        return Reply(calls=(Call("read", {"n": len(request.parts)}),)) if not marked else Reply("Done.")

    done, _ = await work(AnthropicClient(), SETTINGS, model, turns=1)
    first, second = done[-1].bodies
    assert text_of(first)
    assert not text_of(second)


@pytest.mark.full
@pytest.mark.parametrize(("make", "why"), cross_quick(CLIENTS, ("off", "inferred", "marks by itself", "no episodes")))
async def test_nobody_is_reminded_who_cannot_mark_or_does_not_want_it(make: type[Client], why: str) -> None:
    changes: dict[str, dict[str, Any]] = {
        "off": {"remind_at": None},
        "inferred": {"annotate": "infer"},
        "marks by itself": {},
        "no episodes": {"strategy": "truncate"},
    }
    tools = ("read", "bash", "edit", "delimiter") if why == "marks by itself" else ("read", "bash", "edit")
    done, _ = await work(make(tools), replace(SETTINGS, **changes[why]), Worker(3, steps=20, marks=False))
    assert not any(text_of(body) for each in done for body in each.bodies)


@every_client
async def test_a_history_that_comes_as_a_whole_is_no_reason(make: type[Client]) -> None:
    client = make()
    upstream = Upstream(client.provider, Worker(3, steps=20, marks=False))
    before = SessionIndex(MemoryStore(), replace(SETTINGS, strategy="none"))
    for number in range(3):
        client.say(f"User turn {number}.")
        await run_turn(before, client, upstream, result)
    client.say("Go on.")
    done = await exchange(SessionIndex(MemoryStore(), SETTINGS), client, upstream)
    assert not text_of(done.bodies[0])


def test_the_share_is_an_option() -> None:
    assert context_settings(ContextOptions()).remind_at == 0.2
    assert context_settings(options_of(ContextOptions, {"remind_at": "0.1"})).remind_at == 0.1
    assert context_settings(options_of(ContextOptions, {"remind_at": "none"})).remind_at is None
    for wrong in ("0", "-1", "1.5", "nan", "often"):
        with pytest.raises(ConfigError, match="--remind-at is"):
            options_of(ContextOptions, {"remind_at": wrong})
    for useless in ({"strategy": "truncate"}, {"annotate": "infer"}):
        with pytest.raises(UsageError, match="--remind-at is for models that mark"):
            context_settings(options_of(ContextOptions, {"remind_at": "0.1", **useless}))


@pytest.mark.parametrize(
    ("headers", "compacts"),
    [
        ({"user-agent": "codex_exec/0.171.0", "x-codex-turn-metadata": '{"request_kind":"compaction"}'}, True),
        ({"user-agent": "codex_exec/0.171.0", "x-codex-turn-metadata": '{"request_kind":"turn"}'}, False),
        ({"user-agent": "codex_exec/0.171.0", "x-codex-turn-metadata": "compaction"}, False),
        # In an editor, it has the editor's name.
        ({"user-agent": "zed/0.166.0", "x-codex-turn-metadata": '{"request_kind":"compaction"}'}, True),
        ({"user-agent": "claude-cli/2.1.332", "x-claude-code-request-class": "compaction"}, True),
        ({"user-agent": "claude-cli/2.1.332", "x-claude-code-request-class": "main"}, False),
        ({"user-agent": "curl/8", "x-claude-code-request-class": "compaction"}, False),
    ],
)
async def test_a_clients_compaction_is_not_reminded_of_marks(headers: dict[str, str], compacts: bool) -> None:
    sender = sender_of([(name.encode(), value.encode()) for name, value in headers.items()], {})
    assert sender.compacts is compacts
    assert sender == replace(sender, compacts=not compacts)  # it is of the same agent
    client = AnthropicClient()
    index, upstream = SessionIndex(MemoryStore(), SETTINGS), Upstream(client.provider, Worker(3, steps=20, marks=False))
    client.say("Go.")
    while True:
        begun = await begin(index, client.wire, client.body(), sender=sender)
        if text_of(begun.body):
            break
        if begun.view.report is not None and client.history and index.status()[0].requests > 30:
            break
        answer = (await exchange(index, client, upstream)).answer
        client.take(answer, result)
    assert bool(text_of(begun.body)) is not compacts


@pytest.mark.parametrize("format_", ["openai", "anthropic"])
def test_a_request_that_ends_with_a_text_has_no_reminder(format_: str) -> None:
    """The text may be a client's prompt to summarise, which forbids calls."""
    conversation: Conversation[Any] = Conversation(format_, budget="8k")
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    for number in range(2):
        use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
        function = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        answer = {"content": [use]} if format_ == "anthropic" else {"tool_calls": [function]}
        (call,) = conversation.append({"role": "assistant", **answer})
        conversation.append(call.result("line\n" * 600))
        if number == 0:
            conversation.append({"role": "user", "content": "Summarise, and call no tool."})
            assert conversation.request().reminder is None
            conversation.append({"role": "assistant", "content": "Done."})
            conversation.append({"role": "user", "content": "Go on."})
            assert conversation.request().reminder is None
    assert conversation.request().reminder is not None
