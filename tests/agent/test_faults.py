"""A provider that fails: its passing faults change nothing but the time, and the others end the turn by name."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from tests.agent.clock import run_fast
from tests.agent.conftest import config, dump_messages
from tests.agent.provider import serve
from tests.agent.work import Work, read_long, working
from tests.marks import cross_quick, first_quick
from wane.agent.faults import (
    LONGEST_WAIT,
    OUTAGES,
    PATIENCE,
    BrokenAnswerError,
    Fault,
    Patience,
    check_whole,
    pause,
)
from wane.agent.models import explain
from wane.agent.session import AgentSession
from wane.agent.turn_events import Outcome, SessionEvent, TurnResult, Waiting, Warned, event_json
from wane.journal import UsageRecord
from wane.testing import Break, Call, HttpError, Reply, ScriptedServer, Usage

APIS = ("anthropic_model", "openai_model", "openai_responses_model")
ANTHROPIC = serve("anthropic_model")
ANSWER = Reply(reasoning="Look.", text="I read it again.", calls=(Call("read_file", {"path": "app.py"}),))

_OWN_IDS = re.compile(r"_n[0-9a-f]{16,}")
"""The server's ids, which differ with the number of the request."""

PASSING = {
    "429": Reply(error=HttpError(429)),
    "429 in 1 s": Reply(error=HttpError(429, headers={"retry-after": "1"})),
    "408": Reply(error=HttpError(408)),
    "500": Reply(error=HttpError(500)),
    "502 of a gateway": Reply(error=HttpError(502, body="<html>Bad Gateway</html>")),
    "503": Reply(error=HttpError(503)),
    "529": Reply(error=HttpError(529)),
    "no answer": replace(ANSWER, breaks=Break(0, "reset")),
    "torn down": replace(ANSWER, breaks=Break(4, "reset")),
    "nothing": replace(ANSWER, breaks=Break(0)),
    "its beginning": replace(ANSWER, breaks=Break(1)),
    "half": replace(ANSWER, breaks=Break(4)),
    "not JSON": replace(ANSWER, breaks=Break(3, "garbage")),
    "an error event": replace(ANSWER, breaks=Break(3, "error")),
}
"""Faults that pass by waiting, each in the middle of a task."""

QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": None}}
REGION = {"error": {"message": "Country not supported", "code": "unsupported_country_region_territory"}}
CREDIT = {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low."}}

LASTING = {
    "quota": ("quota", HttpError(429, body=QUOTA)),
    "credit": ("quota", HttpError(400, body=CREDIT)),
    "payment": ("quota", HttpError(402)),
    "key": ("access", HttpError(401)),
    "region": ("access", HttpError(403, body=REGION)),
    "model": ("model", HttpError(404)),
}


@pytest.fixture
def repository(repository: Path) -> Path:
    """A project without git, whose status would be given up too soon by a fast clock on a busy machine."""
    shutil.rmtree(repository / ".git")
    return repository


def task(*faults: Reply) -> list[Reply]:
    """Read, change and answer, with faults before the second call."""
    write = Call("write_file", {"path": "out.txt", "content": "41\n"})
    return [Reply(calls=(Call("read_file", {"path": "app.py"}),)), *faults, Reply(calls=(write,)), Reply("Done.")]


def failing_reply(status: int, **headers: str) -> Reply:
    return Reply(error=HttpError(status, headers={name.replace("_", "-"): value for name, value in headers.items()}))


def ends(
    directory: Path, script: Sequence[Reply], *, api: str = "anthropic_model", fast: bool = True, **settings: Any
) -> tuple[Work, TurnResult]:
    """Run a task to its end, with waits that are short unless a time of the real wire matters."""
    with working(serve(api), directory, script, **settings) as at:
        return at, at.run(runs=run_fast if fast else asyncio.run)


Course: TypeAlias = tuple[list[str], list[object], TurnResult, list[Waiting]]
"""What a task sent, of what kinds its history is, how it ended, and its waits."""


def course(repository: Path, api: str, faults: Sequence[Reply]) -> Course:
    at, result = ends(repository, task(*faults), api=api)
    assert (result.outcome, result.output, result.fault) == (Outcome.DONE, "Done.", None)
    sent = [_OWN_IDS.sub("id", json.dumps(request.body)).replace(str(repository), "here") for request in at.requests]
    history: Any = dump_messages(at.session.history)
    kinds = [[part["part_kind"] for part in message["parts"]] for message in history]
    return sent, kinds, result, at.of(Waiting)


@pytest.fixture(scope="module")
def smooth() -> dict[str, Course]:
    """The task without faults over each API, as soon as a test has done it."""
    return {}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("api", "name"), cross_quick(APIS, PASSING))
