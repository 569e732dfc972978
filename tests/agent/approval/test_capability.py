from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from tests.agent.approval.test_permissions import Asked
from tests.agent.scripts import Step, call, results, scripted
from wane.agent.approval.capability import Approvals
from wane.agent.approval.permissions import Approval, ApprovalRequest, Approver, Effect, Permissions, Scope, refuse
from wane.agent.tools.toolset import coding_tools


def use(directory: Path, ask: Approver | None, *steps: Step) -> list[str]:
    sent: list[list[ModelMessage]] = []
    permissions = Permissions(yolo=True) if ask is None else Permissions(ask)
    capabilities = [Approvals(permissions), *coding_tools(directory, 9_000).capabilities]
    agent = Agent(scripted(*steps, "done", sent=sent), capabilities=capabilities)
    asyncio.run(agent.run("go"))
    return results(sent[-1])


def test_print_mode_refuses_with_a_reason_and_nothing_happens(repository: Path) -> None:
    command, write, edit, read = use(
        repository,
        refuse,
        [
            call("shell", command="touch made"),
            call("write_file", path="app.py", content=""),
            call("edit_file", path="app.py", old_text="41", new_text="42"),
            call("read_file", path="app.py"),
        ],
    )
    assert all("--yolo" in text for text in (command, write, edit))
    assert "return 41" in read
    assert not (repository / "made").exists()
    assert "41" in (repository / "app.py").read_text()


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


def test_always_holds_for_the_same_command(repository: Path) -> None:
    asked = Asked(Approval(True, Scope.SESSION), Approval(True))
    texts = use(
        repository,
        asked,
        [call("shell", command="echo 1"), call("shell", command="echo 2"), call("shell", command="echo 3")],
        [call("write_file", path="x", content="")],
    )
    assert texts[:3] == ["1", "2", "3"]
    assert [request.effect for request in asked.requests] == [Effect.COMMAND, Effect.WRITE]


def test_a_change_that_cannot_be_made_is_not_asked_for(repository: Path) -> None:
    asked = Asked()
    (text,) = use(
        repository, asked, [call("edit_file", path="app.py", old_text="nowhere", new_text="x")],
    )  # fmt: skip
    assert "not found" in text
    assert asked.requests == []


def test_yolo_asks_nothing(repository: Path) -> None:
    assert use(repository, None, [call("shell", command="echo free")]) == ["free"]
