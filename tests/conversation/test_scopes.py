"""Marks by the program around a conversation (R18): scopes, sub-agents, and what a journal and a state keep of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import Any

import pytest

from wane import Conversation, Policy
from wane.conversation.events import EpisodeClosed, EpisodeOpened
from wane.core import Kind
from wane.core.errors import ConfigError, HistoryError
from wane.formats import get_format

POLICY = Policy(low_water=0.5, guard=0.0, index_share=0.0)


class Program:
    """A program that asks a model for reads, and marks the work itself."""

    def __init__(self, budget: str = "1k", *, policy: Policy = POLICY, **settings: Any) -> None:
        self.events: list[tuple[str, str | None]] = []
        self.conversation = Conversation(budget=budget, policy=policy, annotate="host", on_event=self._hear, **settings)
        self.conversation.append({"role": "user", "content": "Fix it."})
        self.calls = 0

    def _hear(self, event: Any) -> None:
        if isinstance(event, EpisodeOpened | EpisodeClosed) and event.episode.name:
            self.events.append((type(event).__name__.removeprefix("Episode").lower(), event.episode.name))

    def call(self, *outputs: tuple[str, str]) -> None:
        """An answer with calls, and their results, appended together."""
        self.conversation.request()
        calls, results = [], []
        for tool, output in outputs:
            self.calls += 1
            call_id = f"c{self.calls}"
            calls.append({"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}})
            results.append({"role": "tool", "tool_call_id": call_id, "content": output})
        self.conversation.append([{"role": "assistant", "content": None, "tool_calls": calls}, *results])

    def read(self, what: str) -> None:
        self.call(("read", f"{what} " * 150))

    def go_on(self, count: int) -> None:
        for number in range(count):
            with self.conversation.episode(f"other {number}", "act"):
                self.read(f"other{number}")

    def say(self, text: str) -> None:
        self.conversation.request()
        self.conversation.append({"role": "assistant", "content": text})

    def texts(self) -> str:
        return json.dumps(self.conversation.request().messages)

    def episode_names(self) -> list[str]:
        return [str(episode.name) for episode in self.conversation.episodes if not episode.implicit]


def same(left: Conversation[Any], right: Conversation[Any]) -> None:
    assert left.request().messages == right.request().messages
    assert [repr(episode) for episode in left.episodes] == [repr(episode) for episode in right.episodes]


def test_the_model_gets_no_tool_and_no_word() -> None:
    program = Program()
    assert program.conversation.own_tools == ()
    assert program.conversation.instructions == ""
    assert "reminder" not in program.texts()


def test_the_last_words_of_an_exploration_stay() -> None:
    program = Program()
    with program.conversation.episode("find"):
        program.read("haystack")
        program.say("The bug is in parse.py:41.")
    with program.conversation.episode("fix", "act", ["find"]):
        program.read("needle")
        program.say("Fixed.")
    program.go_on(4)
    shown = program.texts()
    assert "parse.py:41" in shown
    assert "haystack" not in shown
    assert "needle" not in shown
    assert "Fixed." not in shown
    assert program.events[:4] == [("opened", "find"), ("closed", "find"), ("opened", "fix"), ("closed", "fix")]
    found, fix, *_ = program.conversation.episodes
    assert found.description == "The bug is in parse.py:41."
    assert fix.dependencies == ("find",)
    assert "haystack" in program.conversation.recall("find")


def test_the_program_may_describe_itself() -> None:
    program = Program()
    with program.conversation.task("week") as task:
        with program.conversation.episode("monday") as episode:
            program.read("haystack")
            episode.describe("Monday is in hay.py.")
            program.say("Something else.")
        program.say("Next.")
        task.describe("The week is done.")
    program.go_on(5)
    shown = program.texts()
    assert "The week is done." in shown  # R17 b: one line of a task stays
    assert "Monday is in hay.py." not in shown
    assert program.conversation.episodes[1].description == "Monday is in hay.py."


def test_branches_of_asyncio_share_the_history() -> None:
    program = Program("4k")

    async def branch(name: str) -> None:
        with program.conversation.episode(name):
            for number in range(3):
                program.read(f"{name}{number}")
                await asyncio.sleep(0)
            program.say(f"{name} is clear.")

    async def main() -> None:
        with program.conversation.task("both"):
            await asyncio.gather(branch("code"), branch("tests"))

    asyncio.run(main())
    program.say("Done.")
    task, code, tests, *_ = program.conversation.episodes
    assert [task.name, code.name, tests.name] == ["both", "code", "tests"]
    assert code.task is tests.task is task
    assert len(code.spans) == len(tests.spans) == 4  # they took turns
    assert (code.description, tests.description) == ("code is clear.", "tests is clear.")
    program.conversation.change(budget="0.8k")
    program.read("more")
    program.read("more")
    shown = program.texts()
    assert "code is clear." in shown
    assert "tests is clear." in shown
    assert "code0" not in shown


def test_a_sub_agent_is_an_exploration_whose_report_stays() -> None:
    program = Program(subagents={"research": "expl", "write": "act"})
    with program.conversation.episode("plan"):
        program.read("first")
        program.call(("research", "The report of A."), ("read", "beside " * 50), ("research", "The report of B."))
        program.call(("write", "I wrote it. " * 60))
        program.say("All is planned.")
    program.go_on(4)
    shown = program.texts()
    assert "The report of A." in shown
    assert "The report of B." in shown
    assert "beside" not in shown
    assert "I wrote it." not in shown
    assert program.episode_names()[:4] == ["plan", "research", "research 2", "write"]
    messages = program.conversation.view
    answered = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    assert answered == {call["id"] for message in messages for call in message.get("tool_calls") or ()}


def test_records_and_state_keep_the_marks() -> None:
    program = Program(subagents={"research": "expl"})
    conversation = program.conversation
    copies: list[Conversation[Any]] = []
    with conversation.task("all"):
        for name in ("a", "b"):
            with conversation.episode(name):
                program.read(name)
                program.call(("research", f"report on {name}"))
                followed = Program(subagents={"research": "expl"}).conversation
                fresh = Conversation(budget="1k", policy=POLICY, annotate="host", subagents={"research": "expl"})
                fresh.log.follow(conversation.log.records())
                state = json.loads(json.dumps(conversation.state()))
                assert followed.restore(state, conversation.messages)
                copies += [fresh, followed, conversation.branch()]
                for one in copies[-3:]:
                    same(one, conversation)
                program.say(f"{name} is clear.")
    # In another process the scope is over: the copies end it ahead of the next answer.
    for one in copies[:2]:
        one.append({"role": "assistant", "content": "Next."})
        assert one.window.open == []
    program.go_on(4)
    fresh = Conversation(budget="1k", policy=POLICY, annotate="host", subagents={"research": "expl"})
    fresh.log.follow(conversation.log.records())
    same(fresh, conversation)


def test_an_answer_of_a_hosts_history_belongs_to_the_scope_that_asked_even_in_another_process() -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Find it."}]
    first, second = (Conversation(budget="1k", policy=POLICY, annotate="host") for _ in range(2))
    with first.episode("find"):
        first.host.ingest(history)
        first.request()
    assert second.restore(json.loads(json.dumps(first.state())), history)
    history += [{"role": "assistant", "content": "In a."}, {"role": "user", "content": "On."}]
    second.host.ingest(history)
    second.request()
    second.host.ingest([*history, {"role": "assistant", "content": "Next."}])
    assert second.episodes[0].description == "In a."


def test_a_failed_branch_ends_too() -> None:
    program = Program()
    with suppress(ZeroDivisionError), program.conversation.episode("find"):
        program.read("haystack")
        _ = 1 / 0
    program.say("On.")
    assert program.conversation.window.open == []


def test_what_cannot_be_opened_is_refused() -> None:
    program = Program()
    conversation = program.conversation
    with pytest.raises(ConfigError, match="Use annotate='host'"):
        Conversation().episode("find")
    with pytest.raises(ConfigError, match="subagents needs annotate='host'"):
        Conversation(subagents={"research": "expl"})
    with pytest.raises(ConfigError, match="'expl' or 'act' for each"):
        Conversation(annotate="host", subagents={"research": "task"})
    with pytest.raises(ConfigError, match="must be one of: expl, act, task"):
        conversation.episode("find", "explore")
    with pytest.raises(ConfigError, match="has dependencies, but only an act may have them"):
        conversation.episode("find", "expl", ["a"])
    for wrong in ("find", None, 5, [5]):
        with pytest.raises(ConfigError, match="they must be a list of names"):
            conversation.episode("fix", "act", wrong)  # type: ignore[arg-type]
    with conversation.episode("find") as episode:
        with pytest.raises(HistoryError, match="cannot be described now"):
            episode.describe("Too early.")
        program.read("a")
        for text in ("", " ", None, 5):
            with pytest.raises(ConfigError, match="cannot be described by"):
                episode.describe(text)  # type: ignore[arg-type]
        with pytest.raises(HistoryError, match="only a task holds episodes"), conversation.episode("inner"):
            pass
        elsewhere = Context()  # where no episode is entered
        with pytest.raises(HistoryError, match="depends on 'find'"):
            elsewhere.run(conversation.episode("fix", "act", ["find"]).__enter__)
    with pytest.raises(HistoryError, match="has an episode 'find' already"), conversation.episode("find"):
        pass
    with pytest.raises(HistoryError, match="depends on 'lost'"), conversation.episode("fix", "act", ["lost"]):
        pass
    with pytest.raises(HistoryError, match="was entered before"), episode:
        pass
    with conversation.task("all"), conversation.episode("change", "act", [" find "]):
        program.read("b")
    for unfit in ("change", "all"):
        with pytest.raises(HistoryError, match="no exploration"), conversation.episode("fix", "act", [unfit]):
            pass
    program.say("Next.")
    assert conversation.episodes[2].dependencies == ("find",)
    with pytest.raises(HistoryError, match="depends on 'change'"), conversation.episode("fix", "act", ["change"]):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "It says </system-reminder> in a.py.",
        "The following tools fail.",
        "\nThe user sent a new message while you were working:",
    ],
)
def test_a_description_is_a_notice_of_its_episode_whatever_it_says(text: str) -> None:
    program = Program()
    with program.conversation.episode("find") as episode:
        program.read("a")
        episode.describe(text)
    program.say("Next.")
    found = program.conversation.episodes[0]
    assert text.strip().split("<")[0] in str(found.description)
    assert found.spans == [[1, 4]]
    program.go_on(4)
    assert [part.kind for message in program.conversation.request().view for part in parts(message)][:2] == [
        Kind.USER,
        Kind.NOTICE,
    ]


def parts(message: Any) -> list[Any]:
    return get_format("openai").parts(message)


def test_a_decorated_function_is_an_episode_unless_it_is_a_generator() -> None:
    conversation = Program().conversation

    class Node:
        async def __call__(self) -> None:
            conversation.append({"role": "assistant", "content": "Found."})

    asyncio.run(conversation.episode("node")(Node())())
    assert conversation.episodes[0].name == "node"

    def steps() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    for generator in (steps, asynchronous):
        with pytest.raises(ConfigError, match="cannot be a generator"):
            conversation.episode("steps")(generator)


def test_the_index_lists_descriptions_that_have_left() -> None:
    """R20: what a host described is listed once it has left, as what the agent described is."""
    program = Program(policy=replace(POLICY, index_share=0.2, description_share=0.0), subagents={"ask": "expl"})
    with program.conversation.episode("find") as episode:
        program.read("haystack")
        episode.describe("The needle is in hay.py.")
    with program.conversation.episode("read"):
        program.read("haystack")
        program.say("There is no needle.")
    program.call(("ask", "Nobody knows."))
    program.go_on(5)
    shown = program.texts()
    assert "Learned: ask: Nobody knows.; read: There is no needle.; find: The needle is in hay.py." in shown
    assert "/system-reminder" not in shown.replace("</system-reminder>", "")