def test_a_passing_fault_changes_nothing_but_the_time(
    repository: Path, api: str, name: str, smooth: dict[str, Course]
) -> None:
    if api not in smooth:
        smooth[api] = course(repository, api, ())
        (repository / "out.txt").unlink()
    bodies, kinds, _, waits = smooth[api]
    assert waits == []
    rough, same, result, waits = course(repository, api, [PASSING[name]] * 2)
    # The failed request is sent again as it was, and what came of a broken answer is in no later request.
    assert rough == [bodies[0], bodies[1], bodies[1], bodies[1], *bodies[2:]]
    assert same == kinds
    assert [wait.tries for wait in waits] == [1, 2]
    assert result.waited >= sum(wait.seconds for wait in waits)


@pytest.mark.quick(2)
@pytest.mark.parametrize(("api", "name"), cross_quick(APIS, LASTING))
def test_a_lasting_fault_ends_the_turn_by_its_name(repository: Path, api: str, name: str) -> None:
    kind, error = LASTING[name]
    with working(serve(api), repository, [*task(Reply(error=error)), Reply("Again.")]) as at:
        result = at.run()
        assert result.outcome is Outcome.PROVIDER
        assert result.fault is not None
        assert (result.fault.kind, result.fault.status) == (kind, error.status)
        assert str(error.status) in (result.error or "")
        # The session is whole, and goes on once the cause is gone.
        assert at.run("go on").outcome is Outcome.DONE


def _refusal_error(status: int, message: str, **more: object) -> HttpError:
    return HttpError(status, body={"error": {"message": message, **more}})


WORDINGS = {
    "Anthropic, organization": ("access", _refusal_error(400, "This organization has been disabled.")),
    "Anthropic, length": (
        "context",
        _refusal_error(400, "input length and `max_tokens` exceed context limit: 190 + 20 > 200"),
    ),
    "Anthropic, size": ("context", _refusal_error(413, "Request exceeds the maximum size")),
    "OpenAI, verification": ("access", _refusal_error(400, "Your organization must be verified to stream this model.")),
    "OpenAI, tokens a minute": (
        "context",
        _refusal_error(429, "Request too large for x: Limit 30000, Requested 42000."),
    ),
    "Google, location": ("access", HttpError(400, body={"error": "User location is not supported for the API use."})),
    "OpenRouter, model": ("model", _refusal_error(400, "foo/bar is not a valid model ID", code=400)),
    "OpenRouter, key": ("quota", _refusal_error(403, "Key limit exceeded (total limit).", code=403)),
    "OpenRouter, behind it": (
        "context",
        _refusal_error(
            400, "Provider returned error", code=400, metadata={"raw": "prompt is too long: 215000 > 200000"}
        ),
    ),
    "LiteLLM, model": ("model", _refusal_error(400, "Invalid model name passed in model=foo.", code="400")),
    "LiteLLM, budget": ("quota", _refusal_error(429, "Budget has been exceeded! Current cost: 1.2", code="429")),
    "DeepSeek, model": ("model", _refusal_error(400, "Model Not Exist")),
    "vLLM, length": (
        "context",
        _refusal_error(400, "The decoder prompt (length 40000) is longer than the maximum model length"),
    ),
    "vLLM, tokens": (
        "context",
        _refusal_error(400, "You passed 9 input tokens. However, the model's context length is only 8"),
    ),
    "llama.cpp, length": (
        "context",
        _refusal_error(400, "request (4097 tokens) exceeds the available context size (4096)"),
    ),
    "xAI, length": ("context", HttpError(400, body={"error": "This model's maximum prompt length is 131072 but …"})),
    "a gateway": ("access", HttpError(407, body="Proxy Authentication Required")),
}
"""Refusals for which Pydantic AI has no category."""


@pytest.mark.quick(3)
@pytest.mark.parametrize("wording", WORDINGS)
def test_refusals_are_known_by_their_words(repository: Path, wording: str) -> None:
    kind, refusal = WORDINGS[wording]
    _, result = ends(repository, [Reply(error=refusal)], api="openai_model", strategy="none", patience=0)
    assert result.fault is not None
    assert (result.fault.kind, result.fault.status) == (kind, refusal.status)


