"""Git starts nothing that a repository names which one did not make. Programs leave a mark in a temporary folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.agent.approval.test_permissions import Asked
from tests.agent.conftest import git
from tests.agent.provider import DIRECT, serve
from tests.agent.test_git import status
from tests.agent.work import working
from wane.agent.approval.permission_rules import RememberedRules
from wane.agent.approval.permissions import CANNOT_ASK, Approval, Effect, Permissions
from wane.agent.approval.readonly import Surroundings
from wane.agent.repositories import RepositoryGuard, find_repository, holds_credential, quiet_environment
from wane.agent.search_path import shield_path, users_environment
from wane.agent.secrets import find_hidden
from wane.agent.turn_events import Warned
from wane.cli.chat.questions import question_lines
from wane.testing import Reply


def program(folder: Path, name: str = "program") -> Path:
    """Make a program that leaves a mark beside it."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ntouch '{folder / 'mark'}'\ncat\n")
    path.chmod(0o755)
    return path


def guard(directory: Path) -> RepositoryGuard:
    return RepositoryGuard(directory, os.environ)


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor", "core.sshCommand", "core.worktree", "core.attributesFile", "diff.external", "diff.x.textconv",
        "filter.x.clean", "include.path", "includeIf.gitdir:/.path", "log.showSignature", "gpg.program", "core.pager",
        "remote.origin.promisor", "extensions.partialClone", "format.pretty", "a.b",
        "lfs.extension.foo.clean", "lfs.customtransfer.x.path", "blame.ignoreRevsFile",
    ],
)  # fmt: skip
def test_a_setting_that_may_start_a_program_or_leads_outside_asks(setting: str, repository: Path) -> None:
    assert guard(repository).opens(repository)
    assert guard(repository).question == ""
    git(repository, "config", setting, "x")
    assert not guard(repository).opens(repository)
    assert setting.lower() in guard(repository).question.lower()


@pytest.mark.parametrize(
    "setting",
    ["core.hooksPath", "gc.recentObjectsHook", "init.templateDir", "branch.main.mergeOptions", "gitflow.path.hooks"],
)
def test_a_setting_that_starts_a_program_when_git_writes_asks_too(setting: str, repository: Path) -> None:
    """A rule for `git commit *` runs the hooks of whoever wrote the settings."""
    git(repository, "config", setting, "x")
    assert not guard(repository).opens(repository)


@pytest.mark.parametrize("setting", ["user.name", "branch.main.merge", "gc.auto", "pull.rebase", "color.ui"])
def test_usual_settings_do_not_ask(setting: str, repository: Path) -> None:
    git(repository, "config", setting, "true")
    assert guard(repository).opens(repository)


@pytest.mark.parametrize(
    ("setting", "value", "asks"),
    [
        ("remote.o.url", "./remote.git", True),
        ("remote.o.pushurl", "file://{}/remote.git", True),
        ("remote.o.url", "{}", True),
        ("remote.o.url", "{}/../elsewhere.git", False),
        ("remote.o.url", "../elsewhere.git", False),
        ("remote.o.url", "https://example.org/a.git", False),
        ("remote.o.url", "git@example.org:a.git", False),
        ("branch.main.remote", "remote.git", True),
        ("branch.main.remote", "o", False),
        ("branch.main.remote", ".", False),
        ("remote.pushDefault", "remote.git", True),
    ],
)
def test_a_remote_among_the_projects_files_asks(setting: str, value: str, asks: bool, repository: Path) -> None:
    """Who pushes there runs its hooks."""
    git(repository, "config", "remote.o.url", "https://example.org/o.git")
    git(repository, "config", setting, value.format(repository))
    assert guard(repository).opens(repository) is not asks


@pytest.mark.skipif(os.name == "nt", reason="every file can be executed")
def test_a_hook_is_asked_about_though_reading_starts_none(repository: Path) -> None:
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push.sample").touch(0o755)
    (hooks / "pre-push").touch(0o644)
    at = guard(repository)
    assert (at.question, at.doubts()) == ("", False)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    (hooks / "pre-commit").chmod(0o755)
    assert (at.question, at.doubts()) == ("hooks/pre-commit", True)
    assert at.opens(repository)
    assert not at.is_inert
    at.trusted = at.digest
    assert (at.question, at.doubts()) == ("", False)
    (hooks / "pre-commit").write_text("#!/bin/sh\ntrue\n")
    assert (at.question, at.doubts()) == ("hooks/pre-commit", True)


