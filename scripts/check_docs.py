"""Check the documentation: links have targets, Python compiles, and what it imports from wane exists.

    python scripts/check_docs.py [ROOT]

Links to the web are not followed: the check needs no network.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.core.errors import MissingExtraError

PAGES: Final = (
    *("*.md", "benchmarks/*.md", "docs/**/*.md"),
    *("research/*.md", "research/docs/*.md", "research/case-studies/*.md"),
)

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<language>[\w-]*)[^\n]*$")
LINK: Final = re.compile(r"(?<!\\)\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_CODE: Final = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code: the line of its fence, its language and its text."""

    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: its numbered lines outside code blocks, and the blocks."""

    path: Path
    prose: tuple[tuple[int, str], ...]
    blocks: tuple[Block, ...]

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings."""
        headings = [_HEADING.match(line) for _, line in self.prose]
        titles = [heading[1].lower() for heading in headings if heading]
        return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def parse(path: Path) -> Page:
    """Parse a page of Markdown."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    fence: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        match = _FENCE.match(line)
        if fence is None and match:
            fence, start, body = match, number, []
        elif fence is None:
            prose.append((number, line))
        elif match and match["fence"] == fence["fence"] and not match["language"]:
            blocks.append(Block(start, fence["language"], textwrap.dedent("\n".join(body))))
            fence = None
        else:
            body.append(line)
    if fence is not None:
        blocks.append(Block(start, "unclosed", ""))
    return Page(path, tuple(prose), tuple(blocks))


def link_problems(page: Page) -> Iterator[str]:
    """Yield the problems of a page's links."""
    for number, line in page.prose:
        for target in LINK.findall(_CODE.sub("", line)):
            file, _, anchor = target.partition("#")
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            path = (page.path.parent / file) if file else page.path
            if not path.exists():
                yield f"{page.path}:{number}: the link {target} leads to no file"
            elif anchor and path.suffix == ".md" and anchor not in parse(path).anchors:
                yield f"{page.path}:{number}: the link {target} leads to no heading"


def code_problems(page: Page) -> Iterator[str]:
    """Yield the problems of a page's blocks of Python."""
    for block in page.blocks:
        where = f"{page.path}:{block.line}"
        if block.language == "unclosed":
            yield f"{where}: this block of code is not closed"
        if block.language not in ("python", "py"):
            continue
        try:
            # A page may show `await` outside a function, as it would be in the reader's own.
            tree = compile(block.text, where, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            yield f"{page.path}:{block.line + (error.lineno or 0)}: the Python does not compile: {error.msg}"
            continue
        yield from (f"{where}: {problem}" for node in ast.walk(tree) for problem in import_problems(node))


def import_problems(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import from wane misses."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wane"):
        return
    names = [alias.name for alias in node.names]
    try:
        module = importlib.import_module(node.module or "")
        missing = [name for name in names if not hasattr(module, name)]
    except MissingExtraError:
        # Not all extras can be installed together, so the names are read from the source.
        defined = names_in_source(node.module or "")
        missing = [name for name in names if name not in defined]
    except ImportError as error:
        yield f"{node.module} cannot be imported: {error}"
        return
    yield from (f"{node.module} has no {name}" for name in missing)


def names_in_source(module: str) -> set[str]:
    """Return the classes and functions that a module's source defines."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def problems(root: Path) -> list[str]:
    """Return the problems of all pages of a project."""
    pages = [parse(path) for pattern in PAGES for path in sorted(root.glob(pattern))]
    return [problem for page in pages for problem in (*link_problems(page), *code_problems(page))]


def main(args: list[str]) -> int:
    """Print the problems, and return 1 if there are any."""
    faults = problems(Path(args[0]) if args else Path(__file__).parents[1])
    for problem in faults:
        print(problem, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
