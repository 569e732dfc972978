"""The adapter of smolagents over its OpenAI model, with agents that call tools and agents that write code."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="smolagents is not installed")

from smolagents import CodeAgent, LocalPythonExecutor, LogLevel, OpenAIModel, PlanningStep, ToolCallingAgent, tool
from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, TaskStep, Timing, ToolCall
from smolagents.utils import AgentError

from tests.integrations.adapters.support import needs, part_texts
from wane.core import OWN_TOOLS, Kind
from wane.core.errors import ConfigError, FormatError
from wane.formats.message_format import Part
from wane.formats.notices import INDEX_OPENING
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.smolagents import ContextLifecycle, SmolagentsFormat, messages_of
from wane.testing import Call, Reply, Request, Script, ScriptedServer, adapters, sent_request

FORMAT = SmolagentsFormat()
CALLS, OBSERVED, TASK = "Calling tools:", "Observation:", "New task:"
ADDED = (adapters.NOTE, INDEX_OPENING.splitlines()[0])


@tool
def read(path: str) -> str:
    """Read a file.

    Args:
        path: Its name.
    """
    return adapters.content_of(path)


@tool
def grep(pattern: str) -> str:
    """Search for a pattern.

    Args:
        pattern: The pattern.
    """
    return adapters.content_of(pattern)


def model_of(url: str) -> OpenAIModel:
    return OpenAIModel(model_id="m", api_base=f"{url}/v1", api_key="k", client_kwargs={"max_retries": 0})


# The framework writes calls and results as text. What the model reads is taken apart here, without the adapter.


class Provider(ScriptedServer):
    """A provider whose requests have calls and results again."""

    @property
    def requests(self) -> Any:
        return list(map(apart, super().requests))


def apart(sent: Request) -> Request:
    messages: list[sent_request.Message] = []
    calls: list[sent_request.Part] = []
    for message in sent.messages:
        text = "".join(part.text for part in message.parts)
        if message.role == "system":
            messages.append(message)
            continue
        parts = answer_parts(text) if message.role == "assistant" else list(user_parts(text, calls))
        calls = [part for part in parts if part.kind is Kind.CALL]
        # What stands around them counts, too.
        frame = sent_request.Part(Kind.SYSTEM, " " * (len(text) - sum(len(part.text) for part in parts)))
        messages.append(replace(message, parts=(*parts, frame)))
    return replace(sent, messages=tuple(messages))


def answer_parts(text: str) -> list[sent_request.Part]:
    parts: list[sent_request.Part] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line != CALLS:
            parts.append(sent_request.Part(Kind.TEXT, line))
            continue
        for call in ast.literal_eval(next(lines)):
            name, arguments = call["function"]["name"], json.dumps(call["function"]["arguments"])
            parts.append(sent_request.Part(Kind.CALL, arguments, call["id"], name))
    return parts


def user_parts(text: str, calls: Sequence[sent_request.Part]) -> Iterator[sent_request.Part]:
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line in (OBSERVED, TASK) or line.startswith(ADDED):
            blocks.append([line])
        else:
            blocks[-1].append(line)
    for first, *lines in blocks:
        if first == OBSERVED:
            yield from result_parts("\n".join(lines), calls)
        else:
            yield sent_request.Part(Kind.USER, "\n".join(lines if first == TASK else [first, *lines]))


def result_parts(text: str, calls: Sequence[sent_request.Part]) -> Iterator[sent_request.Part]:
    for call, following in zip(calls, [*calls[1:], None], strict=True):
        if following is None:
            result, text = text, ""
        elif call.tool in OWN_TOOLS:
            result, _, text = text.partition("\n")
        elif call.tool in ("read", "grep"):
            result = content_read(call)
            assert text.startswith(result)
            text = text.removeprefix(result + "\n")
        else:
            result, _, text = text.partition("\n" + content_read(following))
            text = content_read(following) + text
        yield sent_request.Part(Kind.RESULT, result, call.call_id)


def content_read(call: sent_request.Part) -> str:
    return adapters.content_of(next(iter(json.loads(call.text).values())))


class SmolThread:
    """An agent, whose memory a program pickles."""

    def __init__(self, adapter: ContextLifecycle, agent: Any) -> None:
        self._adapter, self._agent = adapter, adapter.attach(agent)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._agent.stream_outputs = stream
        *_, last = self._agent.run(prompt, stream=True, reset=False)
        assert isinstance(last, FinalAnswerStep)
        return str(last.output)

    def read_stored(self) -> Sequence[Part]:
        messages = [message for step in self._agent.memory.steps for message in messages_of(step)]
        return [part for message in messages for part in FORMAT.parts(message)]

    def again(self, adapter: ContextLifecycle) -> SmolThread:
        thread = SmolThread(adapter, agent_of(self._agent.model))
        for step in self._agent.memory.steps:
            step.model_input_messages = None
            if isinstance(step, ActionStep):
                step.model_output_message = None
        thread._agent.memory.steps = pickle.loads(pickle.dumps(self._agent.memory.steps))
        return thread

    def fork(self) -> SmolThread:
        return self.again(self._adapter)


def agent_of(model: Any, **settings: Any) -> ToolCallingAgent:
    given = {"tools": [read, grep], "verbosity_level": LogLevel.OFF, "max_steps": 30, **settings}
    return ToolCallingAgent(model=model, **given)


def answer_by_call(reply: Reply) -> Reply:
    """A script's reply by means of this agent: its answer is a call of a tool."""
    if reply.calls:
        return reply
    name = "".join(filter(str.isalnum, reply.text or ""))
    return Reply(calls=(Call("final_answer", {"answer": reply.text}, f"final-{name}"),))