def test_only_the_sessions_repository_is_opened(repository: Path, tmp_path: Path) -> None:
    (repository / "sub").mkdir()
    assert guard(repository).opens(repository / "sub")
    assert guard(repository / "sub").opens(repository / "sub")
    bare, nested = repository / "bare", repository / "nested"
    git(repository, "init", "-q", "--bare", str(bare))
    git(repository, "init", "-q", str(nested))
    for other in (bare, bare / "refs", nested):
        assert not guard(repository).opens(other)
    assert not guard(bare).opens(bare)
    empty = tmp_path / "empty"
    (empty / ".git").mkdir(parents=True)
    assert not guard(empty).opens(empty), "Git goes on above it"
    assert not RepositoryGuard(repository, {"GIT_DIR": "x"}).opens(repository)


@pytest.mark.parametrize("case", ["link", "objects", "pack", "refs", "commondir", "file", "shared"])
def test_a_repository_whose_files_are_elsewhere_is_not_the_sessions(
    case: str, repository: Path, tmp_path: Path
) -> None:
    assert guard(repository).opens(repository)
    own, elsewhere = repository / ".git", tmp_path / "elsewhere"
    match case:
        case "link":
            own.rename(elsewhere)
            own.symlink_to(elsewhere)
        case "objects" | "refs":
            (own / case).rename(elsewhere)
            (own / case).symlink_to(elsewhere)
        case "pack":
            (own / "objects" / "pack").rename(elsewhere)
            (own / "objects" / "pack").symlink_to(elsewhere)
        case "commondir":
            git(tmp_path, "init", "-q", "elsewhere")
            (own / "commondir").write_text(f"{elsewhere / '.git'}\n")
        case "file":
            own.rename(elsewhere)
            own.write_text(f"gitdir: {elsewhere}\n")
        case _:
            git(tmp_path, "init", "-q", "elsewhere")
            own.rename(repository / "own")
            own.write_text("gitdir: own\n")
            (repository / "own" / "commondir").write_text(f"{elsewhere / '.git'}\n")
    assert not guard(repository).opens(repository)
    with working(serve(DIRECT), repository, [Reply("done")], keep=False, yolo=False) as at:
        at.run("go")
        assert not any("<git-status>" in part.text for part in at.requests[0].parts)


def test_the_process_has_no_folder_of_the_project_on_path_and_commands_have_the_users(repository: Path) -> None:
    own = os.pathsep.join((str(repository / "bin"), "bin", "/usr/bin", ""))
    environ = {"PATH": own, "A": "1"}
    for _ in range(2):
        shield_path(environ, repository)
        assert environ["PATH"] == "/usr/bin"
        assert users_environment(environ) == {"PATH": own, "A": "1"}
    inner = {**environ, "PATH": "/opt/bin"}
    assert users_environment(inner)["PATH"] == "/opt/bin", "set since, for a Wane within Wane"
    untouched = {"PATH": "/usr/bin"}
    shield_path(untouched, repository)
    assert untouched == users_environment(untouched) == {"PATH": "/usr/bin"}


def test_in_the_home_the_folders_below_it_stay_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"PATH": os.pathsep.join(("bin", str(tmp_path / ".local" / "bin"), "/usr/bin"))}
    shield_path(environ, tmp_path)
    assert environ["PATH"] == os.pathsep.join((str(tmp_path / ".local" / "bin"), "/usr/bin"))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("[http]\n\textraheader = x\n", True),
        ('[url "https://me:word@example.org/"]\n\tinsteadOf = x\n', True),
        ("[safe]\n\tdirectory = *\n", False),
        (None, False),
    ],
)
def test_settings_with_a_token_are_known(text: str | None, holds: bool, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "gitconfig").write_text(text)
    assert holds_credential(tmp_path / "gitconfig") is holds


def test_submodules_are_not_entered(repository: Path) -> None:
    nested = repository / "nested"
    git(repository, "init", "-q", str(nested))
    git(nested, "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a", "--allow-empty")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "nested")
    assert not guard(repository).opens(repository)
    assert guard(repository).opens(repository, enters_submodules=False)


