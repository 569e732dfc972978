"""The floors of the project: what may import what, and what the core may touch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import wane

PACKAGE = Path(wane.__file__).parent

# Each part of the package, and the other parts that it may import. A new part must be entered here.
FLOORS: dict[str, set[str]] = {
    "core": {"installing"},  # for what an error advises
    "counters": {"core"},
    "flags": {"core"},
    "tools": {"core"},
    "money": set(),
    "replacing": set(),
    "pages": {"words"},
    "words": set(),
    "refusals": set(),
    "interrupts": set(),
    "fast_json": {"interrupts"},
    "prices": {"core", "replacing"},
    "budgets": {"core"},
    "tuned": {"budgets", "core", "replacing"},
    "caches": set(),
    "rewrites": {"money", "words"},
    "savings": {"account", "core", "money", "prices", "recall"},
    "account": {"core", "journal", "money", "prices"},
    "formats": {"core", "tools"},
    "planning": {"budgets", "conversation", "core", "counters", "formats", "inference", "strategies"},
    "rebuilding": {"conversation", "core", "formats", "journal", "strategies"},
    "journal": {"core", "formats", "installing"},
    "testing": {"core", "formats", "conversation", "strategies"},
    "inference": {"core", "tools", "formats", "words"},
    "strategies": {"core", "formats", "identifiers", "inference", "extensions", "tools", "words"},
    "lab": {
        "fast_json",
        "interrupts",
        "budgets",
        "caches",
        "rewrites",
        "account",
        "core",
        "tools",
        "formats",
        "identifiers",
        "journal",
        "inference",
        "money",
        "pages",
        "extensions",
        "prices",
        "recall",
        "replacing",
        "savings",
        "strategies",
        "words",
    },
    "conversation": {
        "budgets",
        "core",
        "counters",
        "formats",
        "inference",
        "journal",
        "refusals",
        "strategies",
        "recall",
        "tools",
    },
    "search": {"installing"},
    "installing": set(),
    "identifiers": {"core", "formats"},
    "extensions": {"core", "installing"},
    "recall": {"core", "formats", "search"},
    "integrations": {
        "budgets",
        "caches",
        "conversation",
        "core",
        "counters",
        "formats",
        "inference",
        "strategies",
        "recall",
    },
    "agent": {
        "installing",
        "budgets",
        "tuned",
        "conversation",
        "core",
        "counters",
        "formats",
        "journal",
        "inference",
        "strategies",
        "integrations",
        "recall",
        "tools",
        "flags",
        "account",
        "prices",
        "money",
        "refusals",
        "replacing",
        "words",
    },
    "proxy": {
        "fast_json",
        "budgets",
        "caches",
        "rewrites",
        "savings",
        "account",
        "conversation",
        "core",
        "counters",
        "extensions",
        "formats",
        "journal",
        "inference",
        "money",
        "pages",
        "prices",
        "refusals",
        "strategies",
        "recall",
        "tools",
        "",
    },
    "scripted": {
        "caches",
        "conversation",
        "core",
        "formats",
        "journal",
        "lab",
        "money",
        "prices",
        "integrations",
        "agent",
        "strategies",
        "testing",
    },
    "cli": {
        "installing",
        "tuned",
        "prices",
        "savings",
        "budgets",
        "rewrites",
        "conversation",
        "core",
        "counters",
        "formats",
        "journal",
        "strategies",
        "lab",
        "agent",
        "scripted",
        "testing",
        "tools",
        "proxy",
        "planning",
        "rebuilding",
        "account",
        "money",
        "flags",
        "extensions",
        "words",
        "",
    },
    "__main__": {"cli"},
    # The package itself offers the dry run, which it loads when it is asked for.
    "": {"core", "planning", "conversation"},
}

# Modules without files, sockets, clocks, randomness or the environment in them.
PURE = {
    "__future__",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "contextlib",
    "contextvars",  # a program's scopes (R18): which code calls
    "inspect",
    "uuid",  # for the ids of scopes alone
    "threading",  # for locks alone
    "re",
    "types",
    "typing",
    "typing_extensions",
}
IMPURE_BUILTINS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}

EXPORTED = """
    DEFAULT_BUDGET DEFAULT_TOOL_CLASSES Added ConfigError ContextWindow Conversation CorruptJournalError Counter
    CounterError Episode EpisodeType FitReport FormatError HistoryError Item JournalError JournalVersionError Kind Level
    MissingExtraError
    Pinned Plan Policy Room SessionLockedError SessionNotFoundError Step ToolClass UnknownEpisodeError Verdict WaneError
    __version__ chars parse_budget plan
