"""Sessions of clients that say much themselves: their words go, a person's stay, and every request is valid (R15)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.marks import first_quick
from tests.proxy.sessions.test_index import SMALL, result, work, worker
from tests.proxy.world import AnthropicClient, Client, RemindedClient, ResponsesClient, exchange
from wane import Policy
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore

LONG = "what the harness has to say " * 30
SKILL = f"Base directory for this skill: /w/.claude/skills/tidy\n\n# Tidy\n\n{LONG}"
SUMMARY = f"This session is being continued from a previous conversation that ran out of context.\n\n{LONG}"


class Queuing(RemindedClient):
    """A person speaks while tools run, skills are loaded, and hooks stop the turn."""

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        calls = super().take(answer, results)
        number = len(self.history)
        if calls:
            blocks = self.history[-2]["content"]
            blocks[0]["content"] = "Launching skill: tidy"
            blocks.insert(calls, {"type": "text", "text": SKILL})
            if number % 4 == 0:
                queued = f"The user sent a new message while you were working:\nQUEUED {number}."
                blocks.append({"type": "text", "text": queued})
        else:
            self.history.append({"role": "user", "content": f"Stop hook feedback:\n{LONG}"})
        return calls


class Folding(AnthropicClient):
    """What is told between calls stands at the end of results, as for models that take no system messages."""

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        calls = super().take(answer, results)
        if calls and len(self.history) % 4 == 0:
            queued = f"The user sent a new message while you were working:\nQUEUED {len(self.history)}."
            self.history[-1]["content"][0]["content"] += f"\n\n<system-reminder>\n{queued}\n</system-reminder>"
        return calls


class Codex(ResponsesClient):
    """Tells the kind of each content, and has hooks and the environment speak."""

    def say(self, text: str) -> None:
        if not self.history:
            self._tell("developer", f"<permissions instructions>{LONG}</permissions instructions>")
            self._tell("user", "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe good.\n</INSTRUCTIONS>")
        self._tell("user", text, "user.text")
        self._tell("developer", f"Hooked: {LONG}", "hooks.additional_context")
        self._tell("user", f"<skill>\n<name>tidy</name>\n{LONG}</skill>", "skills.selected_skill_instructions")

    def _tell(self, role: str, text: str, kind: str = "unknown") -> None:
        about = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}}
        content = [{"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": role, "content": content, **about})


def breakpoints(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(breakpoints, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + sum(map(breakpoints, value.values()))


@pytest.mark.full
@pytest.mark.parametrize("seed", first_quick(*range(3)))
@pytest.mark.parametrize("make", [RemindedClient, Queuing, Folding, Codex])
async def test_a_persons_words_stay_and_the_harness_s_go(make: type[Client], seed: int) -> None:
    client = make()
    # An index of evicted content would name the files of notices that have left.
    index = SessionIndex(MemoryStore(), replace(SMALL, policy=Policy(index_share=0)))
    done = await work(index, client, worker(client, seed), 8)
    sent, shown = json.dumps(client.history), json.dumps(done[-1].bodies[-1])
    assert len(index.status()) == 1
    assert done[-1].facts.evicted > 0
    for number in range(8):
        assert f"User turn {number}: please" in shown
    for number in range(len(client.history) + 1):
        assert (f"QUEUED {number}." in shown) == (f"QUEUED {number}." in sent)
    for words in ("tokens left", "Hooked: ", "<name>tidy", "# Tidy", "Stop hook feedback", "CLAUDE.md"):
        if words in sent:
            assert shown.count(words) < sent.count(words) / 2
    # What stands ahead of the first answer is the system's.
    for words in ("<permissions instructions>", "# AGENTS.md instructions"):
        assert shown.count(words) == sent.count(words)
    for each in done:
        # The client's two, and one behind what no pass may take.
        assert breakpoints(each.bodies[-1]) <= 3 if issubclass(make, AnthropicClient) else True


async def test_notices_that_are_not_marked_stay_and_the_client_is_told_that_the_budget_is_not_kept() -> None:
    class Unmarked(Codex):
        def _tell(self, role: str, text: str, kind: str = "unknown") -> None:
            super()._tell("user" if kind != "unknown" else role, text.replace("<skill>", "skill"))

    client = Unmarked()
    facts = (
        await work(
            SessionIndex(MemoryStore(), replace(SMALL, policy=Policy(min_room=0.0))), client, worker(client, 1), 8
        )
    )[-1].facts
    assert facts.view > SMALL.budget
    assert not facts.satisfied
    assert "over the budget of 2,400" in facts.note


async def test_a_session_that_begins_with_a_summary_stays_one_when_a_person_speaks() -> None:
    client = AnthropicClient()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 2, marks=False)
    client.history = [{"role": "user", "content": SUMMARY}]
    names = set()
    for number in range(4):
        done = await exchange(index, client, upstream)
        names.add(done.facts.session)
        if not client.take(done.answer, result):
            client.say(f"Turn {number}.")
    assert len(names) == len(index.status()) == 1
    other = AnthropicClient()
    other.history = copy.deepcopy(client.history)
    other.history[0] = {"role": "user", "content": SUMMARY.replace("harness", "client")}
    assert (await exchange(index, other, upstream)).facts.session not in names
