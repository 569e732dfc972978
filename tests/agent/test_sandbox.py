"""The wall of the kernel: whatever a command line says, what nobody allowed leaves no trace and learns nothing.

Each line is first run without the wall, where it does what it says; so a wall that holds nothing fails here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import config
from tests.agent.provider import Serve
from tests.agent.work import call, shell, use, working
from wane.agent.approval.capability import Approvals
from wane.agent.approval.permissions import Clearance, Permissions
from wane.agent.opening import prepare
from wane.agent.repositories import RepositoryGuard
from wane.agent.sandbox import wall
from wane.agent.sandbox.filters import MACHINES, build_filter
from wane.agent.sandbox.wall import (
    OUTPUT,
    PROCESSES,
    Confinement,
    Sandbox,
    find_sandbox,
    specify_command,
    supervisor_argv,
)
from wane.agent.tools import shell_tool
from wane.core.errors import ConfigError
from wane.testing import Reply

KEY = "sk-mark-of-a-key"
PYTHON = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "keep").write_text("kept\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("mark-of-a-secret\n")
    return work


@pytest.fixture(params=["bubblewrap", "bubblewrap without /proc", "bubblewrap without Landlock", "Landlock"])
def sandbox(request: pytest.FixtureRequest, directory: Path) -> Sandbox:
    """Each sandbox that this machine has."""
    none = Sandbox(Confinement.NONE, Path(os.path.realpath(directory)))
    for candidate in wall._candidates(none, os.environ):
        name = candidate.kind.value if candidate.has_proc else f"{candidate.kind} without /proc"
        name = name if candidate.version else f"{name} without Landlock"
        if name != request.param:
            continue
        if reason := wall.probe(candidate):
            pytest.skip(f"{name} does not hold on this machine: {reason}")
        return candidate
    pytest.skip(f"this machine has no {request.param}")


class AllowsAll(Permissions):
    """A judge that is fooled by every line."""

    async def clear_command(self, line: str) -> Clearance:
        return Clearance(confined=True)


def run_confined(sandbox: Sandbox, line: str, is_inert: RepositoryGuard | None = None) -> str:
    steps = [call("shell", command=line)]
    before = [Approvals(AllowsAll())]
    inert = bool if is_inert is None else lambda: is_inert.is_inert
    (result,) = use(sandbox.directory, steps, before=before, sandbox=sandbox, is_inert=inert)
    return result


def run_freely(directory: Path, line: str) -> str:
    (result,) = use(directory, [call("shell", command=line)])
    return result


TRACES: dict[str, tuple[str, Callable[[Path], bool]]] = {
    "writes below": ("echo x > made", lambda work: (work / "made").exists()),
    "writes outside": ("echo x > ../outside/made", lambda work: (work / "../outside/made").exists()),
    "appends": ("echo x >> keep", lambda work: (work / "keep").read_text() != "kept\n"),
    "removes": ("rm -f keep", lambda work: not (work / "keep").exists()),
    "renames": ("mv keep gone", lambda work: not (work / "keep").exists()),
    "truncates": ("truncate -s 0 keep", lambda work: (work / "keep").read_text() != "kept\n"),
    "makes a folder": ("mkdir made", lambda work: (work / "made").exists()),
    "links": ("ln keep made", lambda work: (work / "made").exists()),
    "links by name": ("ln -s keep made", lambda work: (work / "made").is_symlink()),
    "makes a fifo": ("mkfifo made", lambda work: (work / "made").exists()),
    "changes a mode": ("chmod 700 keep", lambda work: stat.S_IMODE((work / "keep").stat().st_mode) == 0o700),
    "changes a time": ("touch -d 2001-01-01 keep", lambda work: (work / "keep").stat().st_mtime < 10**9),
    "changes a time outside": (
        "touch -d 2001-01-01 ../outside/secret",
        lambda work: (work / "../outside/secret").stat().st_mtime < 10**9,
    ),
    "starts a process that stays": (
        "(sleep 0.3; echo x > made) & sleep 0.6",
        lambda work: (work / "made").exists(),
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_nothing_is_written(name: str, sandbox: Sandbox, directory: Path, tmp_path: Path) -> None:
    line, trace = TRACES[name]
    run_confined(sandbox, line)
    assert not trace(directory)
    run_freely(directory, line)
    assert trace(directory), "without the sandbox the line does it"


@pytest.mark.parametrize("line", ["cat ../outside/secret", "cat keep ../out*/sec*", "cd ../outside && grep -r mark ."])
def test_nothing_outside_is_read(line: str, sandbox: Sandbox, directory: Path) -> None:
    assert "mark-of-a-secret" not in run_confined(sandbox, line)
    assert "mark-of-a-secret" in run_freely(directory, line)


@pytest.mark.parametrize("path", ["/etc/os-release", "/etc/localtime", "/etc/passwd"])
def test_what_the_system_says_of_itself_is_there_over_links_too(path: str, sandbox: Sandbox, directory: Path) -> None:
    """Without `/etc/localtime`, which is a link, `date` would say another time."""
    if not os.path.isfile(path):
        pytest.skip(f"this machine has no {path}")
    line = f"cksum < {path}"
    assert run_confined(sandbox, line) == run_freely(directory, line)
    assert "made" not in run_confined(sandbox, f"echo x > {path} && echo made")


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/stdout", "/dev/null", "/proc/self/fd/0"])
def test_what_comes_from_outside_keeps_its_mode_owner_and_times(path: str, sandbox: Sandbox, directory: Path) -> None:
    """Also as root, whose namespace maps it to the owner of the devices."""
    commands = (f"chmod 666 {path}", f"chown $(id -u) {path}", f"touch -d 2001-02-03 {path}")
    told = run_confined(sandbox, "; ".join(f"{command} 2>/dev/null && echo changed" for command in commands))
    assert "changed" not in told


@pytest.mark.parametrize(
    "line", ["git config --list", "git config --get-regexp .", "git config http.https://example.org/.extraheader"]
)
def test_settings_of_git_in_variables_are_not_shown(
    line: str, sandbox: Sandbox, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    settings = {"COUNT": "1", "KEY_0": "http.https://example.org/.extraheader", "VALUE_0": "mark-of-a-token"}
    for name, value in settings.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert "mark-of-a-token" not in run_confined(sandbox, line)
    assert "mark-of-a-token" in run_freely(directory, line)
    assert "diff.autorefreshindex=false" in run_confined(sandbox, "git config --list")


def test_what_is_below_is_read(sandbox: Sandbox, directory: Path) -> None:
    assert run_confined(sandbox, "cat keep | wc -l && ls; exit 3") == "1\nkeep\n[exit code: 3]"
    assert run_confined(sandbox, "echo temporary > $TMPDIR/x && cat $TMPDIR/x") == "temporary"


def test_a_link_leads_nowhere(sandbox: Sandbox, directory: Path) -> None:
    (directory / "link").symlink_to(directory.parent / "outside" / "secret")
    assert "mark-of-a-secret" not in run_confined(sandbox, "cat link")


def make_program(path: Path, text: str = "#!/bin/sh\necho started\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "line",
    [
        "./program",
        "sh -c ./program",
        "exec ./program",
        "env ./program",
        "find . -name program -exec {} \\;",
        "cp program $TMPDIR/copied; $TMPDIR/copied",
        "ln -s $PWD/program $TMPDIR/link; $TMPDIR/link",
        "cp /bin/true $TMPDIR/copied; $TMPDIR/copied && echo started",
    ],
)
def test_no_program_of_the_directory_is_started(line: str, sandbox: Sandbox, directory: Path) -> None:
    if not sandbox.keeps_programs:
        pytest.skip("Landlock takes no part")
    make_program(directory / "program")
    assert "started" not in run_confined(sandbox, line).splitlines()
    assert "started" in run_freely(directory, f"TMPDIR={directory.parent}; {line}").splitlines()


def test_without_landlock_the_agent_says_what_bubblewrap_does_not_keep(sandbox: Sandbox, directory: Path) -> None:
    make_program(directory / "program")
    assert (run_confined(sandbox, "./program") == "started") is not sandbox.keeps_programs
    assert ("does not keep them from starting programs" in sandbox.describe()) is not sandbox.keeps_programs


def test_a_directory_below_the_systems_folders_has_no_programs_either(sandbox: Sandbox, directory: Path) -> None:
    # As a project in /usr/src has it: the folder of programs is above the directory.
    if not sandbox.keeps_programs:
        pytest.skip("Landlock takes no part")
    make_program(directory / "sub" / "program")
    make_program(directory / "bin" / "tool", "#!/bin/sh\necho tool\n")
    below = replace(sandbox, directory=sandbox.directory / "sub")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wall, "_SYSTEM", (*wall._SYSTEM, str(sandbox.directory)))
        assert "started" not in run_confined(below, "./program").splitlines()
        assert run_confined(below, str(directory / "bin" / "tool")) == "tool"


SETTINGS = {
    "a monitor": ("core.fsmonitor", "touch $TRACE; :", "git status"),
    "a filter": ("filter.f.clean", "touch $TRACE; cat", "git status"),
    "a program for differences": ("diff.external", "touch $TRACE; :", "git diff"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_repository_start_nothing(name: str, sandbox: Sandbox, directory: Path) -> None:
    setting, value, line = SETTINGS[name]
    trace = directory.parent / "trace"
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "keep"], [*identity, "commit", "-qm", "First"]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    (directory / ".git" / "info").mkdir(exist_ok=True)
    (directory / ".git" / "info" / "attributes").write_text("keep filter=f\n")
    (directory / "keep").write_text("kopt\n")  # of the same size, so that Git has to look at it
    subprocess.run(["git", "config", setting, value.replace("$TRACE", str(trace))], cwd=directory, check=True)
    told = value.replace("touch $TRACE", "echo started-by-settings >&2")
    run_freely(directory, line)
    assert trace.exists(), "without the sandbox Git starts it"
    subprocess.run(["git", "config", setting, told], cwd=directory, check=True)
    assert "started-by-settings" in run_freely(directory, line)
    if sandbox.kind is Confinement.LANDLOCK:
        pytest.skip("Landlock hides no settings")
    assert "started-by-settings" not in run_confined(sandbox, line, is_inert=RepositoryGuard(directory, os.environ))


def secret_files(directory: Path) -> list[Path]:
    files = [directory / name for name in (".env", "deploy/.env.production", "keys/server.key", "secrets.yaml")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mark-of-a-secret\n")
    return files


def test_secrets_below_are_hidden(sandbox: Sandbox, directory: Path) -> None:
    secret_files(directory)
    (directory / ".env.example").write_text("mark-of-an-example\n")
    line = "cat .env deploy/.e* */*.key secrets.yaml; grep -r mark-of . ; ls -A"
    told = run_confined(sandbox, line)
    assert ("mark-of-a-secret" in told) is (sandbox.kind is Confinement.LANDLOCK)
    assert "mark-of-an-example" in told
    assert ".env\n" in told, "its name is shown"
    assert ("Permission denied" in told) is (sandbox.kind is not Confinement.LANDLOCK)


@pytest.mark.parametrize("name", ["sub/.git/config", "sub/.git/config.bak", "sub/.git/credentials", "b.git/config"])
def test_passwords_of_other_repositories_are_hidden(name: str, sandbox: Sandbox, directory: Path) -> None:
    if sandbox.kind is Confinement.LANDLOCK:
        pytest.skip("Landlock hides no file below the directory")
    (directory / "b.git" / "objects").mkdir(parents=True)
    (directory / "b.git" / "HEAD").touch()
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("url = https://me:mark-of-a-secret@example.org/a.git\n")
    assert "mark-of-a-secret" not in run_confined(sandbox, "grep -rh url .")
    assert "mark-of-a-secret" in run_freely(directory, "grep -rh url .")


def test_what_git_tracks_is_not_hidden(sandbox: Sandbox, directory: Path) -> None:
    for command in (["init", "-q"], ["add", "-f", *map(str, secret_files(directory)[2:])]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    (directory / "server.key").write_text("mark-of-another\n")
    assert "mark-of-a-secret" in run_confined(sandbox, "cat keys/server.key")
    assert " M " not in run_confined(sandbox, "git status --short; git diff")
    if sandbox.kind is not Confinement.LANDLOCK:
        assert "mark-of-another" not in run_confined(sandbox, "cat server.key")


def test_programs_of_version_managers_are_started(sandbox: Sandbox, directory: Path, tmp_path: Path) -> None:
    root = tmp_path / "manager"
    make_program(root / "shims" / "tool", f'#!/bin/sh\nexec "{root}/libexec/start" "$@"\n')
    make_program(root / "libexec" / "start", f'#!/bin/sh\nexec "{root}/versions/1/bin/tool" "$@"\n')
    make_program(root / "versions" / "1" / "bin" / "tool", "#!/bin/sh\necho version 1\n")
    library = tmp_path / "own" / "lib" / "text"
    library.parent.mkdir(parents=True)
    library.write_text("loaded\n")
    make_program(tmp_path / "own" / "bin" / "loading", f"#!/bin/sh\ncat {library}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([f"{root}/shims", f"{tmp_path}/own/bin", os.environ["PATH"]]))
        assert run_confined(sandbox, "tool --version; loading") == "version 1\nloaded"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def is_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash, which opens connections")
def test_the_network_is_out_of_reach(sandbox: Sandbox, directory: Path, listener: socket.socket) -> None:
    line = f"bash -c 'echo x > /dev/tcp/127.0.0.1/{listener.getsockname()[1]}'"
    run_confined(sandbox, line)
    assert not is_reached(listener)
    run_freely(directory, line)
    assert is_reached(listener)


@pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"no {PYTHON}, which connects to sockets")
def test_a_socket_in_the_directory_is_out_of_reach(sandbox: Sandbox, directory: Path) -> None:
    line = f"{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"socket\")'"
    with contextlib.chdir(directory), socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        server.listen()
        server.settimeout(0.2)
        run_confined(sandbox, line)
        assert not is_reached(server)
        run_freely(directory, line)
        assert is_reached(server)


@pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"no {PYTHON}, which sends to sockets")
def test_no_pair_of_sockets_sends_to_another(sandbox: Sandbox, directory: Path) -> None:
    program = 'import socket; socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"x", "socket")'
    line = f"{PYTHON} -c '{program}'"
    with contextlib.chdir(directory), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("socket")
        server.settimeout(0.2)
        run_confined(sandbox, line)
        with pytest.raises(TimeoutError):
            server.recv(1)
        run_freely(directory, line)
        assert server.recv(1) == b"x"


def test_a_pair_of_streams_is_allowed(sandbox: Sandbox) -> None:
    if not os.path.exists(PYTHON):
        pytest.skip(f"no {PYTHON}")
    assert run_confined(sandbox, f"{PYTHON} -c 'import socket; socket.socketpair(); print(1)'") == "1"


def test_the_kernels_settings_cannot_be_opened_to_write(sandbox: Sandbox) -> None:
    # Opened and closed, not written: outside of the sandbox root may do that.
    line = "(exec 3>> /proc/sys/vm/swappiness) 2>/dev/null && echo open || echo closed"
    assert run_confined(sandbox, line) == "closed"


def test_all_temporary_folders_together_are_limited(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    # A small limit, since the folders are in memory.
    monkeypatch.setattr(wall, "_TEMPORARY", 8 * 1024**2)
    line = "for folder in /dev /dev/shm; do head -c 20000000 /dev/zero > $folder/made; done 2>/dev/null; du -cm /dev"
    told = run_confined(sandbox, line)
    size = [int(row.split()[0]) for row in told.splitlines() if row.endswith("total")]
    assert not size or size[0] <= 9, told


def test_other_processes_are_out_of_reach(sandbox: Sandbox, directory: Path) -> None:
    with subprocess.Popen(["sleep", "60"], env={"MARK": KEY, "PATH": os.environ["PATH"]}) as other:
        try:
            assert KEY not in run_confined(sandbox, f"cat /proc/{other.pid}/environ; cat /proc/*/environ")
            assert KEY in run_freely(directory, f"cat /proc/{other.pid}/environ")
            run_confined(sandbox, f"kill -9 {other.pid}")
            assert other.poll() is None
        finally:
            other.kill()


def test_descriptors_are_not_inherited(sandbox: Sandbox, directory: Path) -> None:
    with (directory.parent / "outside" / "secret").open() as secret:
        os.set_inheritable(secret.fileno(), True)
        assert "mark-of-a-secret" not in run_confined(sandbox, f"cat <&{secret.fileno()}")


def test_output_is_limited(sandbox: Sandbox) -> None:
    result = run_confined(sandbox, "yes")
    size = int(result.rpartition("all ")[2].partition(" bytes")[0].replace(",", ""))
    assert size <= OUTPUT


def test_time_is_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    spec = {**sandbox.specification("sleep 60", os.environ, str(tmp_path)), "seconds": 0.3, "tied": False}
    assert supervise(spec).returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("setting", ["-c", "-n", "-t", "-f", "-d"])
def test_limits_are_set(setting: str, sandbox: Sandbox) -> None:
    assert run_confined(sandbox, f"ulimit {setting}").isdigit()


def test_processes_are_limited_whichever_shell_runs_the_line(sandbox: Sandbox) -> None:
    # bash calls the limit `-u`, dash `-p`, which is another one in bash.
    (limit,) = run_confined(sandbox, "ulimit -u 2>/dev/null || ulimit -p").splitlines()
    assert limit.isdigit()
    assert int(limit) == PROCESSES or sandbox.kind is Confinement.LANDLOCK


def test_git_reads_without_the_users_settings(sandbox: Sandbox, directory: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(directory)], check=True)
    index = sorted(os.listdir(directory / ".git"))
    assert "?? keep" in run_confined(sandbox, "git status --short")
    assert sorted(os.listdir(directory / ".git")) == index
    (directory / "below").mkdir()
    below = replace(sandbox, directory=sandbox.directory / "below")
    (below.directory / "mine").touch()
    assert "?? ./" in run_confined(below, "git status --short .")


def test_above_the_directory_only_what_git_keeps_is_read(sandbox: Sandbox, directory: Path) -> None:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    (directory / "keep").write_text("mark-of-another-folder\n")
    (directory / ".gitignore").write_text("*.ignored\n")
    for command in (["init", "-q"], ["add", ".gitignore"], [*identity, "commit", "-qm", "First"]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    below = replace(sandbox, directory=sandbox.directory / "below")
    below.directory.mkdir()
    (below.directory / "a.ignored").touch()
    lines = (
        "cat ../keep",
        "git grep --untracked mark -- :/",
        "git grep --no-index mark ..",
        "git diff --no-index /dev/null ../keep",
    )
    for line in lines:
        assert "mark-of-another-folder" not in run_confined(below, line)
        assert "mark-of-another-folder" in run_freely(below.directory, line)
    assert "First" in run_confined(below, "git log --oneline")
    assert "ignored" not in run_confined(below, "git status --short .")


PASSWORD = "https://me:mark-of-a-password@example.org/a.git"


def test_passwords_that_git_keeps_are_hidden(sandbox: Sandbox, directory: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    subprocess.run(["git", "config", "remote.origin.url", PASSWORD], cwd=directory, check=True)
    (directory / ".git" / "credentials").write_text(f"{PASSWORD}\n")
    module = directory / ".git" / "modules" / "a" / "modules" / "b"
    for folder in (module, module.parent.parent):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "HEAD").touch()
        (folder / "config").write_text(f"[remote]\nurl = {PASSWORD}\n")
    line = "cat .git/config; grep -r mark .git; git remote -v"
    assert "mark-of-a-password" in run_freely(directory, line)
    assert ("mark-of-a-password" in run_confined(sandbox, line)) is (sandbox.kind is Confinement.LANDLOCK)


def test_a_pipe_in_the_directory_is_not_emptied(sandbox: Sandbox, directory: Path) -> None:
    if sandbox.kind is Confinement.LANDLOCK:
        pytest.skip("Landlock cannot forbid a file below a directory that it allows")
    (directory / "sub").mkdir()
    os.mkfifo(directory / "sub" / "pipe")
    writer = os.open(directory / "sub" / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(writer, b"mark-of-a-pipe\n")
        assert "Permission denied" in run_confined(sandbox, "head -1 sub/pipe; echo x > sub/pipe")
        assert run_freely(directory, "head -1 sub/pipe") == "mark-of-a-pipe"
    finally:
        os.close(writer)


@pytest.mark.parametrize("start", ["work", "work/below"])
def test_no_program_of_the_project_is_on_the_path(start: str, sandbox: Sandbox, directory: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    make_program(directory / "bin" / "wc")
    (directory / "below").mkdir()
    below = replace(sandbox, directory=Path(os.path.realpath(directory.parent / start)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}")
        assert run_freely(directory, "wc -l < /dev/null") == "started"
        assert run_confined(below, "wc -l < /dev/null") == "0"
        if start == "work/below" and sandbox.keeps_programs:
            assert "started" not in run_confined(below, "../bin/wc; /bin/sh ../bin/wc")


def test_a_worktree_has_its_repository(sandbox: Sandbox, directory: Path) -> None:
    main = directory.parent / "main"
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(main)], check=True)
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "First"], cwd=main, check=True)
    tree = Path(os.path.realpath(directory.parent / "tree"))
    subprocess.run(["git", "worktree", "add", "-q", str(tree)], cwd=main, check=True)
    assert "First" in run_confined(replace(sandbox, directory=tree), "git log --oneline")


def test_a_file_cannot_name_the_folder_that_is_read(sandbox: Sandbox, directory: Path) -> None:
    (directory / ".git").write_text("gitdir: ../outside\n")
    assert "mark-of-a-secret" not in run_confined(sandbox, "cat ../outside/secret")


def test_a_submodules_directory_cannot_name_another_one(sandbox: Sandbox, directory: Path) -> None:
    module = directory.parent / "parent" / ".git" / "modules" / "work"
    module.mkdir(parents=True)
    for name in ("HEAD", "objects", "refs"):
        (module / name).touch()
    (module / "config").write_text(f"[core]\n\tworktree = {os.path.realpath(directory)}\n")
    (directory / ".git").write_text(f"gitdir: {module}\n")
    assert "worktree" in run_confined(sandbox, f"cat {os.path.realpath(module)}/config")
    (module / "commondir").write_text(f"{directory.parent / 'outside'}\n")
    assert "mark-of-a-secret" not in run_confined(sandbox, "cat ../outside/secret")


def test_no_key_is_left_anywhere(
    serve_model: Serve, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not find_sandbox(project, os.environ).in_force:
        pytest.skip("no sandbox holds on this machine")
    for name in ("OPENAI_API_KEY", "MY_OWN_TOKEN", "DATABASE_PASSWORD"):
        monkeypatch.setenv(name, KEY)
    lines = ("env", "export -p", "cat /proc/self/environ", "cat /proc/*/environ", f"cat /proc/{os.getppid()}/environ")
    results = use(
        project,
        [call("shell", command=line) for line in lines],
        before=[Approvals(AllowsAll())],
        sandbox=find_sandbox(project, os.environ),
    )
    assert "GIT_OPTIONAL_LOCKS=0" in results[0]
    assert not [result for result in results if KEY in result]
    with working(serve_model, project, [shell("env", "cat app.py"), Reply("done")], yolo=False) as at:
        at.run("go")
        assert KEY not in str([request.body for request in at.requests])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


HIDING = """
import ctypes, os, sys
from wane.cli.chat.starting import hide_environment
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process has it that did not change its user
if sys.argv[1] == "hide":
    hide_environment()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("hides", [True, False])
