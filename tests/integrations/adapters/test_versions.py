"""The table of the frameworks' versions: what is installed here, and runs in the other tests, stands in it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest

TABLE = Path(__file__).parents[3] / "docs" / "frameworks" / "versions.md"
PACKAGES = {
    "Agno": "agno",
    "CrewAI": "crewai",
    "Deep Agents": "deepagents",
    "Google ADK": "google-adk",
    "Haystack": "haystack-ai",
    "Inspect AI": "inspect-ai",
    "LangChain": "langchain",
    "LangGraph": "langgraph",
    "LiteLLM": "litellm",
    "Microsoft Agent Framework": "agent-framework-core",
    "mini-swe-agent": "mini-swe-agent",
    "OpenAI Agents SDK": "openai-agents",
    "OpenHands SDK": "openhands-sdk",
    "Pydantic AI": "pydantic-ai-slim",
    "smolagents": "smolagents",
    "Strands Agents": "strands-agents",
}


@pytest.mark.wide
@pytest.mark.parametrize("framework", PACKAGES)
def test_the_version_that_runs_here_is_in_the_table(framework: str) -> None:
    package = PACKAGES[framework]
    try:
        row = f"| {framework} | `{package}` | {version(package)} |"
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if framework == "LiteLLM" and find_spec("openhands"):
        pytest.skip("OpenHands brings a release of its own, with which the tests of LiteLLM do not run")
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith(f"| {framework} |")]
    if os.environ.get("UPDATE_SNAPSHOTS") and not any(line.startswith(row) for line in rows):
        first = next(number for number, line in enumerate(lines) if line.startswith("|---")) + 1
        others = [line for line in lines[first:] if line not in rows]
        table = sorted([*others, f"{row} {datetime.now(UTC).date()} |"], key=str.lower)
        TABLE.write_text("\n".join([*lines[:first], *table]) + "\n", encoding="utf-8")
        return
    assert [line[: len(row)] for line in rows] == [row], f"{row} is not in {TABLE}: run with UPDATE_SNAPSHOTS=1"
