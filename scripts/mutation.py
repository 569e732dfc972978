"""Break the code on purpose, one small change at a time, and report the changes that no test notices.

    python scripts/mutation.py core                 the rules
    python scripts/mutation.py conversation journal
    python scripts/mutation.py core --file eviction.py
    python scripts/mutation.py core --sample 30 --first 7       every 30th mutant, from the 8th on
    python scripts/mutation.py --list

A *mutant* is one function with one change: a comparison turned round, a number off by one, a statement left out. It is
*killed* if a test fails with it, and *survives* otherwise. A survivor is either a missing test, or a change that means
the same; `scripts/mutants.toml` gives the reason for those. The exit code is 1 if a survivor has no reason there, or if
a reason is there for a mutant that is killed or no longer exists.

How it works: pytest collects the tests once and runs them once, under a profiler that notes which functions of the
mutated files each test enters. For each mutant the process forks. The child gives the function the changed code
(`function.__code__`), so that all who have imported it see the change, and runs the tests that enter it, the quickest
first, until one fails. Only bodies of functions are mutated: a class's fields and a module's tables are not.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import gc
import importlib
import inspect
import os
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "wane"
REASONS = ROOT / "scripts" / "mutants.toml"


@dataclass(frozen=True, slots=True)
class Target:
    """Files that are mutated together, and the tests that are to notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = {
    "core": Target(("core/*.py",), ("tests/core", "tests/test_conformance.py", "tests/test_planning.py")),
    "conversation": Target(("conversation/*.py",), ("tests/conversation", "tests/test_rebuilding.py", "tests/core")),
    "journal": Target(("journal/*.py",), ("tests/journal", "tests/conversation/test_recorded.py")),
    "sessions": Target(("proxy/sessions/*.py",), ("tests/proxy/sessions",)),
}

FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function.

    `name` tells it in reasons and reports: module, function, line of code, and the change, without a line number, so
    that it survives edits elsewhere.
    """

    module: str
    function: str
    line: int
    source: str
    change: str
    occurrence: int
    code: CodeType

    @property
    def name(self) -> str:
        """What tells it from all others."""
        again = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.module}:{self.function}: {self.source}  [{self.change}{again}]"


# --- making mutants -------------------------------------------------------------------------------------------------


def mutate_file(path: Path, chosen: Iterator[bool]) -> Iterator[Mutant]:
    """Yield the mutants of a module; `chosen` says of one change after another whether it is among them."""
    text = path.read_text()
    tree = ast.parse(text)
    unchanged = compile(tree, str(path), "exec")
    module = ".".join(("wane", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    lines = text.splitlines()
    for names, node in functions_of(tree, ()):
        qualified = ".".join(names)
        seen: Counter[tuple[str, str]] = Counter()
        for place, change, apply in changes_of(node):
            source = lines[place - 1].strip()
            seen[source, change] += 1
            if not next(chosen):
                continue
            code = code_with(tree, apply, path, qualified)
            if code is not None and code != find_code(unchanged, qualified):
                yield Mutant(module, qualified, place, source, change, seen[source, change], code)


def functions_of(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    """Yield the functions of a module and the methods of its classes; a function's inner ones are part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield (*names, child.name), child
        elif isinstance(child, ast.ClassDef):
            yield from functions_of(child, (*names, child.name))
        elif isinstance(child, ast.If):
            yield from functions_of(child, names)


Change = tuple[int, str, Callable[[dict[int, ast.AST]], None]]


def changes_of(function: ast.FunctionDef) -> Iterator[Change]:
    """Yield line, description and edit of each change; an edit gets the copied nodes by the originals' identity."""
    for statement in function.body:
        if not is_docstring(statement):
            for node in walk_code(statement):
                yield from changes_of_node(node)