@pytest.mark.full
class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    cannot: Mapping[str, str] = dict.fromkeys(
        ("tool-types", "tool-list", "tool-text"),
        "it drops an answer with a bad call of a tool, and tells the model the error alone",
    )
    overhead = 1_400
    estimated = 0.01

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> SmolThread:
        return SmolThread(adapter, agent_of(model_of(url)))

    def delegate(self, url: str, adapter: ContextLifecycle) -> SmolThread:
        helper = agent_of(model_of(url), name="helper", description="Helps with a task.")
        return SmolThread(adapter, agent_of(model_of(url), managed_agents=[adapter.attach(helper)]))

    def serving(self, replies: Script) -> Provider:
        return Provider(replies)

    def shape_reply(self, reply: Reply) -> Reply:
        return answer_by_call(reply)


# What this framework does by itself


def equip_agent(server: ScriptedServer, agent: Any = None, **settings: Any) -> Any:
    budget = adapters.BUDGET + TestChat.overhead
    return ContextLifecycle(**{"budget": budget, **settings}).attach(agent or agent_of(model_of(server.url)))


def code_agent(server: ScriptedServer, **settings: Any) -> CodeAgent:
    return CodeAgent(tools=[read], model=model_of(server.url), verbosity_level=LogLevel.OFF, **settings)


def code_reply(code: str, thought: str = "I look.") -> Reply:
    return Reply(f"{thought}\n<code>\n{code}\n</code>")


def wire(server: ScriptedServer, number: int = -1) -> Any:
    return server.requests[number].body["messages"]


def text_of(message: Any) -> str:
    return "".join(part["text"] for part in message["content"])


def test_a_memory_of_which_nothing_has_left_goes_out_as_without_wane() -> None:
    calls = (Call("read", {"path": "a"}, "1"), Call("grep", {"pattern": "b"}, "2"))
    script = [Reply("I look.", calls=calls), Reply(calls=(Call("read", {}, "3"),)), answer_by_call(Reply("Done."))]
    sent = []
    for attach in (False, True):
        with ScriptedServer(script) as server:
            agent = agent_of(model_of(server.url))
            (ContextLifecycle(budget="100k").attach(agent) if attach else agent).run("Go.")
        sent.append([request.body["messages"][1:] for request in server.requests])
    assert sent[0] == sent[1]