@pytest.mark.skipif(os.name == "nt", reason="needs programs of POSIX")
def test_git_that_is_asked_to_read_writes_nothing_and_runs_no_hook(repository: Path, tmp_path: Path) -> None:
    hook = program(tmp_path)
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    hook.rename(repository / ".git" / "hooks" / "post-index-change")
    for command in ("status", "diff", "log -1", "describe --always"):
        os.utime(repository / "app.py", (1, 1))
        arguments = ("git", *command.split())
        subprocess.run(arguments, cwd=repository, env=quiet_environment(os.environ), capture_output=True, check=True)
    assert not (tmp_path / "mark").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs programs of POSIX")
def test_the_status_at_the_start_starts_no_monitor_and_enters_no_submodule(repository: Path, tmp_path: Path) -> None:
    monitor, nested = str(program(tmp_path)), repository / "nested"
    git(repository, "config", "core.fsmonitor", monitor)
    git(repository, "init", "-q", str(nested))
    git(nested, "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a", "--allow-empty")
    git(nested, "config", "core.fsmonitor", monitor)
    git(repository, "-c", "core.fsmonitor=false", "-c", "advice.addEmbeddedRepo=false", "add", "nested")
    (tmp_path / "mark").unlink(missing_ok=True)
    assert "branch: main" in (status(repository) or "")
    assert not (tmp_path / "mark").exists()


def test_no_status_is_shown_where_a_filter_might_run_and_a_warning_says_so(repository: Path) -> None:
    git(repository, "config", "filter.x.clean", "x")
    with working(serve(DIRECT), repository, [Reply("done")], keep=False, yolo=False) as at:
        at.run("go")
        assert not any("<git-status>" in part.text for part in at.requests[0].parts)
    (warned,) = at.of(Warned)
    assert "filter.x.clean = x" in warned.text


@pytest.mark.parametrize("trusted", [True, False])
def test_one_question_about_a_repository_is_remembered(repository: Path, tmp_path: Path, trusted: bool) -> None:
    git(repository, "config", "filter.x.clean", "x")
    file, asked = tmp_path / "approvals.json", Asked(Approval(trusted))

    def session(asks: Asked) -> bool:
        permissions = Permissions(asks, remembered=RememberedRules(file, repository), repository=guard(repository))
        asyncio.run(permissions.ask_about_repository())
        asyncio.run(permissions.ask_about_repository())
        assert permissions.repository is not None
        return permissions.repository.opens(repository)

    assert session(asked) is trusted
    assert [request.effect for request in asked.requests] == [Effect.REPOSITORY]
    assert asked.requests[0].detail == "filter.x.clean = x"
    assert session(Asked()) is trusted, "the answer is remembered"
    git(repository, "config", "filter.x.clean", "y")
    changed = Asked(Approval(False, reason=CANNOT_ASK))
    assert session(changed) is False, "other settings are another question"
    assert len(changed.requests) == 1
    assert session(Asked(Approval(True))), "what could not be asked is not remembered"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_a_repositorys_files_keeps_nobody_waiting(repository: Path) -> None:
    (repository / ".env").write_text("x")
    for name in ("commondir", "config", "index"):
        (repository / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repository / ".git" / name)
    found = find_repository(repository)
    assert found is not None
    assert found.common == found.directory
    assert list(find_hidden(str(repository), found)) == [str(repository / ".env")]
    assert not guard(repository).opens(repository)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("remote.o.url", "https://me:word@example.org/a.git", "because .git/config holds a password or a token"),
        ("core.fsmonitor", "./run.sh", "because of a repository"),
        ("user.name", "me", ""),
    ],
)
def test_the_question_says_why_git_asks(setting: str, value: str, reason: str, repository: Path) -> None:
    git(repository, "config", setting, value)
    asked = Asked(*[Approval(False)] * 2)
    around = Surroundings(repository, os.environ, guard(repository).reads)
    permissions = Permissions(asked, surroundings=around, repository=guard(repository), sandboxed=True)
    assert asyncio.run(permissions.command("git log -1")) == (None if not reason else "the user refused it")
    asyncio.run(permissions.command("rm x"))
    *about_git, about_rm = asked.requests
    assert [reason in request.detail for request in about_git] == ([True] if reason else [])
    assert [any(reason in line.plain for line in question_lines(request)) for request in about_git] == [True] * bool(
        reason
    )
    assert not about_rm.detail