@pytest.mark.full
def test_patience_ends(repository: Path) -> None:
    at, result = ends(repository, task(*[failing_reply(529)] * 50), fast=False, patience=0.03)
    assert result.outcome is Outcome.PROVIDER
    assert result.fault == Fault("outage", "overloaded_error", 529)
    waits = at.of(Waiting)
    assert waits
    assert sum(wait.seconds for wait in waits) <= 0.03 * 60
    assert (result.error or "").endswith(f"given up after {len(waits) + 1} failed calls")
    seconds = round(waits[0].seconds, 1)
    assert event_json(waits[0]) == {"type": "waiting", "reason": waits[0].reason, "seconds": seconds, "tries": 1}


def test_no_wait_that_the_patience_does_not_allow(repository: Path) -> None:
    at, result = ends(repository, task(failing_reply(429, retry_after="3600")))
    assert result.fault == Fault("outage", "rate_limit_error", 429, 3600)
    assert len(at.requests) == 2


@pytest.mark.full
@pytest.mark.parametrize(
    "fault", [Reply(error=HttpError(500), delay=3.5), replace(ANSWER, breaks=Break(5, "reset", stall=5))]
)
def test_the_time_limit_stands_still_while_the_provider_fails(repository: Path, fault: Reply) -> None:
    _, result = ends(repository, task(fault), fast=False, time_limit=0.05)  # shorter than the fault takes
    assert result.outcome is Outcome.DONE
    assert result.waited > 3.5


@pytest.mark.full
def test_the_time_limit_ends_a_task(repository: Path) -> None:
    _, result = ends(repository, [*task()[:1], Reply("late", delay=2)], fast=False, time_limit=0.02)
    assert result.outcome is Outcome.TIME_LIMIT
    assert "0.02 minutes" in (result.error or "")


@pytest.mark.full
@pytest.mark.quick(1)
@pytest.mark.parametrize("events", [0, 2, 5])
@pytest.mark.parametrize("api", first_quick(*APIS))
def test_a_call_fails_if_nothing_more_comes(repository: Path, api: str, events: int) -> None:
    with working(serve(api), repository, task(replace(ANSWER, breaks=Break(events, stall=60)))) as at:
        at.session.silence = 0.5

        def patient(event: SessionEvent) -> bool:
            if isinstance(event, Waiting):
                at.session.silence = 60  # on a busy machine the next answer may take its time
            return False

        assert at.run(until=patient).outcome is Outcome.DONE
    assert [wait.tries for wait in at.of(Waiting)] == [1]


@pytest.mark.parametrize("by_caller", [False, True], ids=["stopped", "cancelled"])
def test_a_turn_can_be_stopped_while_it_waits(repository: Path, by_caller: bool) -> None:
    with working(ANTHROPIC, repository, task(failing_reply(429, retry_after="60"))) as at:

        async def cancel_turn() -> None:
            def watch(event: SessionEvent) -> None:
                if isinstance(event, Waiting):
                    asyncio.get_running_loop().call_later(0.05, turn.cancel)

            turn = asyncio.create_task(at.session.run("go", watch))
            with pytest.raises(asyncio.CancelledError):
                await turn

        if by_caller:
            asyncio.run(cancel_turn())
        else:
            assert at.run(until=lambda event: isinstance(event, Waiting)).outcome is Outcome.INTERRUPTED
        assert at.run("go on").outcome is Outcome.DONE


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", APIS)
def test_a_broken_answer_is_paid_for_and_its_cost_a_bound(repository: Path, api: str) -> None:
    with working(serve(api), repository, task(replace(ANSWER, breaks=Break(5), usage=Usage(1000, 10)))) as at:
        result = at.run(runs=run_fast)
        assert (result.spent.calls, result.spent.priced) == (4, 3)
        assert result.spent.cost is None
        assert sum(isinstance(record, UsageRecord) for record in at.records) == 3
        account = at.session.account
        assert at.resume().account == account


@pytest.mark.parametrize("api", first_quick(*APIS))
def test_a_broken_answer_counts_for_the_cost_limit_like_the_others(repository: Path, api: str) -> None:
    replies = [replace(reply, usage=Usage(1_000_000, 0)) for reply in task(replace(ANSWER, breaks=Break(5)))]
    with working(serve(api), repository, [*replies, Reply("Again.")], cost_limit=1_000) as at:
        assert at.run(runs=run_fast).outcome is Outcome.DONE
        account = at.session.account
        assert account.estimate == pytest.approx(account.at_least / 3 * 4)
        at.resume(cost_limit=account.at_least * 1.1)
        result = at.run(runs=run_fast)
    assert result.outcome is Outcome.COST_LIMIT
    assert "is reached: about $" in (result.error or "")