def test_marks_count_in_the_order_in_which_they_were_made() -> None:
    """The framework sorts the calls of an answer, and their results, by id."""
    look = {"action": "start", "name": "look", "type": "expl"}
    end = {"action": "end", "name": "look", "description": "It is there."}
    fix = {"action": "start", "name": "fix", "type": "act", "dependencies": ["look"]}
    script = [
        Reply(calls=(Call("delimiter", look, "z"), Call("read", {"path": "a"}, "y"))),
        Reply(calls=(Call("delimiter", end, "x"), Call("delimiter", fix, "w"), Call("read", {"path": "b"}, "v"))),
        answer_by_call(Reply("Done.")),
    ]
    with Provider(script) as server:
        agent = equip_agent(server, budget="100k")
        assert agent.run("Go.") == "Done."
    results = server.requests[-1].results
    assert list(results) == ["z", "y", "x", "w", "v"]
    assert results["y"] == adapters.content_of("a")
    assert [(e.name, e.closed) for e in agent.window.conversation.episodes] == [("look", True), ("fix", False)]


def test_a_mark_may_stand_beside_the_final_answer() -> None:
    look = {"action": "start", "name": "look", "type": "expl"}
    end = {"action": "end", "name": "look", "description": "It is there."}
    final = Call("final_answer", {"answer": "Done."}, "f")
    with ScriptedServer(
        [Reply(calls=(Call("delimiter", look, "s"),)), Reply(calls=(Call("delimiter", end, "e"), final))]
    ) as server:
        agent = equip_agent(server)
        assert agent.run("Go.") == "Done."
    assert len(server.requests) == 2
    assert [call.id for call in agent.memory.steps[-1].tool_calls] == ["e", "f"]
    assert len(agent.memory.steps[-1].model_output_message.tool_calls) == 2


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_run_that_begins_anew_has_a_new_window() -> None:
    with Provider(map(answer_by_call, [*adapters.replies_of(0), *adapters.replies_of(0)])) as server:
        agent = equip_agent(server)
        for _ in range(2):
            assert agent.run("Go.") == "Done 0."
    assert server.requests[-1].texts(Kind.USER) == ("Go.",)
    assert server.requests[-1].results["look-0"].startswith("Started")


def test_plans_are_made_of_the_view_and_without_a_note() -> None:
    def answer(sent: Request) -> Reply:
        if not sent.tools:
            return Reply("1. Read on.")
        number = len(server.requests)
        reading = Reply(calls=(Call("read", {"path": f"a{number}"}, f"r{number}"),))
        return reading if number < 16 else answer_by_call(Reply("Done."))

    with ScriptedServer(answer) as server:
        agent = equip_agent(server, agent_of(model_of(server.url), planning_interval=3), remind_at=0.1)
        assert agent.run("Go.") == "Done."
    plans = [sent for sent in server.requests if not sent.tools]
    assert len(plans) > 3
    assert sum(isinstance(step, PlanningStep) for step in agent.memory.steps) == len(plans)
    limit = adapters.BUDGET + TestChat.overhead
    assert all(sent.tokens <= limit for sent in server.requests)
    assert "a1, line 0" not in str(plans[-1].body)
    assert not any(adapters.NOTE in str(sent.body) for sent in plans)
    assert any(adapters.NOTE in str(sent.body) for sent in server.requests if sent.tools)


def test_the_last_request_of_an_agent_out_of_steps_is_a_view() -> None:
    replies = [Reply(calls=(Call("read", {"path": f"a{n}"}, f"r{n}"),)) for n in range(12)]
    with ScriptedServer([*replies, Reply("It was too much.")]) as server:
        agent = equip_agent(server, agent_of(model_of(server.url), max_steps=12), remind_at=0.1)
        assert agent.run("Go.") == "It was too much."
    assert server.requests[-1].tokens <= adapters.BUDGET + TestChat.overhead
    assert adapters.NOTE not in str(wire(server))
    assert "New task:\nGo." in text_of(wire(server)[1])
    whole = agent.write_memory_to_messages()
    assert sum(str(message.content).count("line 0,") for message in whole) == 12


