"""Few everyday commands are asked about, and none that changes something runs unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.approval.everyday import CHANGING, READING
from tests.agent.conftest import git
from wane.agent.approval.commands import parts_of_line
from wane.agent.approval.grammar import UnreadableError, read_line
from wane.agent.approval.reading import Reading, Surroundings, readings
from wane.agent.repositories import RepositoryGuard, quiet_environment

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
    verdicts = readings(script, Surroundings(project, environ, RepositoryGuard(project, environ).opens))
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
        ("git log -- .env", False),
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


def test_few_everyday_lines_are_asked_about(project: Path) -> None:
    lines = [*READING, *CHANGING]
    assert len(lines) == len(set(lines)) == 135
    asking = [line for line in lines if reading_of(line, project) is Reading.ASKS]
    assert len(asking) <= AT_MOST, asking
    assert set(CHANGING) <= set(asking)