def walk_code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes that run: no annotations, and no messages of errors, whose words are no rule."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"} or isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_docstring(child):
                yield from walk_code(child)


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def changes_of_node(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of one node, and of the statements directly below it."""
    line = getattr(node, "lineno", 0)
    key = id(node)
    match node:
        case ast.Compare():
            for number, operator in enumerate(node.ops):
                if type(operator) in FLIPPED:
                    yield line, swap_text(operator), _set_item(key, "ops", number, FLIPPED[type(operator)]())
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) | ast.AugAssign(op=operator):
            if type(operator) in FLIPPED:
                yield line, swap_text(operator), _set_field(key, "op", FLIPPED[type(operator)]())
        case ast.UnaryOp(op=ast.Not()):
            yield line, "not dropped", _negate(key)
        case ast.Constant(value=bool() as value):
            yield line, f"{value} -> {not value}", _set_field(key, "value", not value)
        case ast.Constant(value=int() as value):
            yield line, f"{value} -> {value + 1}", _set_field(key, "value", value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED_NAMES:
            swapped = ast.Name(SWAPPED_NAMES[name], ast.Load())
            yield line, f"{name} -> {SWAPPED_NAMES[name]}", _set_field(key, "func", swapped)
        case ast.If() | ast.While() | ast.IfExp():
            yield line, "condition -> False", _set_field(key, "test", ast.Constant(False))
            if not isinstance(node, ast.While):
                yield line, "condition -> True", _set_field(key, "test", ast.Constant(True))
        case ast.comprehension() if node.ifs:
            yield node.ifs[0].lineno, "filter dropped", _set_field(key, "ifs", [])
        case _:
            pass
    for field in ("body", "orelse", "finalbody"):
        for number, statement in enumerate(statements(node, field)):
            if isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete) and not is_docstring(statement):
                if not is_yield(statement):
                    yield statement.lineno, "statement dropped", _set_item(key, field, number, ast.Pass())
            elif isinstance(statement, ast.Break | ast.Continue):
                other = FLIPPED[type(statement)]()
                yield statement.lineno, swap_text(statement), _set_item(key, field, number, other)


def statements(node: ast.AST, field: str) -> list[ast.stmt]:
    """Return a block of a statement; an expression, such as that of a lambda, has none."""
    value = getattr(node, field, None)
    return value if isinstance(value, list) else []


def is_yield(statement: ast.stmt) -> bool:
    """Whether without it a generator might become a function."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in ast.walk(statement))


def swap_text(node: ast.AST) -> str:
    """Say what takes whose place."""
    return f"{type(node).__name__} -> {FLIPPED[type(node)].__name__}"


Nodes = dict[int, ast.AST]


def _set_field(key: int, field: str, value: object) -> Callable[[Nodes], None]:
    return lambda nodes: setattr(nodes[key], field, value)


def _set_item(key: int, field: str, number: int, value: ast.AST) -> Callable[[Nodes], None]:
    def apply(nodes: Nodes) -> None:
        getattr(nodes[key], field)[number] = value

    return apply


def _negate(key: int) -> Callable[[Nodes], None]:
    """Make `not x` the truth of x."""

    def apply(nodes: Nodes) -> None:
        node = nodes[key]
        assert isinstance(node, ast.UnaryOp)
        node.operand = ast.UnaryOp(ast.Not(), node.operand)

    return apply


def code_with(tree: ast.Module, apply: Callable[[Nodes], None], path: Path, qualified: str) -> CodeType | None:
    """Return a function's code with a change, or None if that is no valid code."""
    memo: dict[int, Any] = {}
    changed = copy.deepcopy(tree, memo)
    # A memo of deepcopy is by identity, which is how the edits name their nodes.
    apply(memo)
    ast.fix_missing_locations(changed)
    try:
        return find_code(compile(changed, str(path), "exec"), qualified)
    except (SyntaxError, ValueError):
        return None


def find_code(code: CodeType, qualified: str) -> CodeType | None:
    """Return the code of a function within a module's. Of several with one name, as of a property's, the first."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualified:
                return constant
            if qualified.startswith(constant.co_qualname + "."):
                inner = find_code(constant, qualified)
                if inner is not None:
                    return inner
    return None


def find_function(module: str, qualified: str) -> FunctionType | None:
    """Return the function behind a name: of a property its getter, of a decorated function the innermost one."""
    value: Any = importlib.import_module(module)
    for name in qualified.split("."):
        if not hasattr(value, name):
            return None
        value = inspect.getattr_static(value, name)
    for _ in range(5):
        for wrapper in ("fget", "func", "__func__", "__wrapped__"):
            inner = getattr(value, wrapper, None)
            if inner is not None:
                value = inner
                break
    return value if isinstance(value, FunctionType) and value.__code__.co_qualname == qualified else None


# --- running tests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Child:
    """A running test of a mutant: when it is taken to hang, and the pipe on which it names the test that failed."""

    mutant: Mutant
    limit: float
    killer: int


class Runner:
    """A plugin of pytest that runs the collected tests once for each mutant, in a child of its own."""

    def __init__(self, mutants: list[Mutant], *, jobs: int, patience: float) -> None:
        self.mutants = mutants
        self.jobs = jobs
        self.patience = patience
        self.survivors: list[Mutant] = []
        self.untested: list[Mutant] = []
        self.killed = 0
        self._failed = False
        self._items: list[pytest.Item] = []
        self._seconds: dict[str, float] = {}
        self._entered: dict[CodeType, set[int]] = defaultdict(set)
        self._kills: Counter[str] = Counter()
        self._caches: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether any test has failed."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests unchanged, then once for each mutant."""
        self._items = session.items
        self._run_unchanged()
        if self._failed:
            raise pytest.UsageError("a test fails without any change")
        # What unchanged code has computed must be forgotten in each child.
        self._caches = [
            value
            for value in gc.get_objects()
            if isinstance(value, functools._lru_cache_wrapper) and (value.__module__ or "").startswith("wane")
        ]
        waiting = list(reversed(self.mutants))
        running: dict[int, Child] = {}
        done = 0
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                items = self._tests_of(mutant)
                if not items:
                    self.untested.append(mutant)
                    continue
                limit = 10 + 10 * sum(self._seconds[item.nodeid] for item in items)
                killer, writing = os.pipe()
                process = self._fork(mutant, items, writing)
                os.close(writing)
                running[process] = Child(mutant, time.monotonic() + min(limit, self.patience), killer)
            done += self._reap(running)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(self.mutants)}, {len(self.survivors)} survive ", end="", file=sys.stderr)
        return True

    def _run_unchanged(self) -> None:
        """Run all tests once, and note what each takes and enters."""
        wanted = {code_of for mutant in self.mutants if (code_of := code_behind(mutant)) is not None}
        for number, item in enumerate(self._items):
            entered: set[CodeType] = set()

            def profile(frame: Any, event: str, _: object, entered: set[CodeType] = entered) -> None:
                if event == "call":
                    entered.add(frame.f_code)

            started = time.monotonic()
            sys.setprofile(profile)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            finally:
                sys.setprofile(None)
            self._seconds[item.nodeid] = time.monotonic() - started
            for code in entered & wanted:
                self._entered[code].add(number)

    def _tests_of(self, mutant: Mutant) -> list[pytest.Item]:
        code = code_behind(mutant)
        numbers = self._entered.get(code, set()) if code is not None else set()
        items = [self._items[number] for number in numbers]
        # Few tests kill most mutants: those that killed any first, by what they take.
        return sorted(items, key=lambda item: self._seconds[item.nodeid] / (1 + self._kills[item.nodeid]))

    def _fork(self, mutant: Mutant, items: list[pytest.Item], killer: int) -> int:
        child = os.fork()
        if child:
            return child
        # A session of its own, so that what a test starts ends with it.
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        self._failed = False
        try:
            function = find_function(mutant.module, mutant.function)
            assert function is not None
            function.__code__ = mutant.code
            for cache in self._caches:
                cache.cache_clear()
            for item in items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._failed:
                    os.write(killer, item.nodeid.encode())
                    os._exit(1)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def _reap(self, running: dict[int, Child]) -> int:
        """Wait for a child to end; a mutant that runs for too long counts as killed."""
        now = time.monotonic()
        for process, child in running.items():
            if now > child.limit:
                os.killpg(process, signal.SIGKILL)
        process, status = os.waitpid(-1, os.WNOHANG)
        if process not in running:
            time.sleep(0.01)
            return 0
        child = running.pop(process)
        with os.fdopen(child.killer) as pipe:
            test = pipe.read()
        if os.waitstatus_to_exitcode(status) == 0:
            self.survivors.append(child.mutant)
        else:
            self.killed += 1
            self._kills[test] += 1
        return 1


