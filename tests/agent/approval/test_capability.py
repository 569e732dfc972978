from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from tests.agent.approval.test_permissions import Asked
from tests.agent.scripts import Step, call, results, scripted
from wane.agent.approval.capability import Approvals
from wane.agent.approval.permissions import Approval, ApprovalRequest, Effect, Permissions
from wane.agent.tools.toolset import coding_tools


def use(directory: Path, ask: Asked, *steps: Step) -> list[str]:
    sent: list[list[ModelMessage]] = []
    capabilities = [Approvals(Permissions(ask)), *coding_tools(directory, 9_000).capabilities]
    agent = Agent(scripted(*steps, "done", sent=sent), capabilities=capabilities)
    asyncio.run(agent.run("go"))
    return results(sent[-1])


def test_the_user_sees_the_command_and_the_diff(repository: Path) -> None:
    asked = Asked(Approval(True), Approval(False, reason="use 43"), Approval(False))
    ran, edited, made = use(
        repository,
        asked,
        [call("shell", command="echo hi")],
        [call("edit_file", path="app.py", old_text="41", new_text="42")],
        [call("create_directory", path="new")],
    )
    assert ran == "hi"
    assert "use 43" in edited
    assert "the user refused it" in made
    assert asked.requests[0] == ApprovalRequest(Effect.COMMAND, "echo hi", rules=("echo *",))
    assert asked.requests[1].subject == "app.py"
    assert "-    return 41\n+    return 42" in asked.requests[1].detail
    assert not (repository / "new").exists()


def test_a_change_that_cannot_be_made_is_not_asked_for(repository: Path) -> None:
    asked = Asked()
    missing, read = use(
        repository,
        asked,
        [call("edit_file", path="app.py", old_text="nowhere", new_text="x")],
        [call("read_file", path="app.py")],
    )
    assert "not found" in missing
    assert "return 41" in read
    assert asked.requests == []
