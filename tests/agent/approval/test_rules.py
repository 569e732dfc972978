from __future__ import annotations

import pytest

from wane.agent.approval.permission_rules import EDIT, MCP, Rule, rule_for
from wane.agent.approval.splitting import ShellPart, parts_of
from wane.core.errors import ConfigError


def part(line: str) -> ShellPart:
    (found,) = parts_of(line) or ()
    return found


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("ls -la x", "ls *"),
        ("git status", "git status *"),
        ("git commit -m 'a b'", "git commit *"),
        ("git remote add x y", "git remote add *"),
        ("npm run test -- -x", "npm run test *"),
        ("npm test", "npm test *"),
        ("make check -k", "make check *"),
        ("gh pr view 3", "gh pr view *"),
        ("docker compose up -d", "docker compose up *"),
        ("python -m pytest tests", "python -m pytest *"),
        ("python x.py a", "python x.py *"),
        ("bash x.sh", "bash x.sh *"),
        ("uv run pytest -q", "uv run pytest *"),
        ("uv run python -m pytest", "uv run python -m pytest *"),
        ("timeout 60 git diff", "git diff *"),
        ("./run a", "./run *"),
        ("echo $x", "echo *"),
        ("find . -name x", "find *"),
        # What runs something else, or destroys, is remembered by its text alone.
        ("sudo ls", "=sudo ls"),
        ("rm -rf x", "=rm -rf x"),
        ("find . -exec rm {} +", "=find . -exec rm {} +"),
        ("find . -delete", "=find . -delete"),
        ("git -c a.b=c status", "=git -c a.b=c status"),
        ("git diff --stat -- -x", "=git diff --stat -- -x"),
        ("git diff --output=x", "=git diff --output=x"),
        ("git log --oneline -5", "git log *"),
        ("rg -n --pre x y", "=rg -n --pre x y"),
        ("sort -o x y", "=sort -o x y"),
        ("bash -c 'ls'", "=bash -c 'ls'"),
        ("python -c 'x'", "=python -c 'x'"),
        ("uv run --with x y", "=uv run --with x y"),
        ("uv run python -c 'x'", "=uv run python -c 'x'"),
        ("valgrind ./x", "=valgrind ./x"),
        ("tmux new-session -d ./x", "=tmux new-session -d ./x"),
        ("docker compose -f x up", "=docker compose -f x up"),
        ("npm run -w sub test", "=npm run -w sub test"),
        ("python3.12 -c x", "=python3.12 -c x"),
        ("python3.12 -m pytest tests", "python3.12 -m pytest *"),
        ("python3.12", None),
        ("git filter-branch x", "=git filter-branch x"),
        ("cargo +nightly test", "=cargo +nightly test"),
        ("A=1 make", "=A=1 make"),
        ("export A=1", "=export A=1"),
        ("make check A=1", "=make check A=1"),
        ("tar --checkpoint-act=x .", "=tar --checkpoint-act=x ."),
        ("> out", "=> out"),
        # What only the shell or the input knows is not remembered.
        ("$x y", None),
        ("git $x", None),
        ("sudo $x", None),
        ("> $x", None),
        ("python", None),
        ("bash -s", None),
        ("xargs rm", None),
        ("eval ls", None),
        ("'rm -rf' x", None),
    ],
)
def test_what_always_covers(line: str, rule: str | None) -> None:
    found = rule_for(part(line))
    assert (found.text if found else None) == rule
    if found is not None:
        assert found.matches(part(line))


@pytest.mark.parametrize(
    ("rule", "line", "matches"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status *", "git status", True),
        ("git status *", "git status -s x", True),
        ("git status *", "git push", False),
        ("git status *", "git -C x status", False),
        ("git status *", "git $x", False),
        ("git *", "git push", True),
        ("git *", "git -c alias.x=!rm x", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run build", False),
        ("find *", "find . -name x", True),
        ("find *", "find . -delete", False),
        ("find *", "find -- -delete", False),
        ("find * -delete", "find . -delete", True),
        ("sudo *", "sudo rm x", True),
        ("ls *", "A=1 ls", False),
        ("ls *", "lsof", False),
        ("python *", "python -c 'x'", False),
        ("> build/*", "> build/a", True),
        ("> build/*", "> build/../a", False),
        ("=ls  -a", "ls  -a", True),
        ("=ls -a", "ls -a b", False),
        ("*", "sudo rm x", True),
        ("edit:*", "ls", False),
    ],
)
def test_rules(rule: str, line: str, matches: bool) -> None:
    assert Rule.read(rule).matches(part(line)) is matches


@pytest.mark.parametrize(
    ("rule", "line", "matches"),
    [
        ("rm *", "rm x", True),
        ("rm *", "/bin/rm x", True),
        ("rm *", "sudo -n rm x", True),
        ("rm *", "env A=1 rm x", True),
        ("rm *", "bash -c 'rm x'", True),
        ("rm *", "find . -exec rm {} +", True),
        ("git push *", "git -C x push -f", True),
        ("rm *", "echo rm x", False),
        ("git push *", "git pull", False),
    ],
)
def test_a_rule_that_denies_looks_behind_wrappers(rule: str, line: str, matches: bool) -> None:
    assert Rule(rule).matches(part(line), through_wrappers=True) is matches


def test_files_and_tools() -> None:
    assert Rule("edit:docs/*").names(EDIT, "docs/a/b.md")
    assert not Rule("edit:docs/*").names(EDIT, "src/a.py")
    assert Rule("mcp:github_*").names(MCP, "github_search")
    assert not Rule("mcp:github_*").names(EDIT, "github_search")


@pytest.mark.parametrize("text", ["", " ", "=", "edit:", 3])
def test_a_rule_that_matches_nothing_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        Rule.read(text)
