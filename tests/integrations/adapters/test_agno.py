"""The adapter of Agno over its real models, on three wires."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("agno", reason="Agno is not installed")

from agno.agent import Agent
from agno.db.json import JsonDb
from agno.models.anthropic import Claude
from agno.models.message import Message
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.tools import tool

from tests.integrations.adapters.support import needs, part_texts
from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.agno import AgnoFormat, ContextLifecycle
from wane.testing import Reply, Script, ScriptedServer, adapters

read, grep = adapters.read, adapters.grep
FORMAT = AgnoFormat()


def bare(part: Any) -> Any:
    """A part under the script's id of its call, and without the address of an object that Agno's errors have."""
    if part.call_id is None:
        return part
    return replace(part, call_id=part.call_id.removeprefix("call_"), text=re.sub("0x[0-9a-f]+", "0x", part.text))


class Provider(ScriptedServer):
    """A provider whose ids of calls begin as OpenAI's do.

    Agno numbers others anew, by their place in a request (`agno.utils.message.reformat_tool_call_ids`).
    """

    def __init__(self, replies: Script) -> None:
        if callable(replies):
            super().__init__(lambda request: prefix_ids(replies(request)))
        else:
            super().__init__(map(prefix_ids, replies))

    @property
    def requests(self) -> Any:
        return [
            replace(request, messages=tuple(replace(m, parts=tuple(map(bare, m.parts))) for m in request.messages))
            for request in super().requests
        ]


def prefix_ids(reply: Reply) -> Reply:
    return replace(reply, calls=tuple(replace(call, id=f"call_{call.id}") for call in reply.calls))


@tool(requires_confirmation=True)
def drop(table: str) -> str:
    """Drop a table."""
    raise AssertionError(table)


class AgnoThread:
    """A session in a folder of JSON files."""

    words = ""

    def __init__(self, model: Any, adapter: ContextLifecycle, folder: Path, *more: Any) -> None:
        self._model, self._folder, self._session, self._more = model, folder, "s", more
        self._agent = adapter.attach(
            Agent(
                id="main",
                model=model,
                tools=[read, grep, *more],
                system_message="Be good.",
                db=JsonDb(db_path=str(folder)),
                add_history_to_context=True,
                telemetry=False,
            )
        )

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        # The content of a run is all texts of its answers, one after the other.
        if not stream:
            run = self._agent.run(prompt, session_id=self._session)
            if run.is_paused:
                (requirement,) = run.active_requirements
                requirement.reject(note=self.words)
                where = {"run_id": run.run_id, "session_id": self._session}
                run = self._agent.continue_run(**where, requirements=run.requirements)
            return str(run.messages[-1].content)
        *_, last = self._agent.run(prompt, session_id=self._session, stream=True, yield_run_output=True)
        return str(last.messages[-1].content)

    def read_stored(self) -> Sequence[Part]:
        messages = self._agent.get_session_messages(session_id=self._session)
        # The items of Responses have ids of their own, which Agno uses.
        calls = [call for message in messages for call in message.tool_calls or []]
        ids = {call["id"]: call.get("call_id", call["id"]) for call in calls}
        parts = [part for message in messages if message.role != "system" for part in FORMAT.parts(message)]
        return [bare(replace(part, call_id=ids.get(part.call_id, part.call_id))) for part in parts]

    def again(self, adapter: ContextLifecycle) -> AgnoThread:
        thread = AgnoThread(self._model, adapter, self._folder, *self._more)
        thread._session = self._session
        return thread

    def fork(self) -> AgnoThread:
        # The same agent, in a copy of its session.
        thread = copy.copy(self)
        thread._session = self._agent.fork_session(source_session_id=self._session)
        return thread


@pytest.mark.full
class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    argument = "input"

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def serving(self, replies: Script) -> Provider:
        return Provider(replies)

    def model(self, url: str) -> Any:
        return OpenAIChat(id="gpt-x", api_key="k", base_url=f"{url}/v1", max_retries=0)

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> AgnoThread:
        return AgnoThread(self.model(url), adapter, self.folder / uuid4().hex)

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> AgnoThread:
        thread = AgnoThread(self.model(url), adapter, self.folder / uuid4().hex, drop)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> AgnoThread:
        model = self.model(url)

        def helper(input: str) -> str:  # noqa: A002 - the contract's argument
            """Help with a task."""
            agent = Agent(model=model, tools=[read, grep], system_message="Help.", telemetry=False)
            return str(adapter.attach(agent).run(input).content)

        return AgnoThread(model, adapter, self.folder / uuid4().hex, helper)


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses. A model that reasons refuses what Agno leaves out of its answers, with Wane or without."""

    estimated = 0.005

    def model(self, url: str) -> Any:
        return OpenAIResponses(id="gpt-4.1", api_key="k", base_url=f"{url}/v1", max_retries=0)


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = adapters.ANTHROPIC
    reasoning = True
    serves = ("web_search", "code_execution")

    def model(self, url: str) -> Any:
        return Claude(
            id="claude-x",
            api_key="k",
            max_tokens=5_000,
            thinking={"type": "enabled", "budget_tokens": 1_024},
            client_params={"base_url": url, "max_retries": 0},
        )


# What this framework does by itself