def test_an_agent_that_writes_code_has_its_episodes_inferred() -> None:
    replies = [code_reply(f"print(read('a{n}'))") for n in range(16)]
    with ScriptedServer([*replies, code_reply("final_answer('Done.')")]) as server:
        agent = equip_agent(server, code_agent(server))
        assert agent.run("Go.", reset=False) == "Done."
    assert all(sent.tokens <= adapters.BUDGET + TestChat.overhead for sent in server.requests)
    assert {sent.tools for sent in server.requests} == {()}
    assert "delimiter" not in str(wire(server))
    assert "a0, line 1," not in str(wire(server))
    assert "a15, line 1," in str(wire(server))
    assert "New task:\nGo." in text_of(wire(server)[1])
    assert sum("line 1," in str(step.observations) for step in agent.memory.steps if isinstance(step, ActionStep)) == 16


def test_code_recalls_what_has_left() -> None:
    replies = [code_reply(f"print(read('a{n}'))") for n in range(16)]
    recalling = code_reply("print(recall(search='a0, line 7,'))")
    with ScriptedServer([*replies, recalling, code_reply("final_answer('Done.')")]) as server:
        assert equip_agent(server, code_agent(server), recall=True).run("Go.") == "Done."
    assert "a0, line 7, which" in text_of(wire(server)[-1])


def test_code_that_runs_elsewhere_cannot_recall() -> None:
    model = OpenAIModel(model_id="m", api_key="k")
    agent = CodeAgent(tools=[], model=model, executor_type="docker", executor=LocalPythonExecutor([]))
    with pytest.raises(ConfigError, match="'docker'"):
        ContextLifecycle(recall=True).attach(agent)
    assert set(ContextLifecycle().attach(agent).tools) == {"final_answer"}


def test_what_a_callback_takes_out_of_a_step_stays_out() -> None:
    def shorten(step: ActionStep, agent: Any) -> None:
        for earlier in agent.memory.steps:
            if isinstance(earlier, ActionStep) and earlier.observations:
                earlier.observations = "It was read."

    replies = [Reply(calls=(Call("read", {"path": f"a{n}"}, f"r{n}"),)) for n in range(3)]
    with ScriptedServer([*replies, answer_by_call(Reply("Done."))]) as server:
        agent = equip_agent(server, agent_of(model_of(server.url), step_callbacks=[shorten]), budget="100k")
        assert agent.run("Go.") == "Done."
    observed = [text_of(message) for message in wire(server)[1:] if message["role"] == "user"][1:]
    assert observed == [
        "Observation:\nIt was read.",
        "Observation:\nIt was read.",
        f"Observation:\n{adapters.content_of('a2')}",
    ]


def test_what_a_person_types_stays() -> None:
    @tool
    def user_input(question: str) -> str:
        """Ask the user.

        Args:
            question: The question.
        """
        return "Blue, and nothing else."

    asking = Reply(calls=(Call("user_input", {"question": "Which?"}, "q"),))
    replies = [Reply(calls=(Call("read", {"path": f"a{n}"}, f"r{n}"),)) for n in range(12)]
    with ScriptedServer([asking, *replies, answer_by_call(Reply("Done."))]) as server:
        agent = agent_of(model_of(server.url), tools=[read, user_input])
        assert equip_agent(server, agent).run("Go.") == "Done."
    assert "Observation:\nBlue, and nothing else." in [text_of(message) for message in wire(server)[1:]]
    assert "a0, line 1," not in str(wire(server))