def test_an_allowed_command_cannot_read_the_environment_of_the_chat(hides: bool) -> None:
    command = [sys.executable, "-c", HIDING, "hide" if hides else "show"]
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OPENAI_API_KEY": KEY}
    ) as chat:
        assert chat.stdout is not None
        assert chat.stdout.readline() == b"ready\n"
        reader = ["cat", f"/proc/{chat.pid}/environ"]
        done = subprocess.run(reader, capture_output=True, check=False, timeout=60, cwd="/", **nobody)
        chat.kill()
    assert (KEY.encode() in done.stdout) is not hides


def test_what_was_allowed_writes_below_alone(sandbox: Sandbox, directory: Path) -> None:
    if sandbox.kind is Confinement.LANDLOCK:
        pytest.skip("Landlock confines what reads alone")
    holding = replace(sandbox, holds_allowed=True)
    line = "echo x > made; echo x > ../outside/made; cat ../outside/secret"
    (result,) = use(
        directory, [call("shell", command=line)], before=[Approvals(Permissions(yolo=True))], sandbox=holding
    )
    assert (directory / "made").exists()
    assert not (directory / "../outside/made").exists()
    assert "mark-of-a-secret" not in result


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash, which opens connections")
def test_what_was_allowed_has_the_network_as_chosen(
    network: bool, sandbox: Sandbox, directory: Path, listener: socket.socket
) -> None:
    if sandbox.kind is Confinement.LANDLOCK:
        pytest.skip("Landlock confines what reads alone")
    holding = replace(sandbox, holds_allowed=True, network=network)
    line = f"bash -c 'echo x > /dev/tcp/127.0.0.1/{listener.getsockname()[1]}'"
    use(directory, [call("shell", command=line)], before=[Approvals(Permissions(yolo=True))], sandbox=holding)
    assert is_reached(listener) is network


