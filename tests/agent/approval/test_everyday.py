"""Few everyday commands are asked about, and none that changes something runs unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.agent.approval.everyday import CHANGING, READING
from tests.agent.conftest import git
from wane.agent.approval.grammar import UnreadableError, read_line
from wane.agent.approval.readonly import Reading, Surroundings, readings
from wane.agent.approval.splitting import parts_of_line
from wane.agent.repositories import RepositoryGuard, quiet_environment
from wane.agent.search_path import remove_project

AT_MOST = 28
"""Lines of all 135 that may be asked about."""


def make_project(folder: Path) -> Path:
    """Make the project in which the lines are typed."""
    project, outside = folder / "project", folder / "outside"
    for name in ("src", "tests", "docs"):
        (project / name).mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("outside\n")
    (project / "README.md").write_text("foo bar\nmain\n")
    (project / "docs" / "guide.md").write_text("foo\n")
    (project / "app.log").write_text("a:b\nc:d\n")
    (project / "names.txt").write_text("b\na\n")
    (project / "package.json").write_text('{"version": "1.0.0", "scripts": {"test": "true"}}')
    (project / "setup.py").write_text("# setup\n")
    (project / "src" / "app.py").write_text("def main():\n    pass\n")
    (project / "src" / "util.py").write_text("import os\n")
    (project / "link").symlink_to(outside)
    (project / "src" / "link.txt").symlink_to(outside / "secret")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "README.md", "src/app.py", "src/util.py")
    git(project, "-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "-qm", "First")
    return project


def reading_of(line: str, project: Path) -> Reading:
    """Return how sure it is that all of a line only reads."""
    environ = quiet_environment(os.environ)
    try:
        script = read_line(line)
    except UnreadableError:
        return Reading.ASKS
    verdicts = readings(script, Surroundings(project, environ, RepositoryGuard(project, environ).reads))
    return min((verdicts[part] for part in parts_of_line(script)), default=Reading.PLAIN)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("everyday"))


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("cat .env", True),
        ("cat deploy/.env.production", True),
        ("head -3 .e*", True),
        ("cat < .env", True),
        ("cat hidden.txt", True),
        ("sort README.md server.key", True),
        ("grep -f .env README.md", True),
        ("cat .env.example", False),
        ("ls -l .env", False),
        ("test -f .env && echo there", False),
        ("find . -name .env", False),
        ("git log -- .env", True),
        ("git show HEAD:.env", True),
        ("git show stash@{0}^3:deploy/.env.production", True),
        ("git diff .env", True),
        ("git cat-file -p HEAD:server.key", True),
        ("git blame .env", True),
        ("cat .git/config", True),
        ("head -1 .git/HEAD", True),
        ("grep -r url .git", True),
        ("cat < .git/config", True),
        ("cat src/../.git/config", True),
        ("ls .git", False),
        ("git log -1", False),
        ("git show HEAD:.env.example", False),
        ("cat README.md", False),
    ],
)
def test_what_shows_a_secret_is_asked_about(line: str, asks: bool, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project / "deploy").mkdir()
    for name in (".env", "deploy/.env.production", "server.key", ".env.example"):
        (project / name).write_text("TOKEN=1\n")
    (project / "hidden.txt").symlink_to(project / ".env")
    assert (reading_of(line, project) is Reading.ASKS) is asks


@pytest.mark.parametrize(("line", "asks"), [("cat ??", True), ("cat ???", True), ("cat ?", False)])
def test_a_pattern_stands_for_the_names_that_it_matches_in_characters_or_in_bytes(
    line: str, asks: bool, tmp_path: Path
) -> None:
    """Bash compares characters, and dash bytes: `èe` has two of those, and three of these."""
    project = make_project(tmp_path)
    (project / ".env").write_text("TOKEN=1\n")
    (project / "èe").symlink_to(project / ".env")
    assert (reading_of(line, project) is Reading.ASKS) is asks


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("cat pipe", True),
        ("cat p*", True),
        ("cat < pipe", True),
        ("head -1 led", True),
        ("for f in pipe; do cat $f; done", True),
        ("diff -r . src", True),
        ("cat socket", True),
        ("cat README.md", False),
        ("ls", False),
    ],
)
def test_a_pipe_or_a_socket_that_is_named_is_asked_about(line: str, asks: bool, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    os.mkfifo(project / "pipe")
    os.mknod(project / "socket", stat.S_IFSOCK | 0o600)
    (project / "led").symlink_to("pipe")
    for link in ("link", "src/link.txt"):
        (project / link).unlink()
    assert (reading_of(line, project) is Reading.ASKS) is asks


@pytest.mark.parametrize("entry", ["bin", "sub/../bin", "above/bin", ".", "", "node_modules/.bin", "linked"])
@pytest.mark.parametrize("start", ["project", "project/sub", "project/sub/inner"])
def test_a_program_of_the_project_is_none_of_the_table(entry: str, start: str, tmp_path: Path) -> None:
    project = tmp_path / "outer" / "project"
    git(make_empty(tmp_path / "outer"), "init", "-q")
    git(make_empty(project), "init", "-q")
    where = make_empty(tmp_path / "outer" / start)
    folders = {"above/bin": tmp_path / "outer" / "bin", ".": where, "": where, "linked": project / "bin"}
    folder = make_empty(folders.get(entry, project / entry))
    program = folder / "wc"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    (tmp_path / "linked").symlink_to(project / "bin")
    own = {"above/bin": str(folder), ".": ".", "": "", "linked": str(tmp_path / "linked")}.get(
        entry, f"{project}/{entry}"
    )
    environ = quiet_environment({**os.environ, "PATH": f"{own}{os.pathsep}{os.defpath}"})
    around = Surroundings(where, environ, RepositoryGuard(where, environ).reads)
    assert set(readings(read_line("wc -l"), around).values()) == {Reading.ASKS}
    assert remove_project(environ["PATH"], where) == os.defpath
    if start == "project":
        clean = Surroundings(where, quiet_environment(os.environ), around.opens_repository)
        assert Reading.ASKS not in readings(read_line("wc -l"), clean).values()


def make_empty(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_path_of_the_project_alone_is_not_an_empty_one(tmp_path: Path) -> None:
    assert remove_project(f"{tmp_path}:::bin", tmp_path) == os.defpath


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("git status", True),
        ("git status -s .", False),
        ("git diff", True),
        ("git diff HEAD -- app.py", False),
        ("git diff --cached", False),
        ("git log --oneline", False),
        ("git -C . status", True),
    ],
)
def test_below_the_top_git_does_not_compare_the_files_that_it_cannot_see(line: str, asks: bool, project: Path) -> None:
    assert (reading_of(line, project / "src") is Reading.ASKS) is asks
    assert reading_of(line.replace("app.py", "src/app.py"), project) is not Reading.ASKS


@pytest.mark.parametrize(
    ("setting", "value", "asks"),
    [
        ("remote.o.url", "https://me:word@example.org/a.git", True),
        ("remote.o.url", "https://token-of-forty-characters@example.org/a.git", True),
        ("remote.o.url", "https://token-of-forty-characters:@example.org/a.git", True),
        ("remote.o.url", "https://example.org/a.git?private_token=x", True),
        ("remote.o.pushurl", "ftp://me:word@example.org/a.git", True),
        ("remote.o.url", "https://team@example.org/a.git", False),
        ("remote.o.url", "ssh://git@example.org:22/a.git", False),
        ("remote.o.url", "git@example.org:a.git", False),
        ("remote.o.url", "https://example.org/a@b.git", False),
    ],
)
def test_git_asks_where_its_settings_hold_a_password(setting: str, value: str, asks: bool, repository: Path) -> None:
    git(repository, "config", setting, value)
    guard = RepositoryGuard(repository, os.environ)
    assert guard.opens(repository), "it starts no program"
    assert guard.reads(repository) is not asks
    for line in ("git remote -v", "git log -1", "git config --list"):
        assert (reading_of(line, repository) is Reading.ASKS) is asks


def test_few_everyday_lines_are_asked_about(project: Path) -> None:
    lines = [*READING, *CHANGING]
    assert len(lines) == len(set(lines)) == 135
    asking = [line for line in lines if reading_of(line, project) is Reading.ASKS]
    assert len(asking) <= AT_MOST, asking
    assert set(CHANGING) <= set(asking)
