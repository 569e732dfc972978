"""What a `.dockerignore` leaves out, by the examples of Docker's documentation and its rules for patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

from wane_research.evaluation.sandbox.dockerignore import is_ignored, read_patterns, show_context


@pytest.mark.parametrize(
    ("text", "ignored", "left"),
    [
        ("*/temp*", ["somedir/temporary.txt", "somedir/temp"], ["temp", "a/b/temp"]),
        ("*/*/temp*", ["somedir/subdir/temporary.txt"], ["somedir/temp"]),
        ("temp?", ["tempa", "tempb/deep"], ["temp", "tempab", "a/tempa"]),
        ("**/*.go", ["a.go", "a/b/c.go"], ["a.goo"]),
        ("*.md\n!README.md", ["CONTRIBUTING.md"], ["README.md", "docs/other.md"]),
        ("*.md\n!README*.md\nREADME-secret.md", ["README-secret.md", "x.md"], ["README.md"]),
        ("*.md\nREADME-secret.md\n!README*.md", ["x.md"], ["README.md", "README-secret.md"]),
        ("# a comment\n\n  /foo/bar  \n", ["foo/bar", "foo/bar/deep"], ["foo", "# a comment"]),
        ("foo/bar/", ["foo/bar"], ["foo/barn"]),
        ("build/**", ["build/a", "build/a/b"], ["build", "rebuild/a"]),
        ("**/node_modules", ["node_modules/x", "a/node_modules/x/y"], ["my_node_modules"]),
        ("a[0-9].txt\nb[^x].txt", ["a1.txt", "by.txt"], ["ab.txt", "bx.txt", "b/.txt"]),
        ("a\\*b", ["a*b"], ["axb"]),
        ("a.b", ["a.b"], ["axb"]),
        (".", [], ["a"]),
        ("*\n!keep/this", ["keep/that", "other"], ["keep/this", "keep/this/deep"]),
    ],
)
def test_patterns(text: str, ignored: list[str], left: list[str]) -> None:
    patterns = read_patterns(text)
    assert [path for path in [*ignored, *left] if is_ignored(path, patterns)] == ignored


def write_files(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def list_paths(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_folder_is_shown_without_what_is_ignored(tmp_path: Path) -> None:
    context, home = tmp_path / "context", tmp_path / "home"
    write_files(context, "Dockerfile", "src/a.py", "src/a.pyc", "out/big", "out/small/kept")
    (context / "src" / "link").symlink_to("a.py")
    (context / "src" / "a.py").chmod(0o755)
    home.mkdir()
    assert show_context(context, home) == context
    (context / ".dockerignore").write_text("*\n!src\n**/*.pyc\n!out/small/kept\n")

    shown = show_context(context, home)
    assert list_paths(shown) == ["out", "out/small", "out/small/kept", "src", "src/a.py", "src/link"]
    assert (shown / "src" / "link").is_symlink()
    assert (shown / "src" / "a.py").stat().st_mode & 0o777 == 0o755


def test_the_patterns_of_the_dockerfile_itself_come_first(tmp_path: Path) -> None:
    context, home = tmp_path / "context", tmp_path / "home"
    write_files(context, "a", "b")
    (context / ".dockerignore").write_text("a")
    (context / "Dockerfile.dockerignore").write_text("b\n*ignore")
    home.mkdir()
    assert list_paths(show_context(context, home)) == ["a"]
