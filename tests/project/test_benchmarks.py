"""What the programs in `benchmarks/` say of the package."""

from __future__ import annotations

import ast
import selectors
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import wane

PACKAGE = Path(wane.__file__).parent
SAMPLED = PACKAGE.parents[1] / "benchmarks/proxy/sampled.py"


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the qualified names of functions and methods."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}"


def test_each_part_of_a_sampled_request_is_a_function_that_exists() -> None:
    missing = set(run_path(str(SAMPLED))["PARTS"])
    assert len(missing) > 15
    for path in [*PACKAGE.rglob("*.py"), Path(selectors.__file__)]:
        if any(name == path.name for name, _ in missing):
            names = functions(ast.parse(path.read_text(encoding="utf-8")).body)
            missing -= {(path.name, name) for name in names}
    # Defined where the system has it.
    assert missing <= {("selectors.py", "EpollSelector.select")}
