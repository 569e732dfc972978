"""The contract of framework adapters, as tests to inherit.

    class TestMine(AdapterContract):
        def adapter(self, url, **settings):
            return ContextLifecycle(**settings)

        def begin(self, url, adapter):
            return MyThread(url, adapter)

pytest finds the tests by their names. They drive the framework's real loop against a `ScriptedServer`, which refuses
what a provider would refuse. `Thread` is what a test needs from the framework; its agent has the
tools `read` and `grep`. A model also makes mistakes, so the script has calls with wrong arguments (`WRONG`).
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from threading import Barrier, BrokenBarrierError
from typing import Any, ClassVar, Final, Protocol
from unittest import SkipTest

from wane.conversation.events import OverheadChanged
from wane.core import DELIMITER, RECALL, Kind, Policy
from wane.formats.message_format import Part
from wane.formats.notices import INDEX_CLOSING, INDEX_OPENING
from wane.testing.rules import DEEPSEEK, DEEPSEEK_V4, MISTRAL, TEMPLATE, Rule, served_pairs_stay
from wane.testing.script import Call, Reply, Script, ServedCall, ServedTool
from wane.testing.sent_request import Request
from wane.testing.server import Refusal, ScriptedServer

BUDGET: Final = 6_000
"""Tokens that a request may hold in these tests, in addition to the framework's own (`overhead`)."""

AMPLE: Final = 1_000_000

TURNS: Final = 4
"""User turns in one conversation."""

STRICT_TURNS: Final = 7
"""User turns with a strict server, in all forks of one conversation."""

MISTAKEN: Final = (0, 2)
"""Turns in which the model makes the mistakes."""

NOTE: Final = "[Automatic note"
"""How a reminder begins; reminders are not part of the history."""

WORDS: Final = "never drop the orders table"
"""What a person says who rejects a call."""

WRONG: Final[Mapping[str, tuple[str, Mapping[str, Any] | str]]] = {
    "mark-types": (DELIMITER, {"action": 5, "name": []}),
    "mark-list": (DELIMITER, '["start"]'),
    # Not the beginning of JSON either, which some frameworks complete.
    "mark-text": (DELIMITER, "start, please"),
    "tool-types": ("read", {"path": ["x"]}),
    "tool-list": ("read", '["x"]'),
    "tool-text": ("read", "x, please"),
}
"""Calls with wrong arguments, beside correct ones, by what is wrong: the tool, and the arguments."""

ONLY_OBJECTS: Final[Mapping[str, str]] = dict.fromkeys(
    [what for what, (_, arguments) in WRONG.items() if isinstance(arguments, str)],
    "arguments are objects in this protocol",
)
"""What an `AdapterContract` cannot have in such a protocol; for its `cannot`."""

ANTHROPIC: Final[Mapping[str, str]] = {
    **ONLY_OBJECTS,
    "thoughtful answers": "DeepSeek demands them in Chat Completions alone",
}
"""What it cannot have in Anthropic Messages with thinking."""

DELEGATING: Final = (1, 3)
"""Turns in which the model calls the sub-agent."""

HELP: Final = 3
"""Turns of the script that the sub-agent then does in its one."""

TASK: Final = "Help with this, and mind §."
"""What it tells the sub-agent."""


def content_of(what: str) -> str:
    """Return the output of the host's tools `read` and `grep`, about 1,000 tokens that depend on the argument alone."""
    return "\n".join(f"{what}, line {number}, which nobody needs for long." for number in range(90))


def read(path: str) -> str:
    """Read a file."""
    return content_of(path)


def grep(pattern: str) -> str:
    """Search for a pattern."""
    return content_of(pattern)


def prompt_of(turn: int) -> str:
    """Return the user's prompt of a turn, counted from 0."""
    return f"Turn {turn}: look at it, and change it. Mind §{turn}!"


def script(*, recall: bool = False, wrong: Iterable[str] = (), turns: int = TURNS) -> Iterator[Reply]:
    """Yield the model's replies in all turns.

    Args:
        recall: whether the last turn recalls the first exploration.
        wrong: calls with wrong arguments that some turns have (`MISTAKEN`), of `WRONG`.
        turns: number of turns.
    """
    for n in range(turns):
        yield from replies_of(n, recall=recall and n == turns - 1, wrong=wrong if n in MISTAKEN else ())


