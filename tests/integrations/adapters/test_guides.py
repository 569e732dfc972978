"""The guides of frameworks: their examples, pasted as they stand there, with no more than their install line brings."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from scripts import check_docs

from tests.integrations.adapters import installed
from wane.core import Kind
from wane.testing import Call, Reply, Request, ScriptedServer, adapters

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without the network
os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "frameworks"


def blocks_of(guide: str, language: str) -> list[str]:
    return [block.text for block in check_docs.parse(DOCS / f"{guide}.md").blocks if block.language == language]


DONE = Reply("Done.")


class Guide(NamedTuple):
    """What a guide's examples need that stands in none of them."""

    extra: str
    """That of the framework; or its package, if it has none."""
    last: Reply = DONE
    """How the model ends its work."""
    marks: bool = True
    """Whether it is offered `delimiter`."""


GUIDES = {
    "agent-framework": Guide("wane[agent-framework]"),
    "agno": Guide("wane[agno]"),
    "crewai": Guide("crewai", marks=False),
    "deep-agents": Guide("deepagents"),
    "google-adk": Guide("wane[google-adk]"),
    "haystack": Guide("wane[haystack]"),
    "inspect-ai": Guide("wane[inspect-ai]", Reply(calls=(Call("submit", {"answer": "42"}),))),
    "langchain": Guide("wane[langchain]"),
    "litellm": Guide("wane[litellm]", marks=False),
    "mini-swe-agent": Guide(
        "wane[mini-swe-agent]", Reply(calls=(Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),))
    ),
    "openai-agents": Guide("wane[openai-agents]"),
    "openhands": Guide("wane[openhands]"),
    "pydantic-ai": Guide("wane[pydantic-ai]"),
    "smolagents": Guide("wane[smolagents]", Reply(calls=(Call("final_answer", {"answer": "Done."}),))),
    "strands": Guide("wane[strands]"),
}
EXAMPLES = [(guide, number) for guide in GUIDES for number in range(len(blocks_of(guide, "python")))]
MARK = Reply(calls=(Call("delimiter", {"action": "start", "name": "look", "type": "expl"}),))
QUIET = {
    "AGNO_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
"""What keeps frameworks from calling their makers."""


def brought_by(guide: str) -> dict[str, Any]:
    """Return what the guide's install line brings; skip where its framework is not installed."""
    framework = Requirement(GUIDES[guide].extra)
    try:
        installed.bring([framework])
    except LookupError as error:
        pytest.skip(str(error))
    (line,) = (line for block in blocks_of(guide, "") for line in block.splitlines() if line.startswith("pip install"))
    # The environment of its tests has all that the line brings.
    return installed.bring(installed.requirements(line))


def point_to(server: ScriptedServer) -> dict[str, str]:
    """Return the variables with which clients ask this server."""
    keys = {f"{name}_API_KEY": "k" for name in ("OPENAI", "ANTHROPIC", "GOOGLE")}
    bare = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "GOOGLE_GEMINI_BASE_URL")
    versioned = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    return keys | dict.fromkeys(bare, server.url) | dict.fromkeys(versioned, f"{server.url}/v1")