def test_all_is_refused_where_nothing_holds_it(project: Path) -> None:
    with pytest.raises(ConfigError, match="nothing can hold what you allow"):
        prepare(config(Path.home(), "test", keep=False, sandbox="all"))


def test_without_a_sandbox_a_session_says_so_and_confines_nothing(project: Path, tmp_path: Path) -> None:
    for mode, reason in (("off", 'the setting sandbox is "off"'),):
        sandbox = find_sandbox(project, os.environ, mode)
        assert not sandbox.in_force
        assert reason in sandbox.describe()
    assert "holds your home directory" in find_sandbox(Path("/"), os.environ).describe()
    assert "holds your home directory" in find_sandbox(Path.home(), os.environ).describe()


KILLED = """
import sys
from pathlib import Path
from tests.agent.work import call, use
line = "echo $$ > pid; sh -c 'echo $$ > below; exec sleep 300' | cat; sleep 300"
use(Path(sys.argv[1]), [call("shell", command=line)])
"""


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def supervise(spec: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(supervisor_argv(spec), check=False, capture_output=True, text=True, timeout=60)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_ends_with_an_agent_that_is_killed(directory: Path) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", KILLED, str(directory)], cwd=root) as agent:
        try:
            files = [directory / "pid", directory / "below"]
            wait_for(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
            pids = [int(file.read_text()) for file in files]
            assert all(map(is_running, pids))
        finally:
            agent.kill()
    wait_for(lambda: not any(map(is_running, pids)))


def test_the_supervisor_passes_on_an_interruption_however_early_it_comes() -> None:
    line = "trap 'echo passed on; exit 7' INT; kill -INT $PPID; for n in $(seq 200); do sleep 0.05; done"
    spec = {**specify_command(["/bin/sh", "-c", line]), "tied": False}
    for _ in range(8):
        done = supervise(spec)
        assert (done.returncode, done.stdout, done.stderr) == (7, "passed on\n", "")


def test_a_command_is_ended_though_another_process_holds_its_pipe() -> None:
    spec = {**specify_command(["/bin/sleep", "300"]), "tied": True}
    with subprocess.Popen(supervisor_argv(spec), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        held = os.dup(process.stdin.fileno())
        begun = time.monotonic()
        shell_tool._stop(process)
        os.close(held)
    assert time.monotonic() - begun < shell_tool._ENDS, "it was not told to end"


def test_the_supervisor_returns_the_exit_code() -> None:
    spec = {**specify_command(["/bin/sh", "-c", "exit 7"]), "tied": False}
    assert supervise(spec).returncode == 7


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("landlock", [None, 4, 7])
def test_a_filter_is_a_row_of_steps(machine: str, landlock: int | None) -> None:
    program = build_filter(machine, landlock=landlock)
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096, "the kernel takes no more"


def test_the_profile_of_macos_allows_what_is_named_alone(tmp_path: Path) -> None:
    work = Path(os.path.realpath(tmp_path)) / 'with "quotes" and \\'
    work.mkdir()
    sandbox = Sandbox(Confinement.SEATBELT, work, program="/usr/bin/sandbox-exec")
    spec = sandbox.specification("ls", {"PATH": "/usr/bin"}, str(tmp_path))
    program, flag, profile, *command = spec["argv"]
    assert (program, flag, command) == ("/usr/bin/sandbox-exec", "-p", ["/bin/sh", "-c", "ls"])
    rules = profile.splitlines()
    assert rules[:2] == ["(version 1)", "(deny default)"]
    assert all(rule.startswith("(") and rule.endswith(")") for rule in rules)
    written = [rule for rule in rules if "file-write" in rule]
    assert [rule for rule in written if "/dev/" not in rule] == [
        f'(allow file-write* (subpath "{os.path.realpath(tmp_path)}"))'
    ]
    quoted = str(work).replace("\\", "\\\\").replace('"', '\\"')
    assert f'(allow file-read* (subpath "{quoted}"))' in rules
    assert "network" not in profile
    asked = [rule for rule in rules if "sysctl" in rule]
    assert all("(sysctl-name" in rule for rule in asked)
    assert not any("kern.proc" in rule or '"kern."' in rule for rule in asked), "what tells of other processes"
    allowed = replace(sandbox, holds_allowed=True).specification("ls", {"PATH": ""}, str(tmp_path), allowed=True)
    assert f'(allow file-write* (subpath "{quoted}"))' in allowed["argv"][2].splitlines()
    assert "(allow network*)" in allowed["argv"][2]