def replies_of(turn: int, *, recall: bool = False, wrong: Iterable[str] = ()) -> Iterator[Reply]:
    """Yield the model's replies in one turn: an exploration and an act, with marks and tools side by side."""
    n, look = turn, {"action": "start", "name": f"look-{turn}", "type": "expl"}
    yield Reply("I look.", calls=(Call(DELIMITER, look, f"look-{n}"), Call("read", {"path": f"a{n}"}, f"a{n}")))
    mistakes = (Call(*WRONG[what], f"{what}-{n}") for what in wrong)
    again = Call(DELIMITER, look, f"again-{n}")
    grep, read = Call("grep", {"pattern": f"b{n}"}, f"b{n}"), Call("read", {"path": f"c{n}"}, f"c{n}")
    yield Reply(calls=(grep, again, *mistakes, read))
    end = {"action": "end", "name": f"look-{n}", "description": f"a{n} and c{n} hold lines."}
    fix = {"action": "start", "name": f"fix-{n}", "type": "act", "dependencies": [f"look-{n}"]}
    calls = (Call(DELIMITER, end, f"end-{n}"), Call(DELIMITER, fix, f"fix-{n}"))
    yield Reply(calls=(*calls, Call("read", {"path": f"d{n}"}, f"d{n}")))
    if recall:
        yield Reply(calls=(Call("recall", {"name": "look-0"}, "recall"),))
    yield Reply(calls=(Call(DELIMITER, {"action": "end", "name": f"fix-{n}"}, f"done-{n}"),))
    yield Reply(f"Done {n}.")


def careless(
    seed: int,
    *,
    managed: bool = True,
    malformed: bool = True,
    turns: int = TURNS,
    serves: Sequence[ServedTool] = (),
    pauses: bool = False,
) -> Iterator[Reply]:
    """Yield the replies, in all turns, of a model that marks, recalls and works at random and often wrongly.

    Args:
        seed: of its choices.
        managed: whether it has the tools `delimiter` and `recall`. It uses the others in the same way without them.
        malformed: whether arguments of these may be malformed JSON.
        turns: number of turns.
        serves: tools that the provider runs, which it then uses, too.
        pauses: whether a turn may pause for the result of one.
    """
    rng, number = Random(seed), count()  # noqa: S311 - choices of a test
    provider = _ServingProvider(seed, serves, pauses)
    for n in range(turns):
        for step in range(rng.randint(1, 5)):
            start = {"action": "start", "name": f"e{n}-{step}", "type": rng.choice(("expl", "act"))}
            end = {"action": "end", "description": f"Seen {n}-{step}."}
            calls = [
                *(Call(DELIMITER, arguments) for arguments in (start, end) if rng.random() < 0.5),
                *(Call("read", {"path": f"f{n}-{step}-{i}"}) for i in range(rng.randint(0, 2))),
            ]
            for tool in (DELIMITER, RECALL):
                wrong = rng.choice(_MALFORMED)
                if rng.random() < 0.3:
                    calls.append(Call(tool, wrong if malformed else {"name": "nothing"}))
            rng.shuffle(calls)
            text = "I look." if rng.random() < 0.5 else None
            if not managed:
                calls = [call for call in calls if call.tool == "read"]
            numbered = tuple(replace(call, id=f"c{next(number)}") for call in calls)
            if numbered:
                yield from provider.serve(Reply(text, calls=numbered))
        yield from provider.serve(Reply(f"Done {n}."))


class _Thoughts:
    """A script with answers of reasoning alone: some frameworks end the turn there, others ask the model again.

    Args:
        replies: the replies of all turns, of which every second one gets such an answer ahead of its last one.
        shape: makes of a reply what the framework takes.

    Attributes:
        turn: the turn that goes on.
    """

    def __init__(self, replies: Iterable[Reply], shape: Callable[[Reply], Reply]) -> None:
        self.turn = 0
        self._turns: list[list[Reply]] = [[]]
        for reply in replies:
            number = len(self._turns) - 1
            if not reply.calls and number % 2:
                self._turns[-1].append(shape(Reply(reasoning=f"Only thought {number}. " * 20)))
            self._turns[-1].append(shape(reply))
            if not reply.calls:
                self._turns.append([])

    def __call__(self, _: Request) -> Reply:
        return self._turns[self.turn].pop(0)


