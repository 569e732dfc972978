from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.profiles import ModelProfile

from tests.agent.conftest import config, git
from tests.agent.provider import APIS, DIRECT, serve
from tests.agent.work import working
from wane.agent.options import SandboxMode
from wane.agent.sandbox.own_git import OwnGit
from wane.agent.sandbox.wall import find_sandbox
from wane.agent.session import AgentSession
from wane.agent.tools.git import MAX_FILES, git_status
from wane.testing import Call, Reply


def status(directory: Path, mode: SandboxMode = "reads") -> str | None:
    return git_status(OwnGit(find_sandbox(directory, os.environ, mode), os.environ))


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


def test_the_status_is_the_same_in_a_sandbox_and_goes_by_the_users_own_settings(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text("*.mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (repository / "x.mine").write_text("")
    (repository / "y.other").write_text("")
    assert "y.other" in (status(repository) or "")
    assert "x.mine" not in (status(repository) or "")
    assert status(repository) == status(repository, "off")


def test_the_status_of_a_worktree_and_of_a_submodule_is_found(repository: Path) -> None:
    tree, outer = repository.parent / "tree", repository.parent / "outer"
    git(repository, "worktree", "add", "-q", "-b", "beside", str(tree))
    assert "branch: beside" in (status(tree) or "")
    git(repository, "init", "-q", str(outer))
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "below")
    assert "latest commits:" in (status(outer / "below") or "")


@pytest.mark.skipif(os.name == "nt", reason="needs programs of POSIX")
def test_the_status_can_write_nothing_whatever_git_starts(repository: Path, tmp_path: Path) -> None:
    if not find_sandbox(repository, os.environ).in_force:
        pytest.skip("no sandbox holds on this machine")
    mark = tmp_path / "mark"
    git(repository, "config", "filter.x.clean", f"touch {mark}; cat")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    os.utime(repository / "app.py", (1, 1))
    status(repository)
    assert not mark.exists()
    status(repository, "off")
    assert mark.exists()


@pytest.mark.parametrize("mode", ["reads", "off"])
@pytest.mark.parametrize("start", [".", "sub"])
def test_git_of_the_project_itself_is_never_started(
    mode: SandboxMode, start: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    program = repository / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {trace}\necho started\n")
    program.chmod(0o755)
    (repository / "sub").mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    told = status(repository / start, mode)
    assert told is not None
    assert "branch: main" in told
    assert not trace.exists()


def test_there_may_be_no_commits_no_repository_and_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert status(tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert status(tmp_path) == "branch: No commits yet on trunk\nno uncommitted changes\nno commits yet"
    monkeypatch.setenv("PATH", "/nowhere")
    assert status(tmp_path) is None


def script() -> list[Reply]:
    read, write = Call("read_file", {"path": "app.py"}), Call("write_file", {"path": "app.py", "content": ""})
    return [*(Reply(calls=(call,)) for call in (read, write, read)), Reply("done"), Reply("again")]


@pytest.mark.quick(2)
@pytest.mark.parametrize("way", [DIRECT, *APIS])
def test_the_model_sees_a_status_once_at_the_tail_and_never_in_the_history(repository: Path, way: str) -> None:
    with working(serve(way), repository, script(), keep=False) as at:
        at.run("go", "again")
    shown = [[part.text for part in request.parts if "<git-status>" in part.text] for request in at.requests]
    assert [len(texts) for texts in shown] == [1, 0, 1, 0, 0]  # at first, and once it had changed
    first, changed = at.requests[0], at.requests[2]
    assert [first.parts[-1].text, changed.parts[-1].text] == [*shown[0], *shown[2]]
    assert " M app.py" in changed.parts[-1].text
    # It moves nothing of the cached prefix.
    before = [(part.kind, part.text) for part in first.parts[:-1]]
    assert [(part.kind, part.text) for part in changed.parts[: len(before)]] == before
    assert "git-status" not in str(at.session.history)


class Announcing(FunctionModel):
    """A model without a system role in the conversation, to which such notes are explained."""

    _announces_lookalike_notes = True


def test_a_status_that_comes_and_goes_leaves_the_beginning_of_a_request_as_it_is(repository: Path) -> None:
    sent: list[list[ModelMessage]] = []

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        reply = script()[len(sent)]
        sent.append(messages)
        if reply.text:
            yield reply.text
        for call in reply.calls:
            yield {0: DeltaToolCall(call.tool, call.raw_arguments, tool_call_id=str(len(sent)))}

    model = Announcing(stream_function=stream, profile=ModelProfile(supports_inline_system_prompts=False))
    session = AgentSession.create(config(repository, model, keep=False, strategy="truncate"))
    asyncio.run(session.run("go"))
    session.close()
    assert ["<git-status>" in str(messages[-1]) for messages in sent] == [True, False, True, False]
    firsts = [[part for part in messages[0].parts if "<git-status>" not in str(part)] for messages in sent]
    assert all(parts == firsts[0] for parts in firsts)
