"""The contract of framework adapters, as tests to inherit.

    class TestMine(AdapterContract):
        def begin(self, url, **settings):
            return MyThread(url, ContextLifecycle(**settings))

pytest finds the tests by their names. They drive the framework's real loop against a `ScriptedServer`, which refuses
what a provider would refuse. `Thread` is what a test needs from the framework; the host's tools are `read` and `grep`,
which return `content_of(what)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, Protocol

from wane.core import Kind
from wane.testing.request import Request
from wane.testing.script import Call, Reply
from wane.testing.server import Refusal, ScriptedServer

BUDGET: Final = 6_000
"""Tokens that a request may hold in these tests, in addition to the framework's own (`overhead`)."""

AMPLE: Final = 1_000_000

TURNS: Final = 5
"""User turns in one conversation."""

NOTE: Final = "[Automatic note"
"""How a reminder begins; reminders are not part of the history."""


def content_of(what: str) -> str:
    """Return the output of the host's tools `read` and `grep`, about 1,000 tokens that depend on the argument alone."""
    return "\n".join(f"{what}, line {number}, which nobody needs for long." for number in range(90))


def prompt_of(turn: int) -> str:
    """Return the user's prompt of a turn, counted from 0."""
    return f"Turn {turn}: look at it, and change it. Mind §{turn}!"


def script(*, recall: bool = False, malformed: bool = True, reasoning: bool = False) -> Iterator[Reply]:
    """Yield the model's replies in all turns.

    Args:
        recall: whether the last turn recalls the first exploration.
        malformed: whether some `delimiter` calls have arguments of wrong types.
        reasoning: whether each answer begins with reasoning.
    """
    for n in range(TURNS):
        for reply in replies_of(n, recall=recall and n == TURNS - 1, malformed=malformed):
            yield replace(reply, reasoning=f"In turn {n} it is best to go on. " * 5) if reasoning else reply


ESTIMATED: Final = 0.002
"""Share of the budget by which a request may pass it: what was added since the provider's last report is estimated."""


def replies_of(turn: int, *, recall: bool = False, malformed: bool = True) -> Iterator[Reply]:
    """Yield the model's replies in one turn: an exploration and an act, with marks and tools side by side."""
    n, look = turn, {"action": "start", "name": f"look-{turn}", "type": "expl"}
    yield Reply("I look.", calls=(Call("delimiter", look, f"look-{n}"), Call("read", {"path": f"a{n}"}, f"a{n}")))
    wrong: tuple[Call, ...] = (Call("delimiter", look, f"again-{n}"),)
    if malformed:
        wrong += (Call("delimiter", {"action": 5, "name": []}, f"types-{n}"),)
    yield Reply(calls=(Call("grep", {"pattern": f"b{n}"}, f"b{n}"), *wrong, Call("read", {"path": f"c{n}"}, f"c{n}")))
    end = {"action": "end", "name": f"look-{n}", "description": f"a{n} and c{n} hold lines."}
    fix = {"action": "start", "name": f"fix-{n}", "type": "act", "dependencies": [f"look-{n}"]}
    calls = (
        Call("delimiter", end, f"end-{n}"),
        Call("delimiter", fix, f"fix-{n}"),
        Call("read", {"path": f"d{n}"}, f"d{n}"),
    )
    yield Reply(calls=calls)
    if recall:
        yield Reply(calls=(Call("recall", {"name": "look-0"}, "recall"),))
    yield Reply(calls=(Call("delimiter", {"action": "end", "name": f"fix-{n}"}, f"done-{n}"),))
    yield Reply(f"Done {n}.")


class Thread(Protocol):
    """One conversation of a framework's agent that uses Wane."""

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        """Send a prompt, and return the agent's final answer."""
        ...

    def stored(self) -> Mapping[str, str]:
        """Return the results that the framework has stored, by call id."""
        ...

    def again(self) -> Thread:
        """Return the same conversation as a new process would load it, with a new adapter."""
        ...


class Served(Protocol):
    """The provider, as a test inspects it afterwards."""

    @property
    def url(self) -> str:
        """The provider's base URL."""
        ...

    @property
    def requests(self) -> Sequence[Request]:
        """The requests that it answered."""
        ...

    @property
    def refusals(self) -> Sequence[Refusal]:
        """The requests that it refused."""
        ...