@pytest.mark.parametrize("shown", ["at once", "later", "never"])
def test_what_a_person_types_when_code_asks_stays_with_the_code(shown: str) -> None:
    """Code that keeps the answer in a variable may show it in a later step."""

    @tool
    def user_input(question: str) -> str:
        """Ask the user.

        Args:
            question: The question.
        """
        return "Blue, and nothing else."

    asked = {
        "at once": ["print(user_input('Which?'))"],
        "later": ["colour = user_input('Which?')\nNone", "print(colour)"],
        "never": ["colour = user_input('Which?')\nNone"],
    }
    reading = [f"print(read('a{n}'))" for n in range(16)]
    with ScriptedServer([*map(code_reply, [*asked[shown], *reading]), code_reply("final_answer('Done.')")]) as server:
        agent = code_agent(server, additional_authorized_imports=[])
        agent.tools["user_input"] = user_input
        agent = equip_agent(server, agent)
        assert agent.run("Go.") == "Done."
        steps = pickle.loads(pickle.dumps(agent.memory.steps))
    assert "a0, line 1," not in str(wire(server))
    sent = [text_of(message) for message in wire(server)[1:]]
    assert any("Blue, and nothing else." in text for text in sent) == (shown != "never")
    assert any(CALLS in text and ("Which?" in text or "print(colour)" in text) for text in sent) == (shown != "never")
    parts = [part for step in steps for message in messages_of(step) for part in FORMAT.parts(message)]
    assert ["Blue" in part.text for part in parts if part.person] == [True] * (shown != "never")


def test_a_tool_of_ones_own_that_asks_a_person_is_named() -> None:
    @tool
    def consult(question: str) -> str:
        """Ask the boss.

        Args:
            question: The question.
        """
        return "Blue, and nothing else."

    with ScriptedServer([code_reply("print(consult('Which?'))"), code_reply("final_answer('Done.')")]) as server:
        agent = code_agent(server)
        agent.tools["consult"] = consult
        assert equip_agent(server, agent, tool_classes={"consult": "person"}).run("Go.") == "Done."
    assert agent.memory.steps[1].persons_answers == ["Blue, and nothing else."]


def test_marks_beside_a_call_that_fails_have_been_made() -> None:
    """The framework drops the calls of such an answer, and says that the error is the first one's."""
    start = {"action": "start", "name": "look", "type": "expl"}
    end = {"action": "end", "name": "look", "description": "It is there."}
    script = [
        Reply(calls=(Call("read", {"path": "a"}, "1"), Call("delimiter", start, "2"), Call("missing", {}, "3"))),
        Reply(calls=(Call("read", {"path": "b"}, "4"),)),
        Reply(calls=(Call("delimiter", end, "5"), Call("missing", {}, "6"))),
        answer_by_call(Reply("Done.")),
    ]
    with ScriptedServer(script) as server:
        agent = equip_agent(server, budget="100k")
        assert agent.run("Go.") == "Done."
    assert [(e.name, e.closed) for e in agent.window.conversation.episodes if e.name] == [("look", True)]
    called, observed = [text_of(message) for message in wire(server, 1)[2:]]
    assert "'2'" in called
    assert not any(f"'{call_id}'" in called for call_id in "13")
    assert observed.startswith("Observation:\nStarted")
    assert "\nError:\nUnknown tool missing" in observed
    assert "Call id:" not in observed
    kinds = [
        (part.kind, part.call_id) for message in messages_of(agent.memory.steps[1]) for part in FORMAT.parts(message)
    ]
    assert kinds == [(Kind.CALL, "2"), (Kind.RESULT, "2"), (Kind.NOTICE, None)]


def test_an_agent_that_is_stored_is_attached_when_it_is_loaded() -> None:
    agent = ContextLifecycle().attach(agent_of(OpenAIModel(model_id="m", api_key="k")))
    assert type(agent).__name__ == "ToolCallingAgent"
    with pytest.raises(ConfigError, match="store it before you attach it"):
        agent.to_dict()


def test_a_memory_that_cannot_be_read_is_sent_as_it_is() -> None:
    class OtherStep(MemoryStep):
        def to_messages(self, summary_mode: bool = False) -> list[Any]:
            return []

    with ScriptedServer([answer_by_call(Reply("Done."))]) as server:
        agent = equip_agent(server)
        agent.memory.steps.append(OtherStep())
        with pytest.warns(UserWarning, match="found OtherStep"):
            assert agent.run("Go.", reset=False) == "Done."


# The steps, part by part


def action(**fields: Any) -> ActionStep:
    return ActionStep(step_number=1, timing=Timing(0.0, 1.0), **fields)


TWO = [ToolCall("read", {"path": "é"}, "a"), ToolCall("grep", "b", "b")]


