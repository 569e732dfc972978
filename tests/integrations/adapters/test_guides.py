"""The guides of frameworks: their examples, as they stand there, run against a scripted model."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from wane.core import Kind
from wane.testing import Call, Reply, Request, ScriptedServer, adapters

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without the network
os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

DOCS = Path(__file__).parents[3] / "docs" / "frameworks"


def examples(guide: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / guide).read_text(encoding="utf-8"), re.DOTALL)


def run(code: str, **given: Any) -> dict[str, Any]:
    """Run an example, which finds here what it leaves open, and return what it defines."""
    names = {"__name__": "guide", **given}
    exec(compile(code, "guide", "exec", dont_inherit=True), names)
    return names


DONE = Reply("Done.")
Serve: TypeAlias = Callable[..., ScriptedServer]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a provider where clients look for it by default, in a folder of its own.

    Its model marks an exploration first, and ends with the given reply.
    """
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def serve(last: Reply, is_marked: Callable[[Request], object] = lambda request: request.results) -> Any:
            mark = Reply(calls=(Call("delimiter", {"action": "start", "name": "look", "type": "expl"}),))
            server = stack.enter_context(ScriptedServer(lambda request: last if is_marked(request) else mark))
            for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
                monkeypatch.setenv(name, f"{server.url}/v1")
            for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "GOOGLE_GEMINI_BASE_URL"):
                monkeypatch.setenv(name, server.url)
            for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
                monkeypatch.setenv(name, "k")
            return server

        yield serve


def judge_marks(server: ScriptedServer) -> list[bool]:
    """Whether each mark that a request holds was taken."""
    assert not server.refusals, server.refusals
    results = [text for request in server.requests for text in request.results.values()]
    return [text.startswith("Started") for text in results]


def read(path: str) -> str:
    """Read a file."""
    return path


TOOL = {"name": "read", "parameters": {"type": "object"}}


def search(pattern: str) -> str:
    """Search for a pattern."""
    return pattern


@pytest.mark.parametrize("number", range(len(examples("pydantic-ai.md"))))
def test_pydantic_ai(number: int) -> None:
    pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
    with ScriptedServer(lambda _: DONE) as server:
        example = examples("pydantic-ai.md")[number].replace('"anthropic:claude-sonnet-5-5"', "model")
        run(example, model=server.anthropic_model())


def test_langchain(serve: Serve) -> None:
    pytest.importorskip("langchain_anthropic", reason="needs the extra langchain, and langchain-anthropic")
    from langchain.chat_models import init_chat_model
    from langgraph.graph import END, START
    from langgraph.prebuilt import tools_condition

    server = serve(DONE)
    agent, graph = examples("langchain.md")
    run(agent)
    assert judge_marks(server) == [True]
    built = run(graph, model=init_chat_model("anthropic:claude-sonnet-5-5"))["graph"]
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    built.add_edge("tools", "model")
    built.compile().invoke({"messages": [("user", "Go.")]})
    assert judge_marks(server) == [True, True]
    assert server.requests[-1].system.startswith("Be brief.")


def test_deep_agents(serve: Serve) -> None:
    pytest.importorskip("deepagents", reason="needs the package deepagents")
    server = serve(DONE)
    (example,) = examples("deep-agents.md")
    run(example)
    assert judge_marks(server) == [True]


def test_crewai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"HOME": str(tmp_path), "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
    for name, value in {**settings, "OPENAI_API_KEY": "k"}.items():
        monkeypatch.setenv(name, value)
    crewai = pytest.importorskip("crewai", reason="needs the package crewai")
    from crewai.hooks import unregister_before_llm_call_hook
    from crewai.tools import tool

    def answer(request: Request) -> Reply:
        # The example's agent has no tools; those of the tasks below read eleven times.
        number = request.number
        return Reply(calls=(Call("read", {"path": f"a{number}"}, f"r{number}"),)) if number % 12 else DONE

    (example,) = examples("crewai.md")
    with ScriptedServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        names = run(example.replace("80k", "5k"))
        try:
            reads = tool("read")(adapters.read)
            agent = crewai.Agent(role="Reader", goal="Read.", backstory="Good.", llm=names["agent"].llm, tools=[reads])
            tasks = [crewai.Task(description=f"Mind §{n}.", expected_output="A name.", agent=agent) for n in range(2)]
            result = crewai.Crew(agents=[agent], tasks=tasks).kickoff()
        finally:
            unregister_before_llm_call_hook(names["show_view"])
    assert (str(names["result"]), str(result)) == ("Done.", "Done.")
    assert not server.refusals
    assert len(server.requests) == 25
    assert all(request.tokens <= 5_000 for request in server.requests)
    for last, first in ((12, "r1"), (24, "r13")):
        assert first not in server.requests[last].results
        assert f"Mind §{last // 12 - 1}." in str(server.requests[last].texts(Kind.USER))