@pytest.mark.parametrize(("guide", "number"), EXAMPLES)
def test_an_example_runs_with_what_the_install_line_brings(guide: str, number: int, tmp_path: Path) -> None:
    packages, home = tmp_path / "packages", tmp_path / "home"
    installed.link(brought_by(guide), packages)
    home.mkdir()
    (home / "example.py").write_text(blocks_of(guide, "python")[number], encoding="utf-8")
    started = "Started exploration"

    def answer(request: Request) -> Reply:
        return MARK if "delimiter" in request.tools and started not in str(request.body) else GUIDES[guide].last

    with ScriptedServer(answer) as server:
        paths = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": f"{packages}:{ROOT / 'src'}"}
        # Without the module `site`, the packages of this environment are not found.
        command = [sys.executable, "-S", "example.py"]
        ended = subprocess.run(
            command, cwd=home, env=QUIET | paths | point_to(server), capture_output=True, text=True, timeout=120
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not server.refusals, server.refusals
    assert server.requests
    assert (started in str(server.requests[-1].body)) is GUIDES[guide].marks


def test_every_guide_is_tried() -> None:
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages - {"README", "own", "versions"} == set(GUIDES)


def test_what_an_install_line_does_not_bring_is_not_found(tmp_path: Path) -> None:
    brought = installed.bring(installed.requirements("pip install .  # in a clone"))
    assert {"wane", "rich", "platformdirs"} <= set(brought)
    assert "pytest" not in brought
    installed.link(brought, tmp_path / "packages")
    code = "import rich, markdown_it, wane\ntry:\n  import pytest\nexcept ImportError:\n  print('not found')"
    paths = {"PYTHONPATH": f"{tmp_path / 'packages'}:{ROOT / 'src'}"}
    ended = subprocess.run([sys.executable, "-S", "-c", code], env=paths, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("not found\n", "")
    with pytest.raises(LookupError, match="nowhere is not installed"):
        installed.bring([Requirement("nowhere")])


# What an example promises beyond its own run


def run(code: str) -> dict[str, Any]:
    """Run an example, and return what it defines."""
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(code, "guide", "exec", dont_inherit=True), names)
    return names


def test_crewai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {**QUIET, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    crewai = pytest.importorskip("crewai", reason="needs the package crewai")
    from crewai.hooks import unregister_before_llm_call_hook
    from crewai.tools import tool

    def answer(request: Request) -> Reply:
        # The example's agent has no tools; those of the tasks below read eleven times.
        number = request.number
        return Reply(calls=(Call("read", {"path": f"a{number}"}, f"r{number}"),)) if number % 12 else DONE

    (example,) = blocks_of("crewai", "python")
    with ScriptedServer(answer) as server:
        for name, value in point_to(server).items():
            monkeypatch.setenv(name, value)
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


def test_mini_swe_agents_settings() -> None:
    yaml = pytest.importorskip("yaml", reason="needs the package pyyaml")
    pytest.importorskip("minisweagent", reason="needs the extra mini-swe-agent")
    from wane.integrations.mini_swe_agent import ContextLifecycle

    for example in blocks_of("mini-swe-agent", "yaml"):
        settings = yaml.safe_load(example.replace("my_package.watching.told", "builtins.print"))["model"]
        settings.pop("model_class", None)
        assert ContextLifecycle(model_name="m", **settings)


def test_mini_swe_agents_command(tmp_path: Path) -> None:
    pytest.importorskip("minisweagent", reason="needs the extra mini-swe-agent")
    (command,) = (block for block in blocks_of("mini-swe-agent", "") if block.startswith("mini "))
    (tmp_path / "wane.yaml").write_text(blocks_of("mini-swe-agent", "yaml")[0], encoding="utf-8")
    with ScriptedServer(lambda request: GUIDES["mini-swe-agent"].last if request.results else MARK) as server:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(tmp_path), "PATH": path, "MSWEA_CONFIGURED": "true"}
        # As if a person confirmed all that it asks.
        ended = subprocess.run(
            [*shlex.split(command), "--yolo", "--exit-immediately"],
            cwd=tmp_path,
            env=QUIET | own | point_to(server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not server.refusals, server.refusals
    assert [text.startswith("Started") for text in server.requests[-1].results.values()] == [True]


def test_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = pytest.importorskip("litellm", reason="needs the extra litellm")
    pytest.importorskip("mcp", reason="needs the extra litellm")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number in range(9):
        call = {"id": f"r{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"r{number}", "content": adapters.content_of("a")})
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    (example,) = blocks_of("litellm", "python")
    with ScriptedServer(lambda _: DONE) as server:
        for name, value in point_to(server).items():
            monkeypatch.setenv(name, value)
        try:
            run(example.replace("80k", "4k"))
            asyncio.run(litellm.acompletion("openai/gpt-x", messages=messages, tools=[tool]))
        finally:
            litellm.logging_callback_manager._reset_all_callbacks()
    assert not server.refusals
    assert server.requests[-1].tokens <= 4_000
    assert server.requests[-1].texts(Kind.USER) == ("Go.",)