class _ServingProvider:
    """What a provider runs by itself ahead of what its model says, at random but by a seed."""

    def __init__(self, seed: int, serves: Sequence[ServedTool], pauses: bool) -> None:
        self._rng, self._numbers = Random(f"served {seed}"), count()  # noqa: S311 - choices of a test
        self._serves, self._pauses = serves, pauses

    def serve(self, reply: Reply) -> Iterator[Reply]:
        """Yield a reply with what the provider runs in it, and ahead of it one at which the turn pauses for that."""
        calls: list[ServedCall] = []
        for _ in range(self._rng.choice((0, 0, 1, 2)) if self._serves else 0):
            number = next(self._numbers)
            query = f"query-{number}."
            calls.append(ServedCall(self._rng.choice(self._serves), query, content_of(query), f"srvtoolu_{number}"))
        if calls and self._pauses and self._rng.random() < 0.5:
            yield Reply(served=(*calls[:-1], replace(calls[-1], result=None)))
            calls = [calls[-1]]
        yield replace(reply, served=tuple(calls))


_MALFORMED: Final = ('{"action": "sta', '["start"]', "start, please", '"start"', "null", {"action": 5, "name": []})


def delegation(argument: str, *, wrong: Iterable[str] = ()) -> Iterator[tuple[str, Reply]]:
    """Yield the replies of a model that has a sub-agent's help in some turns, each with whom it answers.

    The sub-agent does some turns of `script` in one, and under the same names of episodes.

    Args:
        argument: the argument of the tool `helper`.
        wrong: as for `script`.
    """
    for n in range(TURNS):
        for number, reply in enumerate(replies_of(n, wrong=wrong if n in MISTAKEN else ())):
            yield "parent", reply
            if n in DELEGATING and number == 0:
                ask = Call("helper", {argument: TASK}, f"help-{n}")
                yield "parent", Reply(calls=(ask, Call("read", {"path": f"h{n}"}, f"h{n}")))
                for sub_reply in script(wrong=wrong, turns=HELP):
                    if sub_reply.calls:
                        calls = tuple(replace(call, id=f"sub{n}-{call.id}") for call in sub_reply.calls)
                        yield f"sub{n}", replace(sub_reply, calls=calls)
                yield f"sub{n}", Reply("Helped.")


class Thread(Protocol):
    """One conversation of a framework's agent that uses Wane."""

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        """Send a prompt, and return the agent's final answer."""
        ...

    def read_stored(self) -> Sequence[Part]:
        """Return the history that the framework has stored, as its format takes it apart."""
        ...

    def again(self, adapter: Any) -> Thread:
        """Return the same conversation as a new process would load it, with its adapter."""
        ...

    def fork(self) -> Thread:
        """Return a copy of the conversation, by the framework's own means if it has some; both go on, apart."""
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


@dataclass(frozen=True, slots=True)
class _EndedConversation:
    """A whole conversation, after its end."""

    requests: tuple[Request, ...]
    refusals: tuple[Refusal, ...]
    stored: tuple[Part, ...]


