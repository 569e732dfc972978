"""What an adapter says where its framework is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wane.core.errors import MissingExtraError


@pytest.mark.full
@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("wane.integrations.agent_framework", "agent_framework", "agent-framework"),
        ("wane.integrations.agno", "agno", "agno"),
        ("wane.integrations.haystack", "haystack", "haystack"),
        ("wane.integrations.smolagents", "smolagents", "smolagents"),
        ("wane.integrations.google_adk", "google.adk", "google-adk"),
        ("wane.integrations.inspect_ai", "inspect_ai", "inspect-ai"),
        ("wane.integrations.openhands", "openhands", "openhands"),
        ("wane.integrations.langchain", "langchain", "langchain"),
        ("wane.integrations.litellm", "litellm", "litellm"),
        ("wane.integrations.mini_swe_agent", "minisweagent", "mini-swe-agent"),
        ("wane.integrations.openai_agents", "agents", "openai-agents"),
        ("wane.integrations.pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("wane.formats.pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("wane.integrations.strands", "strands", "strands"),
    ],
)
def test_the_command_that_installs_it_is_told(module: str, framework: str, extra: str) -> None:
    code = f"import sys; sys.modules[{framework!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{module} needs the" in done.stderr
    assert f"Install it with: {MissingExtraError(module, extra).command}" in done.stderr
