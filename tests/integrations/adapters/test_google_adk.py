"""The adapter of Google's Agent Development Kit: over a scripted model by Gemini's rules, and over Anthropic's wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from wane.core import Kind
from wane.integrations.google_adk import ContextLifecycle
from wane.testing import Call, Refusal, Reply, Request, ScriptedServer, adapters
from wane.testing.request import Message, Part, compact

SEAL = b"sealed"


@dataclass
class Gemini:
    """What a scripted model was sent, and what Gemini would not have taken."""

    replies: Iterator[Reply]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    sent: list[LlmRequest] = field(default_factory=list)

    def answer(self, sent: LlmRequest) -> types.Content | None:
        self.sent.append(sent)
        request, fault = self.parsed(sent)
        self.requests.append(request)
        if fault:
            self.refusals.append(Refusal(fault, 400, request))
            return None
        return content_of(next(self.replies))

    def parsed(self, sent: LlmRequest) -> tuple[Request, str]:
        """A request as it was sent, and what is wrong with it."""
        messages = [Message("system", (Part(Kind.SYSTEM, str(sent.config.system_instruction)),))]
        faults, waiting = [], list[Part]()
        for content in sent.contents:
            parts, calls = [], list[Part]()
            for part in content.parts or []:
                if part.function_call:
                    assert part.part_metadata is not None
                    call_id, name = part.part_metadata["id"], part.function_call.name
                    parts.append(Part(Kind.CALL, compact(part.function_call.args), call_id, name))
                    if not calls and part.thought_signature != SEAL:
                        faults.append(f"the call {call_id} has no thought_signature")
                    if part.function_call.id is not None:
                        faults.append(f"the call {call_id} has the id {part.function_call.id}")
                    calls.append(parts[-1])
                elif part.function_response:
                    call = waiting.pop(0) if waiting else Part(Kind.CALL, "")
                    if call.tool != part.function_response.name:
                        faults.append(f"a response of {part.function_response.name} follows a call of {call.tool}")
                    text = str((part.function_response.response or {}).get("result"))
                    parts.append(Part(Kind.RESULT, text, call.call_id))
                else:
                    kind = (Kind.REASONING if part.thought else Kind.TEXT) if content.role == "model" else Kind.USER
                    parts.append(Part(kind, part.text or ""))
            if waiting:
                faults.append(f"{len(waiting)} calls have no response")
            waiting = calls
            messages.append(Message("assistant" if content.role == "model" else "user", tuple(parts)))
        tools = [tool.model_dump_json(exclude_none=True) for tool in sent.config.tools or []]
        request = Request(
            number=len(self.requests),
            api="openai-chat",
            model="gemini-x",
            messages=tuple(messages),
            tools=tuple(sent.tools_dict),
            tool_tokens=-(-len("".join(tools)) // 4),
            stream=False,
            body={},
            raw=b"",
            headers={},
        )
        return request, "; ".join(faults)


def content_of(reply: Reply) -> types.Content:
    """What Gemini says: without ids of calls, a signature on the first one."""
    parts = [types.Part(text=reply.text)] if reply.text else []
    for number, call in enumerate(reply.calls):
        made = types.FunctionCall(name=call.tool, args=dict(call.arguments))  # type: ignore[arg-type]
        parts.append(
            types.Part(function_call=made, part_metadata={"id": call.id}, thought_signature=None if number else SEAL)
        )
    return types.Content(role="model", parts=parts)


class ScriptedLlm(BaseLlm):
    """A model of the kit that asks `Gemini`."""

    gemini: Any

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        content = self.gemini.answer(llm_request)
        if content is None:
            yield LlmResponse(error_code="400", error_message=self.gemini.refusals[-1].message)
            return
        if stream:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="…")]), partial=True)
        held = self.gemini.requests[-1].tokens
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=held, cached_content_token_count=held // 2
        )
        yield LlmResponse(content=content, usage_metadata=usage)


def read(path: str) -> str:
    """Read a file."""
    return adapters.content_of(path)


def grep(pattern: str) -> str:
    """Search for a pattern."""
    return adapters.content_of(pattern)


class ADKThread:
    """A session of an app."""

    def __init__(self, agent: Any, settings: dict[str, Any], sessions: Any = None) -> None:
        self._agent, self._settings = agent, settings
        self._sessions = sessions or InMemorySessionService()
        app = App(name="app", root_agent=agent, plugins=[ContextLifecycle(**settings)])
        self._runner = Runner(app=app, session_service=self._sessions, auto_create_session=True)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        mode = StreamingMode.SSE if stream else StreamingMode.NONE
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        running = self._runner.run_async(
            user_id="u", session_id="s", new_message=message, run_config=RunConfig(streaming_mode=mode)
        )
        events = [event async for event in running]
        assert any(event.partial for event in events) is stream
        parts = events[-1].content.parts if events[-1].content else []
        return "".join(part.text or "" for part in parts if not part.thought)

    def session(self) -> Any:
        return asyncio.run(self._sessions.get_session(app_name="app", user_id="u", session_id="s"))

    def stored(self) -> Mapping[str, str]:
        events, ids = self.session().events, {}
        for event in events:
            for part in event.content.parts if event.content else []:
                if part.function_call:
                    ids[part.function_call.id] = (part.part_metadata or {}).get("id", part.function_call.id)
        responses = [response for event in events for response in event.get_function_responses()]
        return {ids[response.id]: response.response["result"] for response in responses}

    def again(self) -> ADKThread:
        return ADKThread(self._agent, self._settings, self._sessions)


class TestGemini(adapters.AdapterContract):
    """By the rules of Gemini, which has no ids."""

    @contextmanager
    def serving(self, replies: Iterator[Reply]) -> Iterator[Gemini]:
        self.gemini = Gemini(replies)
        yield self.gemini

    def begin(self, url: str, **settings: Any) -> ADKThread:
        model = ScriptedLlm(model="gemini-x", gemini=self.gemini)
        return ADKThread(LlmAgent(name="agent", model=model, instruction="Be good.", tools=[read, grep]), settings)


class TestAnthropic(adapters.AdapterContract):
    """Messages, with thinking on a budget."""

    def begin(self, url: str, **settings: Any) -> ADKThread:
        anthropic = pytest.importorskip("anthropic", reason="needs the package anthropic")
        from google.adk.models.anthropic_llm import AnthropicLlm

        client = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
        config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=1_024))
        agent = LlmAgent(
            name="agent",
            model=AnthropicLlm(model="claude-x", client=client),
            instruction="Be good.",
            tools=[read, grep],
            generate_content_config=config,
        )
        return ADKThread(agent, settings)

    def serving(self, replies: Iterator[Reply]) -> ScriptedServer:
        return ScriptedServer(replace(reply, reasoning=f"Thought {n}. " * 9) for n, reply in enumerate(replies))