"""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(*parts: str) -> list[Path]:
    """The package's files, of all parts or of some."""
    return sorted(path for path in PACKAGE.rglob("*.py") if not parts or part_of(path) in parts)


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to: its folder or, of a file at the top, its name."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py").replace("__init__", "")


def floor_of(module: str) -> str | None:
    """The part of the package that a module belongs to; None for a module of others."""
    names = module.split(".")
    if names[0] != "wane":
        return None
    return names[1] if len(names) > 1 else ""


@cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a file, wherever in it."""
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each module that a file imports, and where; a relative one with its dots."""
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = ["." * node.level + (node.module or "")]
            if names == ["wane"]:
                names += [f"wane.{alias.name}" for alias in node.names if (PACKAGE / alias.name).exists()]
        yield from ((place(path, node), name) for name in names)


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}"


def test_a_part_imports_only_what_stands_below_it() -> None:
    parts = {part_of(path) for path in sources()}
    assert parts == set(FLOORS), "FLOORS says for each part what it may import"
    wrong: list[str] = []
    for path in sources():
        allowed = {None, part_of(path), *FLOORS[part_of(path)]}
        for where, name in imports(path):
            if name.startswith(".") or floor_of(name) not in allowed:
                wrong.append(f"{where}: {name}")
    assert not wrong


def test_orjson_is_imported_where_interrupts_are_held() -> None:
    where = {module_of(path) for path in sources() for _, name in imports(path) if name.partition(".")[0] == "orjson"}
    assert where == {"wane.fast_json"}


def test_wane_imports_nothing_of_the_research() -> None:
    """`wane_research` imports `wane`; the other way, nothing knows a name in it."""
    assert not [where for path in sources() for where, name in imports(path) if name.startswith("wane_research")]
    naming = {module_of(path) for path in sources() if "wane_research" in path.read_text(encoding="utf-8")}
    assert not naming


def test_there_are_no_import_cycles() -> None:
    """Imports inside functions count, too, and so do those for type checking alone."""
    modules = {module_of(path): path for path in sources()}
    graph: dict[str, list[str]] = {}
    for module, path in modules.items():
        imported = set(module_imports(path)) & modules.keys()
        graph[module] = sorted(imported - {module})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1][::-1]))


@pytest.mark.parametrize("folder", sorted({path.parent for path in sources()} - {PACKAGE}), ids=str)
def test_the_folders_of_a_part_form_no_circles(folder: Path) -> None:
    """Each folder and each module right in a folder stands on those that it imports.

    Modules without a cycle among them can still make two folders that a reader cannot take one after the other.
    """
    graph: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        inner = child_of(folder, module_of(path))
        imported = {child_of(folder, name) for name in module_imports(path)}
        graph.setdefault(inner, set()).update(imported - {inner, ""})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1][::-1]))


def child_of(folder: Path, module: str) -> str:
    """The folder or module right in a folder that a module belongs to; empty for another, or the folder itself."""
    within = module_of(folder / "__init__.py")
    return module.removeprefix(f"{within}.").split(".")[0] if module.startswith(f"{within}.") else ""


def module_of(path: Path) -> str:
    return ".".join(("wane", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def module_imports(path: Path) -> Iterator[str]:
    """What a file imports, without the packages that it is in."""
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if not module_of(path).startswith(f"{name}."))


def test_the_core_the_inference_and_the_conversation_are_pure() -> None:
    files = sources("core", "inference", "conversation")
    assert files
    wrong: list[str] = []
    for path in files:
        for where, name in imports(path):
            if floor_of(name) is None and name not in PURE:
                wrong.append(f"{where}: {name}")
        names = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Name)]
        wrong += [f"{place(path, name)}: {name.id}" for name in names if name.id in IMPURE_BUILTINS]
    assert not wrong


def test_a_file_says_what_it_is_about() -> None:
    assert not [str(path) for path in sources() if not ast.get_docstring(tree(path))], (
        "a module begins with a docstring"
    )


def test_the_core_loads_the_standard_library_alone() -> None:
    use = "from wane import ConfigError, Item"
    code = f"import sys; before = set(sys.modules); {use}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
        check=True,
    )
    loaded = done.stdout.split()
    ours = {name for name in loaded if floor_of(name) is not None}
    assert {floor_of(name) for name in ours} == {"", "core"}
    assert {name.partition(".")[0] for name in set(loaded) - ours} <= set(sys.stdlib_module_names)


def test_the_exported_names_are_locked() -> None:
    assert sorted(wane.__all__) == sorted(EXPORTED.split())
    assert all(hasattr(wane, name) for name in wane.__all__)
    assert dir(wane) == sorted(wane.__all__)
