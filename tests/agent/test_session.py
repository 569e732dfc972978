"""The session: real tools, a real repository, a real journal, and a scripted model, in part over the real wire."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from tests.agent.conftest import config, dump_messages
from tests.agent.provider import APIS, Serve, serve
from tests.agent.work import Work, end, read_long, shell, start, task, working
from tests.marks import first_quick
from wane.agent.prompts import INTERRUPTED
from wane.agent.session import AgentSession, Outcome, TurnResult
from wane.agent.turn_events import SessionEvent, Spent, TextDelta, ToolCalled, ToolReturned, Warned, event_json
from wane.budgets import AutoBudget, TunedBudget
from wane.conversation.events import BudgetChosen, PassRan
from wane.core import Policy
from wane.core.errors import ConfigError, JournalError, UnknownEpisodeError
from wane.journal import NoteRecord, read
from wane.testing import Call, HttpError, Kind, Reply, Request, ScriptedServer, Usage
from wane.tuned import save_tuned

NOTE = re.compile(r"\[Automatic note[^]]*")
WIDENED = "Budget 3,000; "


@pytest.mark.full
@pytest.mark.parametrize("api", first_quick(*APIS))
def test_many_tasks_in_one_session_and_the_same_view_after_resuming(project: Path, api: str) -> None:
    script = [reply for number in range(6) for reply in task(number)] + [Reply("Again.")]
    with working(serve(api), project, script, budget=6_000) as at:
        assert [at.run(f"task {number}").output for number in range(6)] == [f"Done {number}." for number in range(6)]
        assert len(at.of(PassRan)) >= 2
        assert (project / "out3.txt").read_text() == "3\n"
        before = at.session
        resumed = at.resume()
        assert dump_messages(resumed.conversation.view) == dump_messages(before.conversation.view)
        assert resumed.window.export() == before.window.export()
        assert resumed.account == before.account
        assert [e.name for e in resumed.episodes] == [e.name for e in before.episodes]
        assert at.run("and again").output == "Again."
    assert all(request.tokens < 7_000 for request in at.requests)
    # Turns between which everything has left are one message on the wire (R12b).
    pieces = [piece for text in at.requests[-1].texts(Kind.USER) for piece in text.split("\n\n")]
    asked = [piece for piece in pieces if piece.startswith(("task", "and"))]
    assert asked == [f"task {number}" for number in range(6)] + ["and again"]


@pytest.mark.full
@pytest.mark.parametrize("marks", first_quick(True, False), ids=["never ends", "never marks"])
def test_a_restart_before_every_task_changes_no_reminder(serve_model: Serve, project: Path, marks: bool) -> None:
    def collect_notes(*, restarts: bool) -> list[str]:
        look = read_long({"limit": 90})
        replies = [look if n % 3 else Reply(f"Done {n}.") for n in range(1, 37)]
        if marks:
            replies[0] = replace(look, calls=(start("endless", "expl"), *look.calls))
        with working(serve_model, project, replies, budget=6_000, remind_at=0.3) as at:
            for number in range(12):
                at.run(f"task {number}")
                if restarts:
                    at.resume()
        assert len(at.requests) == 36
        return [next(iter(NOTE.findall(request.raw.decode())), "") for request in at.requests]

    steady = collect_notes(restarts=False)
    assert 2 <= sum(map(bool, steady)) <= 6
    assert all(("End the episode" in note) == marks for note in steady if note)
    assert collect_notes(restarts=True) == steady


def test_edits_are_refused_inside_an_exploration_by_their_place_in_the_message(
    serve_model: Serve, project: Path
) -> None:
    write = Call("write_file", {"path": "new.txt", "content": "x"})
    before = Call("write_file", {"path": "before.txt", "content": "x"})
    edit = Call("edit_file", {"path": "app.py", "old_text": "41", "new_text": "42"})
    replies = [
        Reply(calls=(before, start("look", "expl"), write)),
        Reply(calls=(edit, end("it is 41"), start("fix", "act", "look"), write)),
        Reply("ok"),
    ]
    with working(serve_model, project, replies, keep=False) as at:
        assert at.run().outcome is Outcome.DONE
    first, second = (list(request.results.values()) for request in at.requests[1:])
    assert first[0].startswith("Wrote")
    assert first[2].startswith('Error: write_file was refused, because the exploration "look" is active')
    assert '"dependencies": ["look"]' in first[2]
    # Shown so that it is not taken over as it is: the protocol refuses a description in angle brackets.
    assert '{"action": "end", "name": "look", "description": "<what you learned>"}' in first[2]
    assert "edit_file was refused" in second[3]
    assert second[-1].startswith("Wrote")
    assert (project / "app.py").read_text().endswith("41\n")


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", APIS)
def test_stopping_in_a_tool_closes_its_calls_and_the_session_goes_on(project: Path, api: str) -> None:
    commands = replace(shell("echo first", "sleep 60", "touch never"), text="Now.")
    with working(serve(api), project, [commands, Reply("I see.")]) as at:
        assert at.run(until=lambda event: isinstance(event, ToolReturned)).outcome is Outcome.INTERRUPTED
        assert sum(record.kind == "message" for record in at.records) == len(at.session.conversation.messages)
        assert at.run("what happened?").output == "I see."
    assert list(at.requests[1].results.values()) == ["first", INTERRUPTED, INTERRUPTED]
    assert not (project / "never").exists()


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", APIS)
def test_stopping_in_the_middle_of_an_answer(project: Path, api: str) -> None:
    with working(serve(api), project, [Reply("A long answer. " * 50), Reply("Short.")]) as at:
        assert at.run(until=lambda event: isinstance(event, TextDelta)).outcome is Outcome.INTERRUPTED
        assert at.run("again").output == "Short."
        before = at.session
        assert dump_messages(at.resume().conversation.view) == dump_messages(before.conversation.view)


def test_stopping_before_the_answer_begins(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("late", delay=30), Reply("ok")], keep=False) as at:

        async def impatient() -> TurnResult:
            turn = asyncio.create_task(at.session.run("go"))
            while not at.requests:
                await asyncio.sleep(0.01)
            at.session.cancel()
            return await turn

        assert asyncio.run(impatient()).outcome is Outcome.INTERRUPTED
        assert at.run("again").output == "ok"
    assert at.requests[1].texts(Kind.USER)[:2] == ("go", "again")


def test_a_cancelled_caller_leaves_the_session_in_order(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [shell("sleep 60"), Reply("ok")], keep=False) as at:

        async def cancel_turn() -> None:
            def watch(event: SessionEvent) -> None:
                if isinstance(event, ToolCalled):
                    turn.cancel()

            turn = asyncio.create_task(at.session.run("go", watch))
            with pytest.raises(asyncio.CancelledError):
                await turn

        asyncio.run(cancel_turn())
        assert at.run("again").output == "ok"
    assert list(at.requests[1].results.values()) == [INTERRUPTED]


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", APIS)
def test_a_model_error_ends_the_turn_and_not_the_session(project: Path, api: str) -> None:
    replies = [*task(0)[:1], Reply(error=HttpError(400, body="that is too much")), Reply("Better.")]
    with working(serve(api), project, replies) as at:
        result = at.run()
        assert (result.outcome, result.fault, result.waited) == (Outcome.FAILED, None, 0)
        assert "HTTP 400: that is too much" in (result.error or "")
        assert at.run("again").output == "Better."


def test_the_cost_limit_stops_before_the_next_call(serve_model: Serve, project: Path) -> None:
    usage = Usage(input=1_000_000, output=0)  # 2 dollars
    script = [replace(reply, usage=usage) for reply in task(0)]
    with working(serve_model, project, script, keep=False, cost_limit=3.0) as at:
        result = at.run()
        assert result.outcome is Outcome.COST_LIMIT
        assert "$3.00 is reached: $4.00" in (result.error or "")
        assert at.run("more").outcome is Outcome.COST_LIMIT
        assert len(at.requests) == 2


def test_a_cost_limit_that_cannot_be_kept_is_said(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, task(0), model=["no-such-model"], keep=False, cost_limit=3.0) as at:
        result = at.run()
    assert result.outcome is Outcome.COST_LIMIT
    assert "price is not known" in (result.error or "")
    assert result.spent.cost is None


def test_nothing_is_sent_that_is_not_on_record(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, task(0)) as at:
        assert at.session.journal is not None
        at.session.journal.close()
        result = at.run()
    assert result.outcome is Outcome.FAILED
    assert "is closed" in (result.error or "")
    assert not at.requests


def test_the_journal_is_ahead_of_every_call(serve_model: Serve, project: Path) -> None:
    paths: list[Path] = []
    replies = iter(task(0))

    def script(request: Request) -> Reply:
        records = [record.kind for record in read(paths[0]).records]
        assert records.count("message") == 1 + 2 * request.number
        assert records.count("usage") == request.number
        return next(replies)

    with working(serve_model, project, script) as at:
        paths.append(at.path)
        assert at.run().output == "Done 0."


def test_a_directory_that_cannot_be_written(serve_model: Serve, project: Path) -> None:
    if os.geteuid() == 0:
        (project.parent / "sessions").write_text("a file where the directory should be")
    else:
        (project.parent / "sessions").mkdir(mode=0o500)
    with serve_model([]) as server, pytest.raises(JournalError, match="WANE_SESSION_DIR"):
        AgentSession.create(config(project, server.model()))


def test_a_session_without_a_word_leaves_no_file(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, []) as at:
        assert at.path.exists()
        at.session.close()
    assert list(at.path.parent.iterdir()) == []


def test_settings_outlive_the_session_unless_chosen_anew(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("ok")], budget=9_000, policy=Policy(low_water=0.5)) as at:
        at.run()
        at.session.set_budget("12k")
        at.session.manage(False)
        at.given = config(project, at.given.settings.model, budget=80_000)
        resumed = at.resume()
        assert (resumed.window.budget, resumed.window.policy) == (12_000, Policy(low_water=0.5))
        assert resumed.settings.context.strategy == "none"
        chosen = at.resume(budget=80_000, strategy="cwl")
        assert (chosen.window.budget, chosen.settings.context.strategy) == (80_000, "cwl")
        assert chosen.conversation.settings.manage


def test_the_model_is_on_record_and_outlives_the_session(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("ok")]) as at:
        at.run()
        assert [record.data for record in at.records if isinstance(record, NoteRecord)] == [{"model": "openai:gpt-4.1"}]
        at.session.set_model("test")
        at.given = config(project, None)
        assert at.resume().settings.model == "test"


def test_another_model_from_the_next_turn_on(project: Path) -> None:
    with ScriptedServer([Reply("one"), Reply("two")]) as server:
        at = Work(server, config(project, server.openai_model("gpt-4o"), budget="50%"))  # type: ignore[arg-type]
        half = at.session.window.budget
        at.run()
        at.session.set_model(server.anthropic_model())
        assert at.session.window.budget != half
        assert at.run("go on").output == "two"
        assert [request.api for request in server.requests] == ["openai-chat", "anthropic"]
        with pytest.raises(ConfigError):
            at.session.set_budget("0")
        with pytest.raises(ConfigError, match="window"):
            at.session.set_model(TestModel())
        at.session.close()


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["none", "truncate"])
def test_other_strategies_have_no_episodes(serve_model: Serve, project: Path, strategy: str) -> None:
    reads = [read_long({"offset": 10 * number}) for number in range(12)]
    with working(serve_model, project, [*reads, Reply("ok"), Reply("more")], strategy=strategy, budget=8_000) as at:
        assert at.run().output == "ok"
        assert all("delimiter" not in request.tools for request in at.requests)
        assert "delimiter" not in at.requests[0].system
        largest = max(request.tokens for request in at.requests)
        assert largest > 15_000 if strategy == "none" else largest < 10_000
        at.given = replace(at.given, settings=at.given.settings.replace(strategy="cwl"))
        assert at.resume().settings.context.strategy == strategy
        assert at.run("on").output == "more"


def test_too_little_room_is_warned_of_once_for_each_budget(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [*task(0), *task(1), Reply("Done."), Reply("Done.")], budget=3_000) as at:
        assert at.session.warnings == [], "the tools are not known yet"
        at.run("go", "on")
        room = at.session.room
        assert room is not None
        (warned,) = at.of(Warned)
        assert warned.text.startswith(WIDENED)
        assert " of it always stay (" in warned.text
        assert "; working with 4," in warned.text
        at.session.set_budget(room.advised)
        at.run("on")
        assert at.session.room is not None
        assert not at.session.room.tight
        at.session.set_budget(3_000)
        resumed = at.resume()
        assert resumed.warnings[-1].startswith(WIDENED)
        resumed.manage(on=False)
        assert resumed.room is None
    assert len(at.of(Warned)) == 1


def test_a_budget_that_is_chosen_is_told_with_its_reason_and_kept(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("ok")] * 4, budget="auto") as at:
        at.run("go", "on")
        (chosen,) = at.of(BudgetChosen)
        assert str(chosen.budget) == "budget auto: 80,000 tokens, the default"
        assert event_json(chosen) == {"type": "budget", "tokens": 80_000, "reason": "the default"}
        save_tuned(TunedBudget(60_000, 7), os.environ)
        assert at.session.auto_budget == chosen.budget
        at.session.set_budget("auto")
        assert at.session.auto_budget == AutoBudget(60_000, "tuned on 7 of your sessions")
        assert at.session.window.budget == 60_000
        at.session.set_budget("70k")
        assert at.session.auto_budget is None
        resumed = at.resume()
        at.run("on")
        assert (resumed.window.budget, resumed.auto_budget) == (70_000, None)
        save_tuned(TunedBudget(50_000, 8), os.environ)
        again = at.resume(budget="auto")
        at.run("on")
        assert again.auto_budget == AutoBudget(50_000, "tuned on 8 of your sessions")
        assert again.window.budget == 50_000
        at.given = replace(at.given, settings=at.given.settings.replace(budget=80_000))
        assert at.resume().window.budget == 50_000


def test_a_damaged_tuned_budget_is_named_and_stops_nothing(serve_model: Serve, project: Path) -> None:
    damaged = save_tuned(TunedBudget(60_000, 7), os.environ)
    damaged.write_text("")
    with working(serve_model, project, [Reply("ok")] * 2, budget="auto") as at:
        at.run("go")
        (warning,) = [warning for warning in at.session.warnings if str(damaged) in warning]
        assert "run wane tune --save again" in warning
        assert at.session.auto_budget == AutoBudget(80_000, "the default")
        at.session.set_budget("auto")
        assert at.session.warnings.count(warning) == 2


@pytest.mark.full
def test_equal_rounds_in_a_window_that_is_too_small_end_the_turn(serve_model: Serve, project: Path) -> None:
    """A model that reads the same files again and again, as each is evicted before it can be used."""
    loop = [read_long({"offset": 50 * (n % 3)}) for n in range(60)]
    with working(serve_model, project, [*loop, Reply("Done.")], budget=6_000) as at:
        result = at.run()
        assert result.outcome is Outcome.FAILED
        error = result.error or ""
        assert error.startswith("the last 10 rounds made calls that had been made before, with the same results. ")
        assert "Set a budget of " in error
        assert len(at.requests) < 40
        (warned,) = [event.text for event in at.of(Warned) if "too small for this work" in event.text]
        began = [data for event in at.events if (data := event_json(event)) and data["type"] == "thrashing"]
        assert [data["warning"] for data in began] == [warned]
        # A person may go on, with more room.
        at.session.set_budget(60_000)
        assert at.run("go on").outcome is Outcome.DONE


@pytest.mark.full
def test_equal_rounds_in_a_window_that_holds_them_go_on(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [*[read_long()] * 30, Reply("Done.")], budget=200_000) as at:
        assert at.run().outcome is Outcome.DONE


def test_a_dry_pass_changes_nothing(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, task(0) + task(1), keep=False, budget=9_000) as at:
        at.run("go", "on")
        before = at.session.window.export()
        report = at.session.next_pass()
        assert next(step.episode for step in report.steps if step.episode) == "do-0"
        assert report.tokens_before == at.session.window.tokens
        assert at.session.window.export() == before


def test_recall_and_events(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, task(0), keep=False) as at:
        result = at.run()
    assert "value_299 = 299" in at.session.recall("look-0")
    with pytest.raises(UnknownEpisodeError):
        at.session.recall("nothing")
    assert "value_299 = 299" in at.session.search(r"value_29\d = 299")
    with pytest.raises(ConfigError, match="pattern"):
        at.session.search("")
    assert "".join(event.text for event in at.of(TextDelta)) == "Done 0."
    assert [event.tool for event in at.of(ToolCalled)][:2] == ["delimiter", "read_file"]
    assert len(at.of(Spent)) == 5
    assert at.of(Spent)[-1].account == at.session.account == result.spent


def test_pages_of_a_recall_are_whole_with_a_large_budget(serve_model: Serve, project: Path) -> None:
    (project / "long.py").write_text("".join(f"{number:099}\n" for number in range(1_000)))
    reads = read_long(*({"offset": offset} for offset in (0, 250, 500, 750))).calls
    pages: Sequence[dict[str, Any]] = ({"name": "long"}, {"name": "long", "offset": 80_000})
    recalls = [Reply(calls=(Call("recall", page),)) for page in pages]
    script = [Reply(calls=(start("long", "expl"), *reads)), Reply(calls=(end("long"),)), *recalls, Reply("ok")]
    with working(serve_model, project, script, keep=False, budget=200_000) as at:
        at.run()
    told = list(at.requests[-1].results.values())[-2:]
    # Where a page ends depends on the provider's count of the request before.
    assert told[0][100:75_000] == at.session.recall("long")[100:75_000]
    assert told[1][100:] == at.session.recall("long", 80_000)[100:]
    assert len(told[0]) > 75_000


def test_one_turn_at_a_time(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("ok", delay=0.2)], keep=False) as at:

        async def both() -> None:
            first = asyncio.create_task(at.session.run("go"))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="one task at a time"):
                await at.session.run("too")
            assert (await first).output == "ok"

        asyncio.run(both())