def test_openai_agents(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("agents", reason="needs the extra openai-agents")
    from agents import set_tracing_disabled

    set_tracing_disabled(True)
    server = serve(DONE)
    (example,) = examples("openai-agents.md")
    run(example)
    assert capsys.readouterr().out == "Done.\n"
    assert judge_marks(server) == [True]
    assert {path.name for path in Path().iterdir()} >= {"states.db", "sessions.db"}


def test_strands(serve: Serve) -> None:
    pytest.importorskip("strands.models.openai", reason="needs the extra strands")
    from strands.models.openai import OpenAIModel

    server = serve(DONE)
    (example,) = examples("strands.md")
    # Its default is a model of Bedrock's.
    run(example.replace("Agent(plugins", "Agent(model=model, plugins"), model=OpenAIModel(model_id="gpt-x"))
    assert judge_marks(server) == [True]


def test_agno(serve: Serve) -> None:
    pytest.importorskip("agno", reason="needs the extra agno")
    server = serve(DONE)
    (example,) = examples("agno.md")
    run(example)
    assert judge_marks(server) == [True]


def test_haystack(serve: Serve) -> None:
    pytest.importorskip("haystack", reason="needs the extra haystack")
    server = serve(DONE)
    (example,) = examples("haystack.md")
    assert run(example)["result"]["last_message"].text == "Done."
    assert judge_marks(server) == [True]


def test_smolagents(serve: Serve) -> None:
    pytest.importorskip("smolagents", reason="needs the extra smolagents")
    done = Reply(calls=(Call("final_answer", {"answer": "Done."}),))
    # Its results are texts of the user.
    server = serve(done, lambda request: "Started exploration" in str(request.body))
    (example,) = examples("smolagents.md")
    run(example)
    assert not server.refusals
    assert len(server.requests) == 3
    turns = str(server.requests[-1].texts(Kind.USER))
    assert all(text in turns for text in ("Find the slow test.", "Started exploration", "Now mend it."))


def test_agent_framework(serve: Serve) -> None:
    pytest.importorskip("agent_framework_openai", reason="needs the extra agent-framework, and agent-framework-openai")
    server = serve(DONE)
    (example,) = examples("agent-framework.md")
    run(example)
    assert judge_marks(server) == [True, True]  # the second run has the first one's result
    assert server.requests[-1].tools == ("read", "delimiter")


def test_google_adk(serve: Serve) -> None:
    pytest.importorskip("google.adk", reason="needs the extra google-adk")
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    server = serve(DONE)
    (example,) = examples("google-adk.md")
    app = run(example)["app_of"](read, search)

    async def live() -> None:
        runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        message = types.Content(role="user", parts=[types.Part(text="Go.")])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass

    asyncio.run(live())
    assert judge_marks(server) == [True]


def test_mini_swe_agent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minisweagent", reason="needs the extra mini-swe-agent")
    monkeypatch.setenv("MSWEA_COST_TRACKING", "ignore_errors")
    server = serve(Reply(calls=(Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),)))
    (example,) = examples("mini-swe-agent.md")
    agent = run(example)["agent_of"]("Be brief.", "Say hello.")
    agent.run()
    assert judge_marks(server) == [True]


def test_mini_swe_agents_settings() -> None:
    yaml = pytest.importorskip("yaml", reason="needs the package pyyaml")
    pytest.importorskip("minisweagent", reason="needs the extra mini-swe-agent")
    from wane.integrations.mini_swe_agent import ContextLifecycle

    for example in examples("mini-swe-agent.md", "yaml"):
        settings = yaml.safe_load(example.replace("my_package.watching.told", "builtins.print"))["model"]
        settings.pop("model_class", None)
        assert ContextLifecycle(model_name="m", **settings)


def test_inspect_ai(serve: Serve) -> None:
    pytest.importorskip("inspect_ai", reason="needs the extra inspect-ai")
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.tool import bash, python

    server = serve(Reply(calls=(Call("submit", {"answer": "42"}),)))
    (example,) = examples("inspect-ai.md")
    solver = run(example)["solver_of"](bash(), python())
    task = Task(dataset=[Sample(input="Go.")], solver=solver)
    (log,) = evaluate(task, model="anthropic/claude-sonnet-4-5", display="none", log_dir="logs")
    assert log.status == "success", log.error
    assert log.samples is not None
    assert log.samples[0].output.completion == "42"
    assert judge_marks(server) == [True]


def test_openhands(serve: Serve) -> None:
    pytest.importorskip("openhands.sdk", reason="needs the extra openhands")
    pytest.importorskip("openhands.tools", reason="needs the package openhands-tools")
    from openhands.sdk import LLM, Conversation

    server = serve(DONE)
    (example,) = examples("openhands.md")
    llm = LLM(model="anthropic/claude-sonnet-4-5", api_key="k", base_url=server.url, num_retries=0)
    conversation = Conversation(agent=run(example)["agent_of"](llm), workspace=os.getcwd(), visualizer=None)
    conversation.send_message("Go.")
    conversation.run()
    conversation.close()
    assert judge_marks(server) == [True]


def test_litellm(serve: Serve) -> None:
    litellm = pytest.importorskip("litellm", reason="needs the extra litellm")
    pytest.importorskip("mcp", reason="needs the extra litellm")
    server = serve(DONE)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number in range(9):
        call = {"id": f"r{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"r{number}", "content": adapters.content_of("a")})
    (example,) = examples("litellm.md")
    try:
        run(example.replace("80k", "4k"))
        asyncio.run(
            litellm.acompletion("openai/gpt-x", messages=messages, tools=[{"type": "function", "function": TOOL}])
        )
    finally:
        litellm.logging_callback_manager._reset_all_callbacks()
    (request,) = server.requests
    assert request.tokens <= 4_000
    assert request.texts(Kind.USER) == ("Go.",)