class AdapterContract(ABC):
    """Tests of an adapter.

    One adapter serves all conversations of a process. Tests of a class that look at the same conversation share one run
    of it. So its adapter may not depend on parameters of a fixture; make a subclass for each of them.

    Attributes:
        overhead: tokens of the framework's own prompts and tools in each request.
        estimated: share of the budget by which a request may pass it, because what was added since the provider's last
            report is estimated.
        reasoning: whether each answer begins with reasoning, which a provider wants back as it was.
        argument: the argument of the tool that is a sub-agent.
        seeds: how many careless models meet each strict server.
        cannot: what the framework or the protocol cannot do, each with the reason: `stream`, `delegate` (to a
            sub-agent), `threads`, `malformed` (send other arguments of a call than the model's), `template` (keep the
            order of roles with a reminder), `thoughtful answers` (be asked for the reasoning of answers without calls,
            as DeepSeek V4 does in Chat Completions alone), and calls with wrong arguments, by their names in `WRONG`.
        serves: tools that a provider of this protocol runs by itself, and that the framework keeps in its history.
        pauses: whether the framework goes on where the provider pauses a turn for the result of one.
    """

    overhead = 0
    estimated = 0.002
    reasoning = False
    argument = "task"
    seeds = 2
    serves: Sequence[ServedTool] = ()
    pauses = False
    cannot: Mapping[str, str] = {}
    _runs: ClassVar[dict[tuple[object, ...], _EndedConversation]] = {}

    @abstractmethod
    def adapter(self, url: str, **settings: Any) -> Any:
        """Return an adapter, as a new process would make it.

        Args:
            url: the provider's base URL, which most adapters do not need.
            settings: `budget`, `recall` and `on_event`, as every adapter takes them.
        """

    @abstractmethod
    def begin(self, url: str, adapter: Any) -> Thread:
        """Return a new conversation with a provider."""

    def delegate(self, url: str, adapter: Any) -> Thread:
        """Return a new conversation whose agent has one more tool, the sub-agent `helper`, in the framework's own way.

        The adapter serves both, and both have the tools `read` and `grep`.
        """
        raise NotImplementedError("make an agent with a sub-agent, or say in `cannot` why there is none")

    def begin_with_served_tools(self, url: str, adapter: Any) -> Thread:
        """Return a new conversation whose agent may use the tools that the provider runs (`serves`)."""
        return self.begin(url, adapter)

    def reject(self, url: str, adapter: Any, words: str) -> Thread:  # noqa: ARG002 - for those who override it
        """Return a new conversation whose agent has the tool `drop`, too, and a person who rejects each call of it.

        The person says these words, by the framework's own means. Override it if the framework has such means.
        """
        raise SkipTest("no person rejects a call with words in this framework")

    def shape_reply(self, reply: Reply) -> Reply:
        """Return a reply as a model gives it to this framework; by default it is the script's."""
        return reply

    def serving(self, replies: Script) -> AbstractContextManager[Served]:
        """Return a provider that gives these replies, which may be a function that makes each for a request."""
        return ScriptedServer(replies)

    # The tests

    def test_requests_stay_within_the_budget(self) -> None:
        """Nothing is refused or over the budget, something is evicted, and each request holds all user turns."""
        run = self._run()
        self._check(run.requests)
        assert not run.refusals, run.refusals
        assert "a0" not in run.requests[-1].results, "nothing was evicted"
        prompts = [prompt_of(number) for number in range(TURNS)]
        turns = [turns_of(request) for request in run.requests]
        assert all(texts == prompts[: len(texts)] for texts in turns)
        assert turns[-1] == prompts

    def test_the_history_stays_whole_and_unchanged(self) -> None:
        """What was said, called and returned is stored as it was, in its order, whatever was evicted."""
        run = self._run()
        stored, replies = run.stored, [self.shape_reply(reply) for reply in self._script()]
        texts = defaultdict[Kind, list[str]](list)
        for part in stored:
            texts[part.kind].append(part.text)
        assert texts[Kind.USER] == [prompt_of(n) for n in range(TURNS)]
        assert texts[Kind.TEXT] == [reply.text for reply in replies if reply.text]
        if self.reasoning:
            assert texts[Kind.REASONING] == [reply.reasoning for reply in replies]
        calls = [call for reply in replies for call in reply.calls]
        stored_calls = {part.call_id: part for part in stored if part.kind is Kind.CALL}
        assert {call.id: call.tool for call in calls} == {part.call_id: part.tool for part in stored_calls.values()}
        # Frameworks mend wrong arguments, and some put calls that they cannot read behind the others.
        wrong = {f"{what}-{n}" for what in WRONG for n in range(TURNS)}
        correct = [call for call in calls if call.id not in wrong]
        assert [call_id for call_id in stored_calls if call_id not in wrong] == [call.id for call in correct]
        assert all(json.loads(stored_calls[call.id].arguments or "") == call.arguments for call in correct)
        results = {part.call_id: part.text for part in stored if part.kind is Kind.RESULT}
        assert results.keys() >= {call.id for call in correct}
        assert all(results[f"{letter}{n}"] == content_of(f"{letter}{n}") for n in range(TURNS) for letter in "abcd")
        sent_results = [
            (name, _strip_reminder(text)) for request in run.requests for name, text in request.results.items()
        ]
        assert all(results[name] == text for name, text in sent_results if name not in wrong)

    def test_each_request_is_a_part_of_the_history(self) -> None:
        """Each request is a subsequence of the request without eviction: no turn moves, also where two are joined."""
        complete, views = self._run(budget=AMPLE).requests, self._run().requests
        assert len(complete) == len(views)
        for full, view in zip(complete, views, strict=True):
            remaining = iter(conversation_of(full))
            assert all(part in remaining for part in conversation_of(view))

    def test_refused_calls_are_results(self) -> None:
        """The model is told about a wrong call, and the run continues; correct calls beside it count."""
        results = self._run(budget=AMPLE).requests[-1].results
        for n in range(TURNS):
            assert results[f"look-{n}"].startswith("Started")
            assert results[f"again-{n}"].startswith("Error")
            assert results[f"fix-{n}"].startswith("Started")
            for what in self._wrong if n in MISTAKEN else ():
                assert results[f"{what}-{n}"]
                assert not results[f"{what}-{n}"].startswith("Started")
            assert all(results[f"{letter}{n}"] == content_of(f"{letter}{n}") for letter in "bc")

    def test_streamed_is_the_same_as_not_streamed(self) -> None:
        """The same requests go out."""
        self._needs("stream")
        plain, streamed = self._run().requests, self._run(stream=True).requests
        assert [conversation_of(request) for request in plain] == [conversation_of(request) for request in streamed]

    def test_a_new_process_goes_on_with_the_same_view(self) -> None:
        """The same requests go out if a new process takes over after each turn."""
        same_process, restarted = self._run().requests, self._run(restarts=True).requests
        assert [conversation_of(request) for request in same_process] == [
            conversation_of(request) for request in restarted
        ]

    def test_what_was_evicted_can_be_recalled(self) -> None:
        """The tool `recall` returns it exactly, page by page."""
        results = self._run(recall=True).requests[-2].results
        assert "a0" not in results
        assert content_of("a0")[:1_000] in results["recall"]

    def test_what_a_strict_server_accepts_it_accepts_after_evictions(self) -> None:
        """Servers that are stricter than their API accept each view of what they accept whole, and malformed marks."""
        self._check_views(lambda script: script)

    def test_a_history_that_grows_is_not_taken_for_another(self) -> None:
        """No event tells of a fork, a replacement or another overhead, even if a new process takes over."""
        events: list[object] = []
        settings: dict[str, Any] = {"budget": BUDGET + self.overhead, "on_event": events.append}
        with self.serving(map(self.shape_reply, self._script())) as served:
            thread = self.begin(served.url, self.adapter(served.url, **settings))
            for n in range(TURNS):
                thread.turn(prompt_of(n))
                thread = thread.again(self.adapter(served.url, **settings)) if n == 1 else thread
        names = {type(event).__name__ for event in events}
        assert "PassRan" in names
        assert not names & {"HistoryForked", "HistoryReplaced"}
        assert len({event.tokens for event in events if isinstance(event, OverheadChanged)}) <= 1

    def test_two_conversations_have_a_window_each(self) -> None:
        """Both may use the same names of episodes."""
        turns = range(2)
        replies = (reply for n in turns for _ in range(2) for reply in replies_of(n))
        with self.serving(map(self.shape_reply, replies)) as served:
            adapter = self.adapter(served.url, budget=AMPLE)
            threads = [self.begin(served.url, adapter) for _ in range(2)]
            for n in turns:
                assert [thread.turn(prompt_of(n)) for thread in threads] == [f"Done {n}."] * 2
        assert not served.refusals
        results = [request.results for request in served.requests[-2:]]
        assert all(result[f"look-{n}"].startswith("Started") for result in results for n in turns)

    def test_conversations_in_threads_are_as_one_alone(self) -> None:
        """All say the same under the same ids and names of episodes, which is the hardest to keep apart."""
        self._needs("threads")
        alone = [conversation_of(request) for request in self._run().requests]
        start, errors = Barrier(3), list[BaseException]()

        def live(thread: Thread) -> None:
            try:
                for n in range(TURNS):
                    start.wait()
                    assert thread.turn(prompt_of(n)) == f"Done {n}."
            except BrokenBarrierError:
                pass  # another one failed
            except BaseException as error:
                errors.append(error)  # raised when all have ended
                start.abort()  # the others would wait for it

        with ExitStack() as stack, ThreadPoolExecutor(start.parties) as pool:
            adapter, threads, providers = None, list[Thread](), list[Served]()
            for _ in range(start.parties):
                served = stack.enter_context(self.serving(map(self.shape_reply, self._script())))
                adapter = adapter or self.adapter(served.url, budget=BUDGET + self.overhead)
                threads.append(self.begin(served.url, adapter))
                providers.append(served)
            list(pool.map(live, threads))
        if errors:
            raise errors[0]
        for served in providers:
            assert not served.refusals, served.refusals
            assert [conversation_of(request) for request in served.requests] == alone

    def test_a_sub_agent_has_a_window_of_its_own(self) -> None:
        """Called by its parent, it fills a window of its own; neither's requests hold a part of the other's."""
        self._needs("delegate")
        numbered = enumerate(delegation(self.argument, wrong=self._wrong))
        plan = [(who, self._add_thought(number, reply)) for number, (who, reply) in numbered]
        with self.serving(self.shape_reply(reply) for _, reply in plan) as served:
            thread = self.delegate(served.url, self.adapter(served.url, budget=BUDGET + self.overhead))
            for n in range(TURNS):
                assert thread.turn(prompt_of(n)) == f"Done {n}."
        assert not served.refusals, served.refusals
        self._check(served.requests)
        for who in dict.fromkeys(who for who, _ in plan):
            requests = [
                request for (receiver, _), request in zip(plan, served.requests, strict=True) if receiver == who
            ]
            prefix, results = ("" if who == "parent" else f"{who}-"), [request.results for request in requests]
            others = {call.id for receiver, reply in plan if receiver != who for call in reply.calls}
            assert not any(part.call_id in others for request in requests for part in request.parts)
            assert f"{prefix}a0" in results[1]
            assert f"{prefix}a0" not in results[-1], "nothing was evicted"
            by_call = {name: text for turn_results in results for name, text in turn_results.items()}
            numbers = range(TURNS if who == "parent" else HELP)
            marks = [f"{prefix}{what}-{n}" for what in ("look", "fix") for n in numbers]
            assert all(by_call[mark].startswith("Started") for mark in marks)
            turns = [turns_of(request) for request in requests]
            if who == "parent":
                # Some frameworks join user turns when all between them has left.
                assert "\n".join(turns[-1]) == "\n".join(prompt_of(n) for n in range(TURNS))
                assert all("Helped." in by_call[f"help-{n}"] for n in DELEGATING)
            else:
                # Some frameworks put the task into a prompt of several paragraphs.
                for texts in turns:
                    assert sum(TASK in text for text in texts) == 1
                    assert not set(texts).intersection(map(prompt_of, range(TURNS)))

    def test_what_a_person_says_of_a_call_stays(self) -> None:
        """The words with which a person rejects a call stay with it, by each policy, also in a new process."""
        drop = Reply(calls=(Call("drop", {"table": "orders"}, "drop"),))
        for policy in (Policy(), Policy.paper()):
            settings: dict[str, Any] = {"budget": BUDGET + self.overhead, "policy": policy}
            first, *others = script()
            replies = map(self._add_thought, count(), [first, drop, *others])
            with self.serving(map(self.shape_reply, replies)) as served:
                thread = self.reject(served.url, self.adapter(served.url, **settings), WORDS)
                for n in range(TURNS):
                    assert thread.turn(prompt_of(n)) == f"Done {n}."
                    thread = thread.again(self.adapter(served.url, **settings)) if n == 1 else thread
            assert not served.refusals, served.refusals
            results = served.requests[-1].results
            assert "a0" not in results, "nothing was evicted"
            assert WORDS in results["drop"]

    def test_a_setting_that_it_does_not_know_is_refused(self) -> None:
        """The error names it; if it were ignored, the default of the setting that was meant would be in force."""
        refusal = ""
        with self.serving(iter(())) as served:
            try:
                self.begin(served.url, self.adapter(served.url, budget=AMPLE, bugdet=BUDGET)).turn(prompt_of(0))
            except (TypeError, ValueError) as error:
                refusal = str(error)
        assert "bugdet" in refusal

    def test_what_a_provider_ran_stays_with_its_result(self) -> None:
        """Each turn ends, and no request has half of such a pair, with pauses, forks and new processes."""
        if not self.serves:
            raise SkipTest("no provider of this protocol runs tools, or the framework drops what it ran")
        for seed in range(self.seeds):
            for pauses in (False, True) if self.pauses else (False,):
                whole, ran = self._live_served(seed, managed=False, pauses=pauses)
                sent = {query for request in whole.requests for query in queries_of(request)}
                # Another request follows the client's calls.
                assert {call.query for reply in ran if reply.calls for call in reply.served} <= sent
                served, ran = self._live_served(seed, managed=True, pauses=pauses)
                for request in served.requests:
                    remaining = iter([call.query for reply in ran for call in reply.served if call.result is not None])
                    assert all(query in remaining for query in queries_of(request))

    def test_an_answer_of_reasoning_alone_is_accepted_as_without_it(self) -> None:
        """In some turns an answer has neither text nor calls: a server that takes it whole takes each view, too."""
        self._check_views(lambda script: _Thoughts(script, self.shape_reply))

    def _check_views(self, write: Callable[[list[Reply]], Iterable[Reply] | _Thoughts]) -> None:
        """Check that strict servers accept each view of the conversations that they accept without evictions.

        `write` makes the script of a conversation from a careless model's replies.
        """
        servers = [(DEEPSEEK,) if "thoughtful answers" in self.cannot else (DEEPSEEK_V4, DEEPSEEK)]
        servers += [] if "template" in self.cannot else [(TEMPLATE,), (MISTRAL,)]
        accepted = 0
        for seed in range(self.seeds):
            complete, view = (
                self._live(seed, write(self._script_of(seed, managed=managed)), managed) for managed in (False, True)
            )
            if complete.refusals:
                continue
            assert not view.refusals, (seed, view.refusals[0].message, view.refusals[0].request)
            for versions in servers:
                # The strictest that takes the framework's own requests.
                rules = next((rules for rules in versions if not refusals_of(complete, rules)), None)
                if rules is not None:
                    accepted += 1
                    refusals = refusals_of(view, rules)
                    assert not refusals, (seed, refusals[0])
        if not accepted:
            raise SkipTest("such a server refuses this framework's requests even without evictions")

    def _live_served(self, seed: int, *, managed: bool, pauses: bool) -> tuple[Served, list[Reply]]:
        """Return a provider that has run tools and refused nothing, and what it said."""
        script = self._script_of(seed, managed=managed, serves=self.serves, pauses=pauses)
        served = self._live(seed, script, managed, serves=True)
        assert not served.refusals, (seed, served.refusals[0].message, served.refusals[0].request)
        assert not (refusals := refusals_of(served, (served_pairs_stay,))), (seed, refusals[0])
        return served, script

    def _script_of(self, seed: int, *, managed: bool, **served: Any) -> list[Reply]:
        """Return the replies of a careless model, each with reasoning."""
        malformed = "malformed" not in self.cannot and not any(what in self.cannot for what in ONLY_OBJECTS)
        replies = careless(seed, managed=managed, malformed=malformed, turns=STRICT_TURNS, **served)
        return [replace(reply, reasoning=f"Thought {number}. " * 20) for number, reply in enumerate(replies)]

    def _live(self, seed: int, script: Iterable[Reply] | _Thoughts, managed: bool, *, serves: bool = False) -> Served:
        """Return the provider of a conversation, which ends at the first refusal.

        It has new processes, and forks that all go on. Unless it is `managed`, requests are as they would be without
        Wane: with no tool of its own, and never evicted.
        """
        settings: dict[str, Any] = {"budget": AMPLE, "annotate": "infer"}
        if managed:
            settings = {"budget": BUDGET + self.overhead, "recall": True}
        rng = Random(seed)  # noqa: S311 - choices of a test
        with self.serving(script if isinstance(script, _Thoughts) else map(self.shape_reply, script)) as served:
            adapter = self.adapter(served.url, **settings)
            threads = [self.begin_with_served_tools(served.url, adapter) if serves else self.begin(served.url, adapter)]
            try:
                for n in range(STRICT_TURNS):
                    place = rng.randrange(len(threads))
                    stream = "stream" not in self.cannot and (seed + n) % 3 == 2
                    if isinstance(script, _Thoughts):
                        script.turn = n
                    answer = threads[place].turn(prompt_of(n), stream=stream)
                    # Frameworks give an empty answer each in their own way.
                    assert isinstance(script, _Thoughts) or answer == f"Done {n}.", answer
                    if rng.random() < 0.5:
                        threads.append(threads[place].fork())
                    if rng.random() < 0.5:
                        adapter = self.adapter(served.url, **settings)
                        threads = [thread.again(adapter) for thread in threads]
            except Exception:
                if not served.refusals:
                    raise
            return served

    @property
    def _wrong(self) -> list[str]:
        return [what for what in WRONG if what not in self.cannot]

    def _needs(self, ability: str) -> None:
        if ability in self.cannot:
            raise SkipTest(self.cannot[ability])

    def _check(self, requests: Sequence[Request]) -> None:
        limit = (BUDGET + self.overhead) * (1 + self.estimated)
        assert all(request.tokens <= limit for request in requests), [request.tokens for request in requests]

    def _add_thought(self, number: int, reply: Reply) -> Reply:
        return replace(reply, reasoning=f"It is best to go on, {number}. " * 5) if self.reasoning else reply

    def _script(self, *, recall: bool = False) -> Iterator[Reply]:
        return map(self._add_thought, count(), script(recall=recall, wrong=self._wrong))

    def _run(
        self, *, budget: int = BUDGET, recall: bool = False, stream: bool = False, restarts: bool = False
    ) -> _EndedConversation:
        """Return one conversation from beginning to end, which is run for the first test that asks for it."""
        key = (type(self), budget, recall, stream, restarts)
        if key not in self._runs:
            settings: dict[str, Any] = {"budget": budget + self.overhead, **({"recall": True} if recall else {})}
            with self.serving(map(self.shape_reply, self._script(recall=recall))) as served:
                thread = self.begin(served.url, self.adapter(served.url, **settings))
                for n in range(TURNS):
                    answer = thread.turn(prompt_of(n), stream=stream)
                    assert answer == f"Done {n}.", answer
                    thread = thread.again(self.adapter(served.url, **settings)) if restarts else thread
            self._runs[key] = _EndedConversation(
                tuple(served.requests), tuple(served.refusals), tuple(thread.read_stored())
            )
        return self._runs[key]


