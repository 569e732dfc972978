from __future__ import annotations

from pathlib import Path

from tests.agent.approval.test_permissions import Asked
from tests.agent.work import call, use
from wane.agent.approval.capability import Approvals
from wane.agent.approval.permissions import Approval, ApprovalRequest, Effect, Permissions


def test_the_user_sees_the_command_and_the_diff(repository: Path) -> None:
    asked = Asked(Approval(True), Approval(False, reason="use 43"), Approval(False))
    ran, edited, made = use(
        repository,
        [call("shell", command="echo hi")],
        [call("edit_file", path="app.py", old_text="41", new_text="42")],
        [call("create_directory", path="new")],
        before=[Approvals(Permissions(asked))],
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
        [call("edit_file", path="app.py", old_text="nowhere", new_text="x")],
        [call("read_file", path="app.py")],
        before=[Approvals(Permissions(asked))],
    )
    assert "not found" in missing
    assert "return 41" in read
    assert asked.requests == []