@pytest.mark.full
@pytest.mark.parametrize("api", first_quick(*APIS))
def test_a_view_that_the_provider_calls_too_long_is_made_to_fit(repository: Path, api: str) -> None:
    (repository / "long.py").write_text("".join(f"value_{n} = {60 * str(n % 10)}\n" for n in range(1500)))
    script = [*(read_long({"offset": 60 * n, "limit": 60}) for n in range(14)), Reply("Done.")]
    limited = partial(serve(api), context_limit=12_000)
    with working(limited, repository, script, refused=True, budget=40_000, annotate="infer") as at:
        assert at.run(runs=run_fast).outcome is Outcome.DONE
        assert [event for event in at.of(Warned) if "takes no view of" in event.text]
        before = at.session
        budget = before.conversation.settings.budget
        assert budget < 12_000
        resumed = at.resume()
        assert (resumed.conversation.settings.budget, resumed.tokens) == (budget, before.tokens)


def test_without_eviction_a_view_that_is_too_long_is_an_error(repository: Path) -> None:
    limited = partial(ANTHROPIC, context_limit=10)
    with working(limited, repository, task(), refused=True, strategy="none") as at:
        result = at.run()
    assert result.outcome is Outcome.PROVIDER
    assert result.fault is not None
    assert result.fault.kind == "context"
    assert len(at.server.refusals) == 1


@pytest.mark.parametrize(
    ("provider", "reason", "tokens", "whole"),
    [
        ("openai", "stop", 0, True),
        ("openai", None, 5, True),
        ("openai", None, 0, False),
        ("openai", "abort", 5, False),
        ("openai", "error", 5, False),
        ("anthropic", None, 5, False),
        # Its usage comes with each part of the answer.
        ("google", None, 5, False),
        ("google", "STOP", 5, True),
    ],
)
def test_half_an_answer_is_none(provider: str, reason: str | None, tokens: int, whole: bool) -> None:
    answer = ModelResponse(
        [TextPart("I am going to")],
        usage=RequestUsage(input_tokens=tokens),
        provider_name=provider,
        provider_url="http://127.0.0.1",
        provider_details={"finish_reason": reason} if reason else None,
    )
    with nullcontext() if whole else pytest.raises(BrokenAnswerError):
        check_whole("x", answer)


def test_a_provider_that_answers_was_reached() -> None:
    with ScriptedServer([]) as server:
        model = server.openai_model()
    error = ModelAPIError("gpt-4.1", "not told", body={"message": "Something odd", "code": "odd"})
    assert explain(error, model) == "the provider of gpt-4.1 failed: Something odd"


def test_waits_grow_and_follow_the_provider() -> None:
    outage = Fault("outage", "overloaded_error", 529)
    waits = [[pause(tries, outage) for _ in range(50)] for tries in range(1, 12)]
    assert all(min(later) >= max(earlier) / 2 for earlier, later in itertools.pairwise(waits))
    assert max(waits[-1]) <= LONGEST_WAIT
    assert len(set(waits[0])) > 1
    assert min(pause(1, replace(outage, retry_after=7.0)) for _ in range(50)) >= 7


def test_faults_are_json() -> None:
    fault = Fault("quota", "insufficient_quota", 429)
    assert json.loads(json.dumps(fault.to_dict())) == {"kind": "quota", "name": "insufficient_quota", "status": 429}


def test_a_server_that_was_never_reached_is_given_up_sooner(repository: Path) -> None:
    with ScriptedServer([]) as server:
        model = server.openai_model()
    session = AgentSession.create(config(repository, model, patience=0))
    fault = run_fast(session.run("go")).fault
    session.close()
    assert fault is not None
    assert fault.unreached
    refused = replace(fault, retry_after=11.0)

    async def fails() -> None:
        clock = Patience(None, None, lambda: None)
        clock.begin_call()
        assert clock.fail_call(refused) is None
        clock.end_call()
        clock.begin()
        clock.begin_call()
        assert clock.fail_call(refused) is not None
        clock.lost = OUTAGES * PATIENCE
        assert clock.fail_call(refused) is None, "a task does not wait for ever for outages that end"

    asyncio.run(fails())
