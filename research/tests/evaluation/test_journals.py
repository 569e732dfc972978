"""What is read from the journals of a trial: figures, and what the agent did call by call."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.sample import Chat, save
from wane.journal import Journal, MessageRecord, NoteRecord, StrategyRecord, UsageRecord
from wane.journal.records import SPENT_NOTE
from wane.lab.readers import read_file
from wane.lab.recorded_session import RecordedSession
from wane_research.evaluation.results import NOTHING, Arm, ContextFigures, Usage
from wane_research.evaluation.running.config import Task
from wane_research.evaluation.running.journals import (
    SESSIONS,
    STORE,
    JournalFigures,
    estimate_of,
    explored_first,
    figures_of,
    journals_in,
    tool_uses,
    unended_episodes,
    usage_of,
)
from wane_research.evaluation.running.trial import Attempt


def test_of_copies_of_a_session_the_longest_counts_whatever_their_times_say(tmp_path: Path) -> None:
    whole = save(tmp_path / "trial" / "agent" / SESSIONS, cwd=tmp_path)
    part = tmp_path / "trial" / "steps" / "one" / "agent" / SESSIONS / whole.name
    part.parent.mkdir(parents=True)
    part.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:6]))
    os.utime(whole, (0, 0))
    assert journals_in(tmp_path / "trial") == (whole,)


def test_a_file_of_the_grader_or_of_another_agent_is_no_session(tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    ours = save(trial / "agent" / SESSIONS, cwd=tmp_path)
    of_proxy = save(trial / "steps" / "one" / "agent" / STORE, cwd=tmp_path, session_id="of-proxy")
    for place in ("verifier/report.jsonl", "artifacts/app/report.jsonl", "steps/one/verifier/report.jsonl"):
        (trial / place).parent.mkdir(parents=True)
        (trial / place).write_text("{}\n")
    assert journals_in(trial) == (ours,)
    assert journals_in(trial, STORE) == (of_proxy,)


def test_steps_in_sessions_of_their_own_are_summed(tmp_path: Path) -> None:
    journal = save(tmp_path / "trial" / "agent" / SESSIONS, cwd=tmp_path, budget=3_000)
    calls, alone = figures_of(journal).since(JournalFigures(), 3_000)
    assert alone is not None
    assert alone.passes > 0
    second = journal.with_name("second.jsonl")
    shutil.copy(journal, second)
    assert journals_in(tmp_path / "trial") == (journal, second)
    twice, both = figures_of(journal, second).since(JournalFigures(), 3_000)
    assert both is not None
    assert (both.passes, both.evicted_tokens) == (2 * alone.passes, 2 * alone.evicted_tokens)
    assert both.peak_view == alone.peak_view
    assert twice.input_tokens == 2 * (calls.input_tokens or 0) > 0
    # What was there before does not count.
    nothing = ContextFigures(explored_first=0, repeated=0, unended=0)
    assert figures_of(journal).since(figures_of(journal), 3_000) == (NOTHING, nothing)


@pytest.mark.full
def test_what_a_trial_did_is_what_its_session_did_after_the_trial_before(tmp_path: Path) -> None:
    arm = Arm("b", "test:model", "cwl", 3_000, "single")
    task = Task("two", tmp_path, None)
    attempt = Attempt(arm, 1, 2, task, tmp_path)
    whole = save(attempt.directory / "agent" / SESSIONS, cwd=tmp_path, budget=3_000)
    usage, context = attempt.figures()
    assert (usage, context) == figures_of(whole).since(JournalFigures(), 3_000)
    assert context is not None
    lines = whole.read_bytes().splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        earlier = tmp_path / "earlier.jsonl"
        earlier.write_bytes(b"".join(lines[:end]))
        before, context_before = figures_of(earlier).since(JournalFigures(), 3_000)
        after, context_after = replace(attempt, earlier=earlier).figures()
        assert context_before is not None
        assert context_after is not None
        assert (before.model_calls or 0) + (after.model_calls or 0) == usage.model_calls
        assert context_before.passes + context_after.passes == context.passes
        assert context_before.evicted_tokens + context_after.evicted_tokens == context.evicted_tokens
        assert max(context_before.peak_view, context_after.peak_view) == context.peak_view
    # Of what cannot be read nothing is known.
    whole.write_text("damaged\n")
    assert attempt.figures() == (Usage(), None)
    assert (usage_of(whole), estimate_of(whole)) == (Usage(), 0)


def test_summaries_are_paid_for_and_take_from_the_view(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("Look around.")
    chat.call("read", {"path": "a.py"}, "x" * 4_000)
    chat.say("I have.")
    with Journal.create(tmp_path, cwd=tmp_path, message_format="openai", session_id="5a3e", fsync=False) as journal:
        for items, message in enumerate(chat.messages):
            if message["role"] == "assistant":
                journal.append(UsageRecord(items=items, input_tokens=1_100, output_tokens=5, cost=0.5))
            journal.append(MessageRecord(message=message))
        spent = {"input_tokens": 2_000, "output_tokens": 50, "cost": 0.25, "model": "test:model"}
        journal.append(NoteRecord(SPENT_NOTE, spent))
        journal.append(StrategyRecord(5, "compact", {"from": 4, "summary": "Looked around.", "tokens": 4}))
    assert usage_of(journal.path) == Usage(3, 4_200, 0, 0, 60, 1.25)
    _, context = figures_of(journal.path).since(JournalFigures(), 1_000)
    assert context is not None
    assert (context.passes, context.peak_view, context.over_budget) == (1, 1_100, 2)
    assert 900 < context.evicted_tokens < 1_000


def test_how_much_an_unknown_strategy_evicted_is_not_known(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("Look around.")
    chat.say("I have.")
    with Journal.create(tmp_path, cwd=tmp_path, message_format="openai", session_id="5a3e", fsync=False) as journal:
        for message in chat.messages:
            journal.append(MessageRecord(message=message))
        journal.append(StrategyRecord(2, "a-strategy-of-tomorrow", {"evicted": [0]}))
    assert figures_of(journal.path).since(JournalFigures(), 1_000) == (NOTHING, None)


def test_calls_without_a_price_make_the_cost_a_bound_and_those_without_tokens_are_counted_apart(tmp_path: Path) -> None:
    with Journal.create(tmp_path, cwd=tmp_path, message_format="openai", session_id="5a3e", fsync=False) as journal:
        journal.append(UsageRecord(items=0, input_tokens=100, output_tokens=5, cost=0.5))
        journal.append(UsageRecord(items=0, input_tokens=0, output_tokens=0))
    used = usage_of(journal.path)
    assert (used.model_calls, used.cost, used.cost_at_least, used.known_cost) == (2, None, 0.5, 0.5)
    assert (used.input_tokens, used.unreported) == (100, 1)


# What the agent did, call by call


def save_chat(folder: Path, chat: Chat) -> Path:
    with Journal.create(folder, cwd=folder, message_format="openai", session_id="5a3e", fsync=False) as journal:
        for message in chat.messages:
            journal.append(MessageRecord(message=message))
    return journal.path


def session_of(folder: Path, chat: Chat) -> RecordedSession:
    (session,) = read_file(save_chat(folder, chat))
    return session


def make_chat() -> Chat:
    chat = Chat()
    chat.user("Put it right.")
    chat.call("delimiter", {"action": "start", "name": "look", "type": "expl"}, "Started.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "a")
    chat.call("read_file", {"offset": 1, "path": "a.py"}, "a")
    chat.call("shell", {"command": "python -m unittest"}, "OK")
    chat.call("edit_file", {"path": "a.py", "old_text": "a", "new_text": "b"}, "Edited.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "b")
    return chat


def test_a_read_is_a_repeat_as_long_as_nothing_has_changed(tmp_path: Path) -> None:
    uses = list(tool_uses(session_of(tmp_path, make_chat())))
    assert [(use.explores, use.changes, use.repeats) for use in uses] == [
        (True, False, False),
        (True, False, True),
        (False, False, False),
        (False, True, False),
        (True, False, False),
    ]
    assert explored_first(uses) == 2
    assert explored_first(uses[4:]) == 1, "nothing was changed, so all of it counts"


def test_an_episode_is_without_end_until_it_is_ended(tmp_path: Path) -> None:
    chat = make_chat()
    assert unended_episodes(session_of(tmp_path / "open", chat)) == {"look"}
    chat.call("delimiter", {"action": "start", "name": "write", "type": "expl"}, "Error: look is active.")
    chat.call("delimiter", {"action": "end", "name": "look", "description": "a is b"}, "Ended.")
    assert unended_episodes(session_of(tmp_path / "ended", chat)) == set()


def test_in_a_session_over_tasks_each_counts_what_it_did_itself(tmp_path: Path) -> None:
    """An episode that was left open before is not counted again."""
    chat = make_chat()
    before = figures_of(save_chat(tmp_path / "before", chat))
    chat.user("The next task.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "another a, in a new environment")
    chat.call("read_file", {"path": "b.py"}, "b")
    chat.call("read_file", {"path": "b.py"}, "b")
    chat.call("write_file", {"path": "c.py", "content": "c"}, "Wrote c.py.")
    after = figures_of(save_chat(tmp_path / "after", chat))
    _, first = before.since(type(before)(), None)
    _, second = after.since(before, None)
    assert first is not None
    assert second is not None
    assert (first.explored_first, first.repeated, first.unended) == (2, 1, 1)
    assert (second.explored_first, second.repeated, second.unended) == (3, 1, 0)
