from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wane.agent.assembly import MAX_REPO_CONTEXT, system_prompt
from wane.core.guidance import guidance
from wane.testing import Reply, ScriptedServer

ROOT = Path(__file__).parents[2]


def test_the_system_prompt_is_short_and_holds_the_guidance(repository: Path) -> None:
    import asyncio

    from tests.agent.conftest import config
    from wane.agent.session import AgentSession

    with ScriptedServer([Reply("ok")]) as server:
        session = AgentSession.create(config(repository, server.anthropic_model(), keep=False))
        asyncio.run(session.run("go"))
        (request,) = server.requests
    prompt = request.system.partition("<git-status>")[0]
    assert guidance(recall=True) in prompt
    assert "Search before you read: `grep` for text, `list_files` for names" in prompt
    assert len(prompt) / 4 < 1_000


def test_the_figures_in_the_docs_are_those_that_are_measured() -> None:
    command = [sys.executable, "benchmarks/agent_prompt.py"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = {label: tokens for tokens, label in (line.split(maxsplit=1) for line in printed[1:])}
    if printed[0].startswith("counted with chars"):
        text = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
        assert [row for row, tokens in rows.items() if not row.startswith("schema") and tokens not in text] == []
    assert int(rows["system prompt, without the tools' schemas"].replace(",", "")) < 1_000


def test_the_projects_instructions_are_cut() -> None:
    assert system_prompt(repo_context="use tabs").endswith("The project's instructions:\nuse tabs")
    long = system_prompt(repo_context="x" * (MAX_REPO_CONTEXT + 1))
    assert long.endswith("read the files for the rest]")
    assert "{" not in system_prompt(grep="search_files", list_files="find_files")
