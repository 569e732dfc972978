"""Names say what a thing is; see "Words" in docs/architecture.md."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import wane

ROOT = Path(wane.__file__).parents[2]

# Words that tell what became of a thing, or nothing at all.
# fmt: off
VAGUE = frozenset({
    "it", "its", "found", "place", "told", "shown", "here", "made", "said", "given",
    "kept", "wanted", "left", "rest", "more", "less", "owed", "thing", "one", "other",
    "each", "mine", "theirs", "whole", "taken", "known", "asked", "seen", "held",
})
# fmt: on

# The largest share of bound names that may be such a word, by folder. It may only fall; one in a hundred is the aim.
LIMITS = {"src/wane": 0.01, "research/src/wane_research": 0.01}


def bound(tree: ast.AST) -> Iterator[str]:
    """The names that code binds: by assignments, loops and comprehensions, fields and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg


@pytest.mark.parametrize("folder", LIMITS)
def test_names_say_what_they_name(folder: str) -> None:
    vague: Counter[str] = Counter()
    total = 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        names = [name.strip("_") for name in bound(ast.parse(path.read_text(encoding="utf-8")))]
        total += len(names)
        if count := sum(name in VAGUE for name in names):
            vague[str(path.relative_to(ROOT))] = count
    assert total > 1_000
    assert vague.total() <= LIMITS[folder] * total, (
        f"the files with most names that name nothing: {vague.most_common(10)}"
    )
