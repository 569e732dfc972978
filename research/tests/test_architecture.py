"""What may import what in the research. That `wane` imports nothing of it is a test of `wane`'s own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import wane_research

PACKAGE = Path(wane_research.__file__).parent
NAME = "wane_research"

# Each part, and the other parts that it may import. A new part must be entered here.
FLOORS: dict[str, set[str]] = {
    "annotations": set(),
    "validation": set(),
    "peers": set(),
    "missing": set(),
    "closed_loop": set(),
    "evaluation": {"annotations", "missing"},
    "judge": {"evaluation", "missing"},
    "bench": set(),
    "cli": {"annotations", "bench", "validation", "closed_loop", "evaluation"},
    "": set(),
}


def modules() -> dict[str, Path]:
    """The files, by the names of their modules."""
    names = {path: (NAME, *path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    return {".".join(name).removesuffix(".__init__"): path for path, name in names.items()}


def find_imports(path: Path) -> Iterator[str]:
    """What a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def part_of(module: str) -> str:
    return f"{module}.".split(".")[1]


def test_a_part_imports_only_what_stands_below_it() -> None:
    assert {part_of(module) for module in modules()} == set(FLOORS)
    wrong: list[str] = []
    for module, path in modules().items():
        allowed = {part_of(module), *FLOORS[part_of(module)]}
        names = list(find_imports(path))
        own = [name for name in names if name.startswith(f"{NAME}.") and part_of(name) not in allowed]
        relative = [name for name in names if name.startswith(".")]
        wrong += [f"{module}: {name}" for name in (*own, *relative)]
    assert not wrong


def test_there_are_no_import_cycles() -> None:
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = known.keys() & set(find_imports(path))
        graph[module] = {name for name in names if not f"{module}.".startswith(f"{name}.")}
    TopologicalSorter(graph).prepare()


def test_a_file_says_what_it_is_about() -> None:
    assert not [path for path in modules().values() if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