class AdapterContract(ABC):
    """Tests of an adapter.

    Attributes:
        overhead: tokens of the framework's own prompts and tools in each request.
        malformed: whether the framework passes calls with arguments of wrong types on to the tool.
        streams: whether the framework can stream.
        reasoning: whether each answer begins with reasoning, which a provider wants back as it was.
    """

    overhead = 0
    malformed = True
    streams = True
    reasoning = False

    @abstractmethod
    def begin(self, url: str, **settings: Any) -> Thread:
        """Return a new conversation.

        Args:
            url: the provider's base URL.
            settings: `budget`, `recall` and `on_event`, as every adapter takes them.
        """

    def serving(self, replies: Iterator[Reply]) -> AbstractContextManager[Served]:
        """Return a provider that gives these replies."""
        return ScriptedServer(replies)

    # The tests

    def test_requests_stay_within_the_budget_and_the_history_stays_whole(self) -> None:
        """Nothing is refused or over the budget, each request holds all user turns, and all results are stored."""
        served, thread = self._live()
        limit = (BUDGET + self.overhead) * (1 + ESTIMATED)
        assert not served.refusals, served.refusals
        assert all(request.tokens <= limit for request in served.requests), [it.tokens for it in served.requests]
        assert "a0" not in served.requests[-1].results, "nothing was evicted"
        stored = thread.stored()
        assert all(stored[f"{letter}{n}"] == content_of(f"{letter}{n}") for n in range(TURNS) for letter in "abcd")
        said = [[text for text in request.texts(Kind.USER) if not text.startswith(NOTE)] for request in served.requests]
        assert all(texts == [prompt_of(n) for n in range(len(texts))] for texts in said)
        assert len(said[-1]) == TURNS

    def test_each_request_is_a_part_of_the_history(self) -> None:
        """Each request is a subsequence of the request without eviction."""
        whole = self._live(budget=AMPLE)[0].requests
        served, _ = self._live()
        assert len(whole) == len(served.requests)
        for full, view in zip(whole, served.requests, strict=True):
            there = iter(_seen(full))
            assert all(part in there for part in _seen(view))

    def test_refused_marks_are_results(self) -> None:
        """The model is told about a wrong mark, and the run continues; correct marks beside it count."""
        results = self._live(budget=AMPLE)[0].requests[-1].results
        for n in range(TURNS):
            assert results[f"look-{n}"].startswith("Started")
            assert results[f"again-{n}"].startswith("Error")
            assert results[f"fix-{n}"].startswith("Started")
            if self.malformed:
                assert "rror" in results[f"types-{n}"]

    def test_streamed_is_the_same_as_not_streamed(self) -> None:
        """The same requests go out."""
        if self.streams:
            one, other = self._live()[0].requests, self._live(stream=True)[0].requests
            assert [_seen(request) for request in one] == [_seen(request) for request in other]

    def test_a_new_process_goes_on_with_the_same_view(self) -> None:
        """The same requests go out if a new process takes over after each turn."""
        one, other = self._live()[0].requests, self._live(restarts=True)[0].requests
        assert [_seen(request) for request in one] == [_seen(request) for request in other]

    def test_what_was_evicted_can_be_recalled(self) -> None:
        """The tool `recall` returns it exactly, page by page."""
        served, _ = self._live(recall=True)
        assert "a0" not in served.requests[-2].results
        assert content_of("a0")[:1_000] in served.requests[-2].results["recall"]

    def test_a_history_that_grows_is_not_taken_for_another(self) -> None:
        """Check that neither a fork nor a replacement is told, also where a new process goes on."""
        told: list[object] = []
        with self.serving(script(malformed=self.malformed)) as served:
            thread = self.begin(served.url, budget=BUDGET + self.overhead, on_event=told.append)
            for n in range(TURNS):
                thread.turn(prompt_of(n))
                thread = thread.again() if n == 1 else thread
        names = {type(event).__name__ for event in told}
        assert "PassRan" in names
        assert not names & {"HistoryForked", "HistoryReplaced"}

    def test_two_conversations_have_a_window_each(self) -> None:
        """Like a sub-agent and its parent: both may use the same names of episodes."""
        replies = (reply for n in range(TURNS) for _ in range(2) for reply in replies_of(n, malformed=False))
        with self.serving(replies) as served:
            threads = [self.begin(served.url, budget=AMPLE) for _ in range(2)]
            for n in range(TURNS):
                assert [thread.turn(prompt_of(n)) for thread in threads] == [f"Done {n}."] * 2
        assert not served.refusals
        results = [request.results for request in served.requests[-2:]]
        assert all(result[f"look-{n}"].startswith("Started") for result in results for n in range(TURNS))

    def _live(
        self, *, budget: int = BUDGET, recall: bool = False, stream: bool = False, restarts: bool = False
    ) -> tuple[Served, Thread]:
        """Run one conversation from beginning to end."""
        settings: dict[str, Any] = {"recall": True} if recall else {}
        with self.serving(script(recall=recall, malformed=self.malformed, reasoning=self.reasoning)) as served:
            thread = self.begin(served.url, budget=budget + self.overhead, **settings)
            for n in range(TURNS):
                answer = thread.turn(prompt_of(n), stream=stream)
                assert answer == f"Done {n}.", answer
                if restarts:
                    thread = thread.again()
        return served, thread


def _seen(request: Request) -> list[tuple[Kind, str | None, str]]:
    """Return a request's conversation without the results of marks, which may tell what has left the view."""
    own = {part.call_id for part in request.parts if part.kind is Kind.CALL and part.tool == "delimiter"}
    return [
        (part.kind, part.call_id, "" if part.kind is Kind.RESULT and part.call_id in own else part.text)
        for part in request.parts
        if part.kind is not Kind.SYSTEM and not part.text.startswith(NOTE)
    ]
