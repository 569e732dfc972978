from __future__ import annotations

from pathlib import Path

from tests.agent.provider import serve
from tests.agent.work import working
from wane.agent.assembly import MAX_REPO_CONTEXT, system_prompt
from wane.core.guidance import guidance
from wane.testing import Reply


def test_the_system_prompt_is_short_and_holds_the_guidance(repository: Path) -> None:
    with working(serve("anthropic_model"), repository, [Reply("ok")], keep=False) as at:
        at.run()
    prompt = at.requests[0].system.partition("<git-status>")[0]
    assert guidance(recall=True) in prompt
    assert "Search before you read: `grep` for text, `list_files` for names" in prompt
    assert len(prompt) / 4 < 1_000


def test_the_projects_instructions_are_cut() -> None:
    assert system_prompt(repo_context="use tabs").endswith("The project's instructions:\nuse tabs")
    long = system_prompt(repo_context="x" * (MAX_REPO_CONTEXT + 1))
    assert long.endswith("read the files for the rest]")
    assert "{" not in system_prompt(grep="search_files", list_files="find_files")