def code_behind(mutant: Mutant) -> CodeType | None:
    """Return the unchanged code of a mutant's function."""
    function = find_function(mutant.module, mutant.function)
    return None if function is None else function.__code__


# --- telling --------------------------------------------------------------------------------------------------------


def read_reasons(path: Path) -> dict[str, str]:
    """Return the reasons for survivors by the mutant's name."""
    if not path.is_file():
        return {}
    return {entry["mutant"]: entry["why"] for entry in tomllib.loads(path.read_text()).get("equivalent", [])}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"what to mutate: {', '.join(TARGETS)} (default: core)"
    )
    parser.add_argument("--file", action="append", default=[], metavar="NAME", help="only this file of it")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="take every Nth mutant")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin the sample with this one (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help="longest run of a mutant")
    parser.add_argument("--profile", default="quick", help="examples that Hypothesis draws: quick (default), ci, full")
    arguments = parser.parse_args()
    reasons = read_reasons(REASONS)
    status = 0
    for name in arguments.targets or ["core"]:
        if name not in TARGETS:
            parser.error(f"unknown target {name}; there are {', '.join(TARGETS)}")
        status |= run_target(name, TARGETS[name], arguments, reasons)
    return status


def run_target(name: str, target: Target, arguments: argparse.Namespace, reasons: dict[str, str]) -> int:
    """Mutate the files of one target, report what survives, and return the exit code."""
    paths = [path for pattern in target.files for path in sorted(SOURCE.glob(pattern))]
    paths = [path for path in paths if not arguments.file or path.name in arguments.file]
    chosen = (number % arguments.sample == arguments.first % arguments.sample for number in count())
    mutants = [mutant for path in paths for mutant in mutate_file(path, chosen)]
    if arguments.list:
        print("\n".join(f"{mutant.line}\t{mutant.name}" for mutant in mutants))
        return 0
    os.chdir(ROOT)
    runner = Runner(mutants, jobs=arguments.jobs, patience=arguments.patience)
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "-m", "not full and not wide"]
    started = time.monotonic()
    code = pytest.main([*options, f"--hypothesis-profile={arguments.profile}", *target.tests], plugins=[runner])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    alive = [*runner.survivors, *runner.untested]
    unexplained = [mutant for mutant in alive if mutant.name not in reasons]
    for mutant in sorted(unexplained, key=lambda mutant: (mutant.module, mutant.line)):
        label = "no test enters" if mutant in runner.untested else "survives"
        print(f"{label}: {mutant.line}: {mutant.name}")
    explained = len(alive) - len(unexplained)
    seconds = time.monotonic() - started
    print(
        f"{name}: {len(mutants)} mutants, {runner.killed} killed, {explained} explained, "
        f"{len(unexplained)} survive unexplained; {seconds:.0f} s"
    )
    stale = []
    if not arguments.file and arguments.sample == 1:
        prefix = tuple(f"{mutant.module}:" for mutant in mutants)
        names = {mutant.name for mutant in alive}
        stale = [reason for reason in reasons if reason.startswith(prefix) and reason not in names]
    for reason in stale:
        print(f"a reason for a mutant that is killed or gone: {reason}")
    return 1 if unexplained or stale else 0


if __name__ == "__main__":
    sys.exit(main())