def turns_of(request: Request) -> list[str]:
    """Return the user turns of a request, also those that are one message because all between them has left."""
    return [turn for text in request.texts(Kind.USER) for turn in _turns_in(text)]


def refusals_of(served: Served, rules: Iterable[Rule]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what a server with these rules would have refused: its words, and the request's body."""
    return [
        (words, request.body) for request in served.requests for rule in rules if (words := rule(request)) is not None
    ]


def queries_of(request: Request) -> list[str]:
    """Return what the provider was asked to run, in the order of a request."""
    wires = [str(part.wire) for part in request.parts if part.kind is Kind.TEXT and not part.wire.get("tool_use_id")]
    return [*dict.fromkeys(query for wire in wires for query in re.findall(r"query-\d+\.", wire))]


def _turns_in(text: str) -> list[str]:
    """Return the turns of one text, of which none has a blank line in these tests."""
    turns = _strip_reminder(_strip_index(text)).split("\n\n")
    return [turn.strip() for turn in turns if turn.strip()]


def conversation_of(request: Request) -> list[tuple[Kind, str | None, str]]:
    """Return a request's conversation without the results of marks, which may tell what has left the view.

    Nor has it empty texts and reasoning, which some frameworks make of the end of a stream.
    """
    own = {part.call_id for part in request.parts if part.kind is Kind.CALL and part.tool == DELIMITER}
    compared = list[tuple[Kind, str | None, str]]()
    for part in request.parts:
        is_empty = not part.text and part.kind in (Kind.TEXT, Kind.REASONING)
        if part.kind is Kind.SYSTEM or part.text.startswith((NOTE, INDEX_OPENING)) or is_empty:
            continue
        if part.kind is Kind.USER:
            compared += [(part.kind, part.call_id, turn) for turn in _turns_in(part.text)]
            continue
        answers_own = part.kind is Kind.RESULT and part.call_id in own
        compared.append((part.kind, part.call_id, "" if answers_own else _strip_reminder(part.text)))
    return compared


def _strip_reminder(text: str) -> str:
    """Return a text without the reminder that a request may end with."""
    return text.partition(NOTE)[0].rstrip() if NOTE in text else text


def _strip_index(text: str) -> str:
    """Return a text without an index of evicted content (R20), which may be joined with a turn of the user."""
    before, index, after = text.partition(INDEX_OPENING)
    return before.rstrip() + after.partition(INDEX_CLOSING)[2] if index else text