def split(**fields: Any) -> ActionStep:
    step = action(tool_calls=[*TWO], observations="It says é.\nNothing.", **fields)
    step.results_by_call = ["It says é.", "Nothing."]
    return step


def test_a_step_is_taken_apart_and_kept_in_part() -> None:
    answer, outcome = messages_of(split(model_output="I look. "))
    assert part_texts(FORMAT, answer) == [(Kind.TEXT, "I look."), (Kind.CALL, ""), (Kind.CALL, "")]
    assert part_texts(FORMAT, outcome) == [(Kind.RESULT, "It says é."), (Kind.RESULT, "Nothing.")]
    assert [part.arguments for part in FORMAT.parts(answer)[1:]] == ['{"path": "é"}', "b"]
    assert needs(FORMAT, answer) == [(), (), ()]
    assert needs(FORMAT, outcome) == [(), ()]
    assert FORMAT.keep(answer, [0, 1, 2]) is answer
    assert texts_of(FORMAT.keep(answer, [2])) == [f"Calling tools:\n{[TWO[1].dict()]}"]
    assert texts_of(FORMAT.keep(answer, [0])) == ["I look."]
    assert texts_of(FORMAT.keep(outcome, [1])) == ["Observation:\nNothing."]
    assert texts_of(FORMAT.clear_result(outcome, 0, "Gone.")) == ["Observation:\nGone.\nNothing."]
    assert texts_of(FORMAT.clear_result(outcome, 1, "Gone.")) == ["Observation:\nIt says é.\nGone."]
    added = FORMAT.result(answer, 2, "Found.")
    assert part_texts(FORMAT, added) == [(Kind.RESULT, "Found.")]
    assert texts_of(FORMAT.clear_result(added, 0, "Gone.")) == ["Observation:\nGone."]
    assert texts_of(answer) == ["I look.", f"Calling tools:\n{[call.dict() for call in TWO]}"]


def texts_of(message: MemoryStep) -> list[str]:
    return [text["text"] for sent in message.to_messages() for text in sent.content]


def test_results_that_are_not_known_apart_stay_or_leave_together() -> None:
    step = action(tool_calls=[*TWO], observations="It says é.\nNothing.")
    changed = copy.copy(split())
    changed.observations = "Shorter."
    for message in (step, changed):
        answer, outcome = messages_of(message)
        assert part_texts(FORMAT, outcome) == [(Kind.RESULT, message.observations), (Kind.RESULT, "")]
        assert needs(FORMAT, answer) == needs(FORMAT, outcome) == [(1,), (-1,)]


def test_an_error_belongs_to_the_last_call_or_is_a_notice() -> None:
    error = AgentError("It failed.", SimpleNamespace(log_error=lambda _: None))
    step = action(tool_calls=TWO[:1], error=error)
    answer, outcome = messages_of(step)
    assert part_texts(FORMAT, answer) == [(Kind.CALL, "")]
    assert part_texts(FORMAT, outcome) == [(Kind.RESULT, "Error:\nIt failed.")]
    assert [*texts_of(answer), *texts_of(outcome)] == texts_of(step)
    answer, outcome = messages_of(action(model_output="No call.", error=error))
    assert part_texts(FORMAT, answer) == [(Kind.TEXT, "No call.")]
    assert part_texts(FORMAT, outcome) == [(Kind.NOTICE, "Error:\nIt failed.")]
    first = FORMAT.keep(messages_of(split(error=error))[1], [0])
    assert texts_of(first) == ["Observation:\nIt says é."]


def test_images_count_by_an_estimate() -> None:
    (part,) = FORMAT.parts(TaskStep("See.", ["an image"]))
    assert (part.text, part.extra_tokens) == ("See.", NON_TEXT_TOKENS)
    _, outcome = messages_of(action(tool_calls=TWO[:1], observations="Seen.", observations_images=["an image"]))
    assert FORMAT.parts(outcome)[0].extra_tokens == NON_TEXT_TOKENS


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(FormatError, match="found dict"):
        FORMAT.parts({"role": "user"})
