"""The agent under each strategy: what is sent, what a resumed session sends, what it cost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.agent.clock import run_fast
from tests.agent.provider import Serve, serve
from tests.agent.work import end, start, working
from tests.marks import cross_quick, first_quick
from wane.agent.session import Outcome
from wane.agent.turn_events import Waiting
from wane.conversation.events import StrategyActed
from wane.conversation.request import RECALL_ALONE
from wane.core import Policy
from wane.core.errors import JournalError
from wane.journal import Journal, StrategyRecord
from wane.strategies.clear_tools import PLACEHOLDER
from wane.strategies.fold import FOLDING
from wane.strategies.memgpt import WARNING
from wane.strategies.registry import STRATEGY_NAMES, traits
from wane.strategies.summarised import PREFIX
from wane.testing import Break, Call, HttpError, Kind, Reply, Request

APIS = ("anthropic_model", "openai_model", "openai_responses_model")
KEPT = tuple(name for name in STRATEGY_NAMES if traits(name).bounded and not traits(name).by_episode)
BUDGET = 7_000
TASKS = 7


class Model:
    """Answers by what it is asked: a summary, or the next reply of a script."""

    def __init__(self, tasks: int = TASKS, *, marks: bool = False) -> None:
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
            Reply(calls=(start(f"look-{number}", "expl"), read[0])),
            Reply(calls=(read[1],)),
            Reply("Found.", calls=(end(f"learned {number}"),)),
            Reply(f"Done {number}."),
        ]


@pytest.fixture
def project(repository: Path) -> Path:
    (repository / "long.py").write_text("".join(f"value_{number} = {number}\n" for number in range(400)))
    return repository


def tasks(first: int, stop: int) -> list[str]:
    return [f"task {number}" for number in range(first, stop)]


ALL = tasks(0, TASKS)


def test_the_agent_knows_the_strategies_that_are_ours() -> None:
    by_episode = {name for name in STRATEGY_NAMES if traits(name).by_episode}
    marked = {name for name in STRATEGY_NAMES if traits(name).marked}
    assert by_episode < marked < set(STRATEGY_NAMES)
    assert [name for name in STRATEGY_NAMES if not traits(name).bounded] == ["none"]


@pytest.mark.full
@pytest.mark.parametrize("api", ["openai_responses_model", "anthropic_model"])
@pytest.mark.parametrize("strategy", first_quick(*KEPT))
def test_every_request_is_one_that_the_provider_takes(project: Path, strategy: str, api: str) -> None:
    folds = strategy == "fold"
    with working(serve(api), project, Model(marks=folds), strategy=strategy, budget=BUDGET) as at:
        assert at.run(*ALL).output == f"Done {TASKS - 1}."
    # Nothing is lost: only requests are cut.
    assert sum(len(message.parts) for message in at.session.history) > 30
    acted = at.of(StrategyActed)
    assert len(acted) >= 2
    assert all(event.strategy == strategy and event.tokens_after < event.tokens_before for event in acted)
    if strategy not in ("fold", "mask"):
        assert max(request.tokens for request in at.requests) < 1.2 * BUDGET
    assert ("delimiter" in at.requests[0].tools) == folds
    assert (FOLDING[:60] in at.requests[0].system) == folds


@pytest.mark.full
def test_what_each_strategy_shows(serve_model: Serve, project: Path) -> None:
    last: dict[str, Request] = {}
    for strategy in ("truncate", "compact", "clear-tools", "fold"):
        script = Model(marks=strategy == "fold")
        # Truncation may cut up to the latest answer, and the task with it: here it cuts less.
        with working(serve_model, project, script, keep=False, strategy=strategy, budget=BUDGET, low_water=0.5) as at:
            at.run(*ALL)
        last[strategy] = at.requests[-1]
    users = {strategy: request.texts(Kind.USER) for strategy, request in last.items()}
    assert (users["truncate"][0], users["truncate"][-1]) == (ALL[0], ALL[-1])
    assert "task 1" not in users["truncate"]
    assert users["compact"][0].startswith(f"{PREFIX}summary ")
    assert "task 0" not in users["compact"]
    assert list(users["clear-tools"]) == list(users["fold"]) == ALL
    results = list(last["clear-tools"].results.values())
    assert results[0] == PLACEHOLDER
    assert "value_" in results[-1]
    assert last["fold"].texts(Kind.RESULT)[:2] == (
        'Started exploration "look-0". End it with a description of what you learned.',
        'Ended exploration "look-0"; its start and steps may leave your view.',
    )


@pytest.mark.full
@pytest.mark.parametrize("strategy", first_quick(*KEPT))
def test_a_resumed_session_goes_on_as_if_it_had_never_stopped(serve_model: Serve, project: Path, strategy: str) -> None:
    def course(stops: tuple[int, ...]) -> tuple[list[list[tuple[Kind, str]]], tuple[int, int]]:
        with working(serve_model, project, Model(marks=strategy == "fold"), strategy=strategy, budget=BUDGET) as at:
            for first, stop in zip((0, *stops), (*stops, TASKS), strict=True):
                at.run(*tasks(first, stop))
                account = at.session.account
                resumed = at.resume()
                assert (resumed.account, resumed.settings.context.strategy) == (account, strategy)
        # A resumed session is given the git status anew, as a part of the system's.
        shown = [[(p.kind, p.text) for p in request.parts if p.kind is not Kind.SYSTEM] for request in at.requests]
        assert account.calls == len(shown)
        return shown, (account.calls, account.output_tokens)

    assert course(()) == course((4, 6))


@pytest.mark.full
def test_summaries_are_paid_for(serve_model: Serve, project: Path) -> None:
    model = Model()
    with working(serve_model, project, model, strategy="compact", budget=BUDGET) as at:
        at.run(*ALL)
    asked = [request for request in at.requests if not request.tools]
    assert len(asked) == model.summaries >= 2
    assert "context summarization assistant" in asked[0].system
    assert at.session.account.calls == len(at.requests)
    assert at.session.account.input_tokens == sum(request.tokens for request in at.requests)


@pytest.mark.full
def test_a_queue_is_flushed_with_a_warning_and_what_was_flushed_can_be_searched(
    serve_model: Serve, project: Path
) -> None:
    inner = Model()

    def answer(request: Request) -> Reply:
        if request.tools and request.texts(Kind.USER)[-1].endswith("find it"):
            if any(part.tool == "recall" for part in request.parts):
                return Reply("Found it.")
            return Reply(calls=(Call("recall", {"search": "value_0 = "}),))
        return inner(request)

    with working(serve_model, project, answer, strategy="memgpt", budget=BUDGET) as at:
        at.run(*ALL)
        assert not any("value_0 = " in text for text in at.requests[-1].results.values())
        assert at.run("find it").output == "Found it."
    page = next(reversed(at.requests[-1].results.values()))
    assert "value_0 = 0" in page
    assert "not in view" in page
    asked = [number for number, request in enumerate(at.requests) if not request.tools]
    warned = [n for n, request in enumerate(at.requests) if any(WARNING in part.text for part in request.parts)]
    assert len(asked) == inner.summaries >= 2
    # One ahead of each flush, in that request alone.
    assert [sum(number < flush for number in warned) for flush in asked] == list(range(1, len(asked) + 1))
    assert RECALL_ALONE in at.requests[0].system
    assert at.requests[0].tools.count("recall") == 1
    # The second summary is made of the first one and of what was flushed since.
    assert "summary 1" in at.requests[asked[1]].texts(Kind.USER)[0]


@pytest.mark.full
def test_work_starts_again_from_the_question_and_a_summary(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, Model(), strategy="resum", budget=BUDGET) as at:
        at.run(*ALL)
    asked = [number for number, request in enumerate(at.requests) if not request.tools]
    assert len(asked) >= 2
    # The first time in the middle of a turn: the results that made the view too large are not sent again.
    assert at.requests[asked[0] + 1].texts(Kind.USER)[0].startswith(at.requests[asked[0] - 1].texts(Kind.USER)[-1])
    for summary, number in enumerate(asked, 1):
        after = at.requests[number + 1]
        # Both are one message where the history never had two of the user's in a row (R12b).
        asked_for = "\n\n".join(after.texts(Kind.USER))
        assert asked_for.startswith("task ")
        assert asked_for.endswith(f"{PREFIX}summary {summary}")
        assert not after.results


def test_long_observations_are_compressed_before_the_model_sees_them(serve_model: Serve, project: Path) -> None:
    (project / "long.py").write_text("".join(f"value_{number} = {number}  # {'x' * 80}\n" for number in range(400)))
    with working(serve_model, project, Model(2), strategy="acon", budget=80_000) as at:
        at.run(*tasks(0, 2))
    asked = [request for request in at.requests if not request.tools]
    assert len(asked) == 4
    # The whole of it was read by the compressor, beside the task, and nothing of it by the agent.
    (prompt,) = asked[0].texts(Kind.USER)
    assert "value_200 = 200" in prompt
    assert "task 0" in prompt
    assert [*at.requests[-1].results.values()] == [f"summary {number}" for number in range(1, 5)]
    by_agent = [request for request in at.requests if request.tools]
    assert not any("value_200" in text for request in by_agent for text in request.results.values())
    # The history has it whole.
    assert any("value_200" in str(message) for message in at.session.history)


def test_a_summary_that_fails_ends_the_turn_and_not_the_session(serve_model: Serve, project: Path) -> None:
    model = Model()
    model.failing = True
    with working(serve_model, project, model, strategy="compact", budget=BUDGET) as at:
        while (outcome := at.run("on").outcome) is Outcome.DONE:
            pass
        assert outcome is Outcome.FAILED
        model.failing = False
        assert at.run("go on").outcome is Outcome.DONE
        assert model.summaries == 2


FAULTS = {
    "429 in 1 s": Reply(error=HttpError(429, headers={"retry-after": "1"})),
    "no answer": Reply("Half.", breaks=Break(0, "reset")),
    "half": Reply("Half of a summary.", breaks=Break(4)),
    "nothing": Reply("Half.", breaks=Break(0)),
}


@pytest.mark.full
@pytest.mark.parametrize(("api", "fault"), cross_quick(APIS, FAULTS))
def test_a_summary_waits_for_a_provider_that_fails(project: Path, fault: str, api: str) -> None:
    model = Model()
    failed = 0

    def script(request: Request) -> Reply:
        nonlocal failed
        if not request.tools and failed < 2:
            failed += 1
            return FAULTS[fault]
        return model(request)

    # Neither the client nor Pydantic AI may try again without a word.
    with working(serve(api), project, script, max_retries=2, strategy="compact", budget=BUDGET) as at:
        assert at.run(*tasks(0, TASKS - 3), runs=run_fast).outcome is Outcome.DONE
    assert model.summaries >= 1
    assert [event.tries for event in at.of(Waiting)] == [1, 2]
    assert not any("Half" in str(request.body) for request in at.requests)


@pytest.mark.full
@pytest.mark.parametrize("strategy", first_quick("truncate", "compact", "clear-tools"))
def test_another_strategy_begins_with_all_that_has_happened(serve_model: Serve, project: Path, strategy: str) -> None:
    with working(serve_model, project, Model(), strategy=strategy, budget=BUDGET) as at:
        at.run(*tasks(0, 5))
        kept = at.requests[-1].tokens
        assert at.resume(strategy="none").window.tokens > kept + 1_000
        at.run("task 5")
        assert [text for text in at.requests[-1].texts(Kind.USER) if text.startswith("task")] == tasks(0, 6)
        # What it left out stays out when it is chosen again.
        at.resume(strategy=strategy)
        at.run("task 6")
    assert at.requests[-3].tokens < 1.2 * BUDGET


@pytest.mark.full
def test_eviction_by_episode_is_not_misled_by_what_was_sent_before(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, Model(), strategy="truncate", budget=BUDGET) as at:
        at.run(*tasks(0, 6))
        at.session.manage(True)
        assert at.session.settings.context.strategy == "cwl"
        assert at.session.window.tokens > BUDGET
        at.run("task 6")
    assert "delimiter" in at.requests[-1].tools


def test_a_session_file_that_tells_of_another_history_is_refused(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, Model(), strategy="truncate", budget=BUDGET) as at:
        at.run(*tasks(0, 2))
        at.session.close()
        with closing(Journal.open(at.path)) as journal:
            journal.append(StrategyRecord(at.session.window.item_count, "truncate", {"from": 9999}))
        with pytest.raises(JournalError, match=r"does not replay: line \d+ .*: a cut was recorded at item 9999"):
            at.resume()


def test_paper_is_its_own_policy_whatever_else_is_set_or_switched(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, Model(marks=True), strategy="paper", budget=BUDGET) as at:
        assert at.session.window.policy == Policy.paper()
        at.run(*tasks(0, 2))
        at.session.manage(False)
        at.session.manage(True)
        assert at.session.settings.context.strategy == "paper"
        assert at.session.settings.context.eviction == Policy.paper()
        resumed = at.resume()
        assert (resumed.settings.context.strategy, resumed.window.policy) == ("paper", Policy.paper())
        assert resumed.conversation.settings.strategy == "paper"
        other = at.resume(strategy="cwl")
        assert (other.settings.context.strategy, other.window.policy) == ("cwl", Policy())
