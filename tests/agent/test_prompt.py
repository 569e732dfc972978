from __future__ import annotations

from pathlib import Path

from wane.agent.measure import measured
from wane.agent.prompt import MAX_REPO_CONTEXT, system_prompt
from wane.core.guidance import guidance
from wane.testing import Reply, ScriptedServer

DOCS = Path(__file__).parents[2] / "docs" / "agent.md"


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
    counter, rows = measured()
    if counter.startswith("chars"):
        text = DOCS.read_text(encoding="utf-8")
        whole = [tokens for label, tokens in rows if label.startswith(("the ", "system prompt"))]
        assert all(f"{tokens:,}" in text for tokens in whole)
    without = dict(rows)["system prompt, without the tools' schemas"]
    assert without < 1_000


def test_the_projects_instructions_are_cut() -> None:
    assert system_prompt(repo_context="use tabs").endswith("The project's instructions:\nuse tabs")
    long = system_prompt(repo_context="x" * (MAX_REPO_CONTEXT + 1))
    assert long.endswith("read the files for the rest]")
    assert "{" not in system_prompt(grep="search_files", list_files="find_files")
