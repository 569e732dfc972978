"""An expression loops or decides once: no comprehension or conditional stands in another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import wane

ROOT = Path(wane.__file__).parents[2]
FOLDERS = ("src", "scripts", "benchmarks", "research/src", "research/benchmarks", "research/case-studies")


def nested_lines(node: ast.AST, *, inside: bool = False) -> Iterator[int]:
    """Yield the lines of the comprehensions and conditional expressions within another one.

    One pattern reads well and may stay: a plain loop whose element is one of two, `[a if c else b for x in xs]`.
    """
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.IfExp):
            yield from nested_lines(child, inside=inside)
            continue
        if inside:
            yield child.lineno
        elif chooses(child):
            yield from nested_lines(child.elt, inside=True)
            yield from nested_lines(child.generators[0], inside=True)
        else:
            yield from nested_lines(child, inside=True)


def chooses(node: ast.AST) -> bool:
    """Whether a comprehension has one loop without a condition, and a conditional expression for its element."""
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return False
    return isinstance(node.elt, ast.IfExp) and len(node.generators) == 1 and not node.generators[0].ifs


@pytest.mark.parametrize("folder", FOLDERS)
def test_expressions_are_not_nested(folder: str) -> None:
    lines = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lines += [f"{path.relative_to(ROOT)}:{line}" for line in nested_lines(tree)]
    assert not lines, f"write the loop, or name the inner value: {', '.join(lines[:20])}"
