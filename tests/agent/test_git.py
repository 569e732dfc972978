from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest

from tests.agent.conftest import git
from tests.agent.scripts import call, scripted
from wane.agent.tools.git import MAX_FILES, GitStatus, git_status
from wane.agent.tools.toolset import coding_tools
from wane.testing import Call, Kind, Reply, ScriptedServer


def status(directory: Path) -> str | None:
    return asyncio.run(git_status(directory))


def test_branch_changes_and_commits(repository: Path) -> None:
    assert (status(repository) or "").splitlines()[:3] == ["branch: main", "no uncommitted changes", "latest commits:"]
    (repository / "é new.py").write_text("")
    (repository / "app.py").write_text("")
    lines = (status(repository) or "").splitlines()
    assert lines[1:4] == ["uncommitted changes:", " M app.py", '?? "é new.py"']
    assert lines[-1].endswith(" First")

    for number in range(50):
        (repository / f"f{number:02}.py").write_text("")
    assert f"… and {52 - MAX_FILES} more" in (status(repository) or "").splitlines()


def test_there_may_be_no_commits_no_repository_and_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert status(tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert status(tmp_path) == "branch: No commits yet on trunk\nno uncommitted changes\nno commits yet"
    monkeypatch.setenv("PATH", "")
    assert status(tmp_path) is None


def shown(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [text for part in parts if "<git-status>" in (text := str(getattr(part, "content", "")))]


def test_the_model_sees_a_status_once_at_the_tail_and_never_in_the_history(repository: Path) -> None:
    sent: list[list[ModelMessage]] = []
    model = scripted(
        [call("read_file", path="app.py")],
        [call("write_file", path="app.py", content="")],
        [call("read_file", path="app.py")],
        "done",
        sent=sent,
    )
    agent = Agent(model, capabilities=[*coding_tools(repository, 9_000).capabilities, GitStatus(repository)])

    async def turns() -> list[ModelMessage]:
        first = await agent.run("go")
        return (await agent.run("again", message_history=first.all_messages())).all_messages()

    history = asyncio.run(turns())
    counts = [len(shown(messages)) for messages in sent]
    assert counts == [1, 0, 1, 0, 0]  # at first, and once it had changed
    assert "<git-status>" in str(sent[0][-1])
    assert " M app.py" in shown(sent[2])[0]
    assert shown(history) == []


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", ["anthropic_model", "openai_model", "openai_responses_model"])
def test_the_status_stays_behind_the_prefix_on_the_wire(repository: Path, api: str) -> None:
    pytest.importorskip("anthropic" if api == "anthropic_model" else "openai")
    replies = [Reply(calls=(Call("write_file", {"path": "app.py", "content": ""}),)), Reply("done")]
    with ScriptedServer(replies) as server:
        agent = Agent(
            getattr(server, api)(), capabilities=[*coding_tools(repository, 9_000).capabilities, GitStatus(repository)]
        )
        asyncio.run(agent.run("go"))
        first, second = server.requests
    assert "git-status" in first.parts[-1].text
    assert "git-status" in second.parts[-1].text
    assert sum("git-status" in part.text for part in second.parts) == 1
    kept = [(p.kind, p.text) for p in first.parts[:-1]]
    assert [(p.kind, p.text) for p in second.parts[: len(kept)]] == kept
    assert second.parts[-2].kind is Kind.RESULT
