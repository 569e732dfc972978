"""The agent under each strategy: what is sent, what a resumed session sends, what it cost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from tests.agent.clock import run_fast
from tests.agent.conftest import chosen, config
from tests.agent.provider import Serve
from tests.agent.test_session import path_of, run
from tests.marks import cross_quick, first_quick
from wane.agent.events import SessionEvent, Waiting
from wane.agent.options import Strategy
from wane.agent.session import AgentSession, Outcome
from wane.conversation.events import StrategyActed
from wane.conversation.request import RECALL_ALONE
from wane.core import Policy
from wane.core.errors import JournalError
from wane.journal import Journal, StrategyRecord
from wane.strategies.base import traits
from wane.strategies.clear_tools import PLACEHOLDER
from wane.strategies.fold import FOLDING
from wane.strategies.memgpt import WARNING
from wane.strategies.registry import STRATEGY_NAMES
from wane.strategies.summarised import PREFIX
from wane.testing import Break, Call, HttpError, Kind, Reply, Request, ScriptedServer

KEPT = ("truncate", "compact", "clear-tools", "fold", "memgpt", "resum", "acon", "mask", "streaming")
BUDGET = 7_000
TASKS = 7


def mark(**fields: object) -> Call:
    return Call("delimiter", {name: value for name, value in fields.items() if value is not None})


class Model:
    """Answers by what it is asked: a summary, or the next reply of a script."""

    def __init__(self, tasks: int, *, marks: bool) -> None:
        self.summaries = 0
        self.failing = False
        self._replies = iter([reply for number in range(tasks) for reply in self._task(number, marks=marks)])

    def __call__(self, request: Request) -> Reply:
        if not request.tools:
            self.summaries += 1
            return Reply(error=HttpError(400)) if self.failing else Reply(f"summary {self.summaries}")
        return next(self._replies)

    def _task(self, number: int, *, marks: bool) -> list[Reply]:
        read = [Call("read_file", {"path": "long.py", "offset": 10 * number}, id=f"r{number}_{n}") for n in range(2)]
        if not marks:
            return [*(Reply(f"Look {number}.", calls=(call,)) for call in read), Reply(f"Done {number}.")]
        return [
            Reply(calls=(mark(action="start", name=f"look-{number}", type="expl"), read[0])),
            Reply(calls=(read[1],)),
            Reply("Found.", calls=(mark(action="end", description=f"learned {number}"),)),
            Reply(f"Done {number}."),
        ]


@pytest.fixture
def project(repository: Path) -> Path:
    (repository / "long.py").write_text("".join(f"value_{number} = {number}\n" for number in range(400)))
    return repository


def tasks(first: int, stop: int) -> list[str]:
    return [f"task {number}" for number in range(first, stop)]


def shown(request: Request) -> list[tuple[Kind, str]]:
    """What a request shows, without what was thought."""
    return [(part.kind, part.text) for part in request.parts if part.kind is not Kind.SYSTEM]


def test_the_agent_knows_the_strategies_that_are_ours() -> None:
    assert get_args(Strategy) == STRATEGY_NAMES
    by_episode = {name for name in STRATEGY_NAMES if traits(name).by_episode}
    marked = {name for name in STRATEGY_NAMES if traits(name).marked}
    assert by_episode < marked < set(STRATEGY_NAMES)
    assert [name for name in STRATEGY_NAMES if not traits(name).bounded] == ["none"]


@pytest.mark.full
@pytest.mark.parametrize("api", ["openai_responses_model", "anthropic_model"])
@pytest.mark.parametrize("strategy", first_quick(*KEPT))
def test_every_request_is_one_that_the_provider_takes(project: Path, strategy: str, api: str) -> None:
    events: list[SessionEvent] = []
    model = Model(TASKS, marks=strategy == "fold")
    with ScriptedServer(model) as server:
        session = AgentSession.create(config(project, getattr(server, api)(), strategy=strategy, budget=BUDGET))
        assert run(session, *tasks(0, TASKS), on_event=events.append).output == f"Done {TASKS - 1}."
        session.close()
        assert server.refusals == ()
        # Nothing is lost: only requests are cut.
        assert sum(len(message.parts) for message in session.history) > 30
        acted = [event for event in events if isinstance(event, StrategyActed)]
        assert len(acted) >= 2
        assert all(event.strategy == strategy and event.tokens_after < event.tokens_before for event in acted)
        if strategy not in ("fold", "mask"):
            assert max(request.tokens for request in server.requests) < 1.2 * BUDGET
        assert ("delimiter" in server.requests[0].tools) == (strategy == "fold")
        assert (FOLDING[:60] in server.requests[0].system) == (strategy == "fold")


@pytest.mark.full
def test_what_each_strategy_shows(served: Serve, project: Path) -> None:
    last: dict[str, Request] = {}
    strategies = ("truncate", "compact", "clear-tools", "fold")
    for strategy in strategies:
        with served(Model(TASKS, marks=strategy == "fold")) as server:
            model = server.model()
            session = AgentSession.create(config(project, model, keep=False, strategy=strategy, budget=BUDGET))
            run(session, *tasks(0, TASKS))
            last[strategy] = server.requests[-1]
    users = {strategy: last[strategy].texts(Kind.USER) for strategy in strategies}
    assert users["truncate"][0] == "task 0"
    assert users["truncate"][-1] == f"task {TASKS - 1}"
    assert "task 1" not in users["truncate"]
    assert users["compact"][0].startswith(f"{PREFIX}summary ")
    assert "task 0" not in users["compact"]
    assert list(users["clear-tools"]) == list(users["fold"]) == tasks(0, TASKS)
    results = list(last["clear-tools"].results.values())
    assert results[0] == PLACEHOLDER
    assert "value_" in results[-1]
    assert last["fold"].texts(Kind.RESULT)[:2] == (
        'Started exploration "look-0". End it with a description of what you learned.',
        'Ended exploration "look-0"; its start and steps may leave your view.',
    )


@pytest.mark.full
@pytest.mark.parametrize("strategy", first_quick(*KEPT))
def test_a_resumed_session_goes_on_as_if_it_had_never_stopped(served: Serve, project: Path, strategy: str) -> None:
    def requests_of(stops: tuple[int, ...]) -> tuple[list[Request], AgentSession]:
        with served(Model(TASKS, marks=strategy == "fold")) as server:
            given = config(project, server.model(), strategy=strategy, budget=BUDGET)
            session = AgentSession.create(given)
            for first, stop in zip((0, *stops), (*stops, TASKS), strict=True):
                run(session, *tasks(first, stop))
                session.close()
                if stop < TASKS:
                    account = session.account
                    session = AgentSession.resume(path_of(session), given)
                    assert session.account == account
                    assert session.settings.context.strategy == strategy
            return list(server.requests), session

    whole, session = requests_of(())
    assert session.account.calls == len(whole)
    stopped, resumed = requests_of((4, 6))
    assert [shown(request) for request in stopped] == [shown(request) for request in whole]
    # A resumed session is given the git status anew.
    assert resumed.account.calls == session.account.calls
    assert resumed.account.output_tokens == session.account.output_tokens


@pytest.mark.full
def test_summaries_are_paid_for(served: Serve, project: Path) -> None:
    model = Model(TASKS, marks=False)
    with served(model) as server:
        session = AgentSession.create(config(project, server.model(), strategy="compact", budget=BUDGET))
        run(session, *tasks(0, TASKS))
        session.close()
        asked = [request for request in server.requests if not request.tools]
        assert len(asked) == model.summaries >= 2
        assert "context summarization assistant" in asked[0].system
        assert session.account.calls == len(server.requests)
        assert session.account.input_tokens == sum(request.tokens for request in server.requests)


@pytest.mark.full
def test_a_queue_is_flushed_with_a_warning_and_what_was_flushed_can_be_searched(served: Serve, project: Path) -> None:
    inner = Model(TASKS, marks=False)

    def answer(request: Request) -> Reply:
        if request.tools and request.texts(Kind.USER)[-1].endswith("find it"):
            if any(part.tool == "recall" for part in request.parts):
                return Reply("Found it.")
            return Reply(calls=(Call("recall", {"search": "value_0 = "}),))
        return inner(request)

    with served(answer) as server:
        session = AgentSession.create(config(project, server.model(), strategy="memgpt", budget=BUDGET))
        run(session, *tasks(0, TASKS))
        flushed = server.requests[-1]
        assert not any("value_0 = " in text for text in flushed.results.values())
        assert run(session, "find it").output == "Found it."
        session.close()
        found = next(reversed(server.requests[-1].results.values()))
        assert "value_0 = 0" in found
        assert "not in view" in found
        assert server.refusals == ()
    asked = [number for number, request in enumerate(server.requests) if not request.tools]
    warned = [
        number for number, request in enumerate(server.requests) if any(WARNING in it.text for it in request.parts)
    ]
    assert len(asked) == inner.summaries >= 2
    # One ahead of each flush, in that request alone.
    assert [sum(number < at for number in warned) for at in asked] == list(range(1, len(asked) + 1))
    assert RECALL_ALONE in server.requests[0].system
    assert server.requests[0].tools.count("recall") == 1
    # The second summary is made of the first one and of what was flushed since.
    assert "summary 1" in server.requests[asked[1]].texts(Kind.USER)[0]


@pytest.mark.full
def test_work_starts_again_from_the_question_and_a_summary(served: Serve, project: Path) -> None:
    model = Model(TASKS, marks=False)
    with served(model) as server:
        session = AgentSession.create(config(project, server.model(), strategy="resum", budget=BUDGET))
        run(session, *tasks(0, TASKS))
        session.close()
        assert server.refusals == ()
    asked = [number for number, request in enumerate(server.requests) if not request.tools]
    assert len(asked) >= 2
    # The first time in the middle of a turn: the results that made the view too large are not sent again.
    assert server.requests[asked[0] - 1].texts(Kind.USER)[-1] == server.requests[asked[0] + 1].texts(Kind.USER)[0]
    for place, number in enumerate(asked, 1):
        after = server.requests[number + 1]
        task, written = after.texts(Kind.USER)
        assert task.startswith("task ")
        assert written == f"{PREFIX}summary {place}"
        assert not after.results


def test_long_observations_are_compressed_before_the_model_sees_them(served: Serve, project: Path) -> None:
    (project / "long.py").write_text("".join(f"value_{number} = {number}  # {'x' * 80}\n" for number in range(400)))
    model = Model(2, marks=False)
    with served(model) as server:
        session = AgentSession.create(config(project, server.model(), strategy="acon", budget=80_000))
        run(session, *tasks(0, 2))
        session.close()
        assert server.refusals == ()
    asked = [request for request in server.requests if not request.tools]
    assert len(asked) == 4
    # The whole of it was read by the compressor, beside the task, and nothing of it by the agent.
    (told,) = asked[0].texts(Kind.USER)
    assert "value_200 = 200" in told
    assert "task 0" in told
    assert [*server.requests[-1].results.values()] == [f"summary {number}" for number in range(1, 5)]
    assert not any("value_200" in text for it in server.requests if it.tools for text in it.results.values())
    # The history has it whole.
    assert any("value_200" in str(message) for message in session.history)


def test_a_summary_that_fails_ends_the_turn_and_not_the_session(served: Serve, project: Path) -> None:
    model = Model(TASKS, marks=False)
    with served(model) as server:
        session = AgentSession.create(config(project, server.model(), strategy="compact", budget=BUDGET))
        model.failing = True
        for number in range(TASKS):
            result = run(session, f"task {number}")
            if result.outcome is not Outcome.DONE:
                break
        assert result.outcome is Outcome.FAILED
        model.failing = False
        assert run(session, "go on").outcome is Outcome.DONE
        assert model.summaries == 2
        session.close()


FAULTS = {
    "429 in 1 s": Reply(error=HttpError(429, headers={"retry-after": "1"})),
    "no answer": Reply("Half.", breaks=Break(0, "reset")),
    "half": Reply("Half of a summary.", breaks=Break(4)),
    "nothing": Reply("Half.", breaks=Break(0)),
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("api", "fault"), cross_quick(("anthropic_model", "openai_model", "openai_responses_model"), FAULTS)
)
def test_a_summary_waits_for_a_provider_that_fails(project: Path, fault: str, api: str) -> None:
    model = Model(TASKS, marks=False)
    failed = 0

    def script(request: Request) -> Reply:
        nonlocal failed
        if not request.tools and failed < 2:
            failed += 1
            return FAULTS[fault]
        return model(request)

    with ScriptedServer(script) as server:
        # Neither the client nor Pydantic AI may try again without a word.
        given = config(project, getattr(server, api)(max_retries=2), strategy="compact", budget=BUDGET)
        session = AgentSession.create(given)
        events: list[SessionEvent] = []
        assert run(session, *tasks(0, TASKS - 3), on_event=events.append, runs=run_fast).outcome is Outcome.DONE
        session.close()
        assert server.refusals == ()
    assert model.summaries >= 1
    assert [event.tries for event in events if isinstance(event, Waiting)] == [1, 2]
    assert not any("Half" in str(request.body) for request in server.requests)


@pytest.mark.full
@pytest.mark.parametrize("strategy", first_quick("truncate", "compact", "clear-tools"))
def test_another_strategy_begins_with_all_that_has_happened(served: Serve, project: Path, strategy: str) -> None:
    with served(Model(TASKS, marks=False)) as server:
        given = config(project, server.model(), strategy=strategy, budget=BUDGET)
        session = AgentSession.create(given)
        run(session, *tasks(0, 5))
        session.close()
        kept = server.requests[-1].tokens
        resumed = AgentSession.resume(path_of(session), chosen(given, strategy="none"))
        assert resumed.window.tokens > kept + 1_000
        run(resumed, "task 5")
        assert [text for text in server.requests[-1].texts(Kind.USER) if text.startswith("task")] == tasks(0, 6)
        resumed.close()
        # What it left out stays out when it is chosen again.
        again = AgentSession.resume(path_of(session), chosen(given, strategy=strategy))
        run(again, "task 6")
        again.close()
        first = len(server.requests) - 3
        assert server.requests[first].tokens < 1.2 * BUDGET
        assert server.refusals == ()


@pytest.mark.full
def test_eviction_by_episode_is_not_misled_by_what_was_sent_before(served: Serve, project: Path) -> None:
    with served(Model(TASKS, marks=False)) as server:
        given = config(project, server.model(), strategy="truncate", budget=BUDGET)
        session = AgentSession.create(given)
        run(session, *tasks(0, 6))
        session.manage(True)
        assert session.settings.context.strategy == "cwl"
        assert session.window.tokens > BUDGET
        run(session, "task 6")
        session.close()
        assert "delimiter" in server.requests[-1].tools
        assert server.refusals == ()


def test_a_session_file_that_tells_of_another_history_is_refused(served: Serve, project: Path) -> None:
    with served(Model(TASKS, marks=False)) as server:
        given = config(project, server.model(), strategy="truncate", budget=BUDGET)
        session = AgentSession.create(given)
        run(session, *tasks(0, 2))
        session.close()
        with closing(Journal.open(path_of(session))) as journal:
            journal.append(StrategyRecord(session.window.item_count, "truncate", {"from": 9999}))
        with pytest.raises(JournalError, match=r"does not replay: line \d+ .*: a cut was recorded at item 9999"):
            AgentSession.resume(path_of(session), given)


def test_paper_is_its_own_policy_whatever_else_is_set_or_switched(served: Serve, project: Path) -> None:
    with served(Model(TASKS, marks=True)) as server:
        given = config(project, server.model(), strategy="paper", budget=BUDGET)
        session = AgentSession.create(given)
        assert session.window.policy == Policy.paper()
        run(session, *tasks(0, 2))
        session.manage(False)
        session.manage(True)
        session.close()
        assert session.settings.context.strategy == "paper"
        assert session.settings.context.eviction == Policy.paper()
        resumed = AgentSession.resume(path_of(session), given)
        assert (resumed.settings.context.strategy, resumed.window.policy) == ("paper", Policy.paper())
        assert resumed.conversation.settings.strategy == "paper"
        resumed.close()
        other = AgentSession.resume(path_of(session), chosen(given, strategy="cwl"))
        assert (other.settings.context.strategy, other.window.policy) == ("cwl", Policy())
        other.close()
