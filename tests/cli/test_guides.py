"""The lines that the guides tell people to type are ones that the command understands."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from wane.cli.command_registry import AGENT, find_commands
from wane.cli.failure import UsageError
from wane.cli.parser import parse
from wane.cli.proxy.proxy_commands import split

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_docs  # noqa: E402

# The pages of the commands are made from the help itself, and show usage.
FOLDERS = (ROOT / "docs", ROOT / "research" / "docs")
FOUND = [page for folder in FOLDERS for page in sorted(folder.rglob("*.md"))]
PAGES = [ROOT / "README.md", *(page for page in FOUND if page.name != "cli.md" and page.parent.name != "commands")]
# What stands before a command: variables that are set for it.
_SETS = re.compile(r"(?:[A-Z_]+=\S* )*")


def lines(page: Path) -> list[str]:
    blocks = (block for block in check_docs.parse(page).blocks if block.language in ("", "sh", "bash"))
    typed = (_SETS.sub("", line, count=1) for block in blocks for line in block.text.split("\n"))
    return [line for line in typed if line.startswith("wane ")]


CASES = [(page, line) for page in PAGES for line in lines(page)]


def test_there_are_some_on_every_page() -> None:
    told = {page.name for page, _ in CASES}
    assert {"README.md", "claude-code.md", "codex.md", "others.md", "sdks.md", "evaluation.md"} <= told


def trouble(line: str) -> str:
    """What the command has against a line; of `wane run`, the agent's own words must come through as they stand."""
    words = shlex.split(line, comments=True)[1:]
    if "|" in words:
        words = words[: words.index("|")]
    try:
        args, rest = split(words)
        command, options = parse(args, AGENT, find_commands())
    except UsageError as error:
        return str(error)
    if command.name == "run" and not (options.agent and [*rest] == words[words.index(options.agent) + 1 :]):
        return f"the agent would get {rest}"
    return ""


@pytest.mark.full
def test_the_command_understands_each() -> None:
    troubles = {f"{page.name}: {line}": trouble(line) for page, line in CASES}
    assert not {case: why for case, why in troubles.items() if why}