def equip_agent(server: ScriptedServer, lifecycle: ContextLifecycle | None = None, **settings: Any) -> Agent:
    """An agent that goes through the contract's script."""
    model = OpenAIChat(id="gpt-x", api_key="k", base_url=f"{server.url}/v1", max_retries=0)
    agent = Agent(**{"model": model, "tools": [read, grep], "telemetry": False, **settings})
    return (lifecycle or ContextLifecycle(budget=adapters.BUDGET)).attach(agent)


def test_an_asynchronous_run_sends_the_same() -> None:
    requests = []
    for is_async in (False, True):
        with Provider(adapters.replies_of(0)) as server:
            agent = equip_agent(server)
            run = asyncio.run(agent.arun("Go.")) if is_async else agent.run("Go.")
            assert run.messages[-1].content == "Done 0."
            requests.append([request.parts for request in server.requests])
    assert requests[0] == requests[1]


def test_the_model_that_an_agent_had_stays_as_it_is() -> None:
    model = OpenAIChat(id="gpt-x", api_key="k")
    agent = ContextLifecycle().attach(Agent(model=model, telemetry=False))
    assert agent.model is not model
    assert type(model) is OpenAIChat
    assert isinstance(agent.model, OpenAIChat)
    assert agent.model.to_dict() == model.to_dict()


def test_an_agent_without_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="has no model"):
        ContextLifecycle().attach(Agent(name="helper", telemetry=False))


@pytest.mark.parametrize(
    "settings",
    [{"num_history_messages": 20}, {"max_tool_calls_from_history": 3}, {"compress_tool_results": True}],
    ids=lambda settings: next(iter(settings)),
)
def test_what_also_shortens_the_history_is_said(settings: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="leave out"):
        ContextLifecycle().attach(Agent(model=OpenAIChat(api_key="k"), telemetry=False, **settings))


@pytest.mark.filterwarnings("error::UserWarning")
def test_an_agent_that_begins_each_run_anew_is_managed_within_each() -> None:
    with Provider(reply for _ in range(2) for reply in adapters.replies_of(0)) as server:
        agent = equip_agent(server)
        for _ in range(2):
            assert agent.run("Go.").messages[-1].content == "Done 0."
        assert not server.refusals
    assert server.requests[-1].texts(Kind.USER) == ("Go.",)


def test_what_agno_asks_the_model_besides_is_sent_as_it_is() -> None:
    """A request without the agent's tools, as for memories or a title, is no part of the conversation."""
    with ScriptedServer([Reply("A title.")]) as server:
        agent = equip_agent(server)
        answer = agent.model.response(messages=[Message(role="user", content="Give it a title.")])
        assert answer.content == "A title."
    (request,) = server.requests
    assert request.tools == ()
    assert request.system == ""


# The messages, field by field

CALLS = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in "ab"]
BLOCKS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    {"type": "text", "text": "I look."},
    *({"type": "tool_use", "id": name, "name": "read", "input": {}} for name in "ab"),
]


def test_a_message_is_taken_apart_and_kept_in_part() -> None:
    data = {"signature": "s", "content_blocks": BLOCKS}
    answer = Message(role="assistant", reasoning_content="Hm.", content="I look.", tool_calls=CALLS, provider_data=data)
    assert part_texts(FORMAT, answer) == [
        (Kind.REASONING, "Hm."),
        (Kind.TEXT, "I look."),
        (Kind.CALL, ""),
        (Kind.CALL, ""),
    ]
    assert needs(FORMAT, answer) == [(1,), (), (-2,), (-3,)]
    assert FORMAT.keep(answer, [0, 1, 2, 3]) is answer
    kept = FORMAT.keep(answer, [1, 3])
    assert (kept.reasoning_content, kept.content, kept.tool_calls) == (None, "I look.", CALLS[1:])
    assert kept.provider_data == {"content_blocks": [BLOCKS[1], BLOCKS[3]]}
    assert kept.id == answer.id
    assert answer.provider_data == data


def test_what_the_provider_ran_is_one_part_which_text_that_cites_needs() -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "x" * 400}]}
    cited = {"type": "text", "text": "So.", "citations": [{"type": "web_search_result_location"}]}
    data = {"content_blocks": [use, found, cited, BLOCKS[2]]}
    answer = Message(role="assistant", content="So.", tool_calls=CALLS[:1], provider_data=data)
    assert [part.kind for part in FORMAT.parts(answer)] == [Kind.TEXT, Kind.TEXT, Kind.CALL]
    assert needs(FORMAT, answer) == [(), (-1,), ()]
    assert len(FORMAT.parts(answer)[0].text) > 400
    assert FORMAT.keep(answer, [2]).provider_data == {"content_blocks": [BLOCKS[2]]}
    assert FORMAT.keep(answer, [0, 2]).provider_data == {"content_blocks": [use, found, BLOCKS[2]]}


def test_unsealed_reasoning_needs_no_company() -> None:
    answer = Message(role="assistant", reasoning_content="Hm.", content="So.")
    assert needs(FORMAT, answer) == [(), (-1,)]  # but the text needs it: DeepSeek V4


def test_media_and_blocks_count_by_an_estimate() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    (part,) = FORMAT.parts(Message(role="user", content=[{"type": "text", "text": "See."}, image]))
    assert (part.text, part.extra_tokens) == ("See.", NON_TEXT_TOKENS)


@pytest.mark.parametrize(
    ("message", "problem"),
    [({"role": "user"}, "must be a Message of Agno, found dict"), (Message(role="poet"), "role 'poet' is unknown")],
)
def test_what_is_no_message_is_refused(message: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        FORMAT.parts(message)
