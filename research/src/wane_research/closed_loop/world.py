"""The repository of the tasks, as text: a Python package, its tests and two small tools.

Made from a seed, the same on every machine. Files are as long as a project's are, so that reading one costs
thousands of tokens at the usual budget.
"""

from __future__ import annotations

import json
import random
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PACKAGE: Final = "depot"  # name of the package


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


AREAS: Final = _words(
    "harbor kiln orchard foundry tannery quarry granary bindery dairy forge loom mint press smithy vineyard wharf"
)
"""Names of sub-packages."""

MODULES: Final = _words("arrivals balance carriers dispatch estimates fixtures gauges handling intake journal")
"""Names of modules."""

VERBS: Final = _words("adjust blend clamp derive extend fold gather hedge inspect join level merge order pool")
"""First words of functions that are there at the beginning."""

NOUNS: Final = _words("batch crate drum entry freight grade haul index job keg load margin notice order")
"""Second words of functions that are there at the beginning."""

TOPICS: Final = _words(
    "freight salt timber wool copper barley glass hides lamp ink rope tar wax pepper tin cider marble linen sugar slate"
    " honey canvas indigo saffron amber cork flint hemp jute lime"
)
"""Topics of the user's surcharges."""

FIRST: Final = _words(
    "berth quay ledger tally ballast tare stack crane hoist anchor beam cellar draft fender gantry hatch"
)
"""First words of functions that tasks add."""

SECOND: Final = _words("spread count due levy reserve outlay toll yield surplus advance")
"""Second words of functions that tasks add."""

SAYINGS: Final = (
    "Values come in the smallest unit, and go out in the same.",
    "A negative value stands for a return, and is treated as any other.",
    "The factor was agreed on with those who weigh, and is reviewed once a year.",
    "Callers that need another rounding do it themselves, as this one is what the books show.",
    "The result stays below the modulus, which is that of the paper forms in use.",
    "Nothing is kept between calls, so that two shifts may count at the same time.",
    "Where the scales are read twice, the later reading counts, and the earlier one is not told.",
    "What is asked for here is answered from the figures of the day, never from those of the month.",
)
"""Sentences for the comments."""


@dataclass(frozen=True, slots=True)
class Module:
    """One module of the package."""

    area: str  # its sub-package
    name: str
    quota: int  # the value of its constant `QUOTA`
    text: str
    checks: tuple[tuple[str, int], ...]  # calls of its functions with what they return, for its tests

    @property
    def path(self) -> str:
        return f"{PACKAGE}/{self.area}/{self.name}.py"


@dataclass(frozen=True, slots=True)
class World:
    """The repository as it is at the beginning."""

    modules: dict[str, Module]  # all modules by path, in order
    tickets: dict[str, int]  # by area, the value of its ticket, which can be drawn once

    @property
    def areas(self) -> list[str]:
        return list(dict.fromkeys(module.area for module in self.modules.values()))

    def of_area(self, area: str) -> list[Module]:
        return [module for module in self.modules.values() if module.area == area]

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield every file of the repository at the beginning: path and text."""
        yield ".gitignore", "__pycache__/\nvar/\n"
        yield "README.md", f"# {PACKAGE}\n\nThe books of a depot. Check an area with `sh check AREA`.\n"
        yield "check", _CHECK
        yield "draw", _DRAW
        yield "tools/check.py", _CHECK_TOOL
        yield "tools/draw.py", _DRAW_TOOL
        yield f"{PACKAGE}/__init__.py", '"""The books of a depot."""\n'
        yield "tests/__init__.py", ""
        for area in self.areas:
            yield f"{PACKAGE}/{area}/__init__.py", f'"""The books of the {area}."""\n'
            yield f"tests/{area}/__init__.py", ""
            yield f"tests/{area}/test_area.py", _tests(self.of_area(area))
            yield f"var/tickets/{area}", f"{self.tickets[area]}\n"
        for path, module in self.modules.items():
            yield path, module.text


def make_world(seed: int, *, areas: int, modules: int, file_tokens: int) -> World:
    """Return the repository of a seed.

    `areas`: number of sub-packages, at most 16.
    `modules`: number of modules in each, at most 10.
    `file_tokens`: mean tokens of a module, of four characters each.
    """
    pick = random.Random(f"{seed}:world")  # noqa: S311 - a seed is to give the same again
    files = {}
    for area in AREAS[:areas]:
        for name in MODULES[:modules]:
            module = _module(pick, area, name, int(4 * file_tokens * pick.uniform(0.65, 1.35)))
            files[module.path] = module
    return World(files, {area: pick.randrange(10_000, 99_999) for area in AREAS[:areas]})


def _module(pick: random.Random, area: str, name: str, length: int) -> Module:
    quota = pick.randrange(100, 999)
    head = f'"""The {name} of the {area}.\n\n{_paragraph(pick, 3)}\n"""\n\nfrom typing import Final\n'
    pieces, names = [head], ["QUOTA"]
    checks: list[tuple[str, int]] = []
    where = pick.randrange(length // 4, length * 3 // 4)
    placed = False
    while sum(map(len, pieces)) < length or not placed:
        if not placed and sum(map(len, pieces)) >= where:
            pieces.append(f"\nQUOTA: Final = {quota}\n")
            placed = True
        function = f"{pick.choice(VERBS)}_{pick.choice(NOUNS)}_{len(names):02}"
        factor, shift, modulus = (pick.randrange(10, 999) for _ in range(3))
        pieces.append(_function(pick, function, factor, shift, modulus))
        names.append(function)
        if len(checks) < 3:
            value = pick.randrange(1_000)
            checks.append((f"{function}({value})", (value * factor + shift) % modulus))
    pieces.append(f"\n\n__all__ = {json.dumps(names)}\n")
    return Module(area, name, quota, "".join(pieces), tuple(checks))


def _function(pick: random.Random, name: str, factor: int, shift: int, modulus: int) -> str:
    sentence = f"{pick.choice(VERBS).capitalize()} the {pick.choice(NOUNS)} by the {pick.choice(NOUNS)} of the day."
    return (
        f"\n\ndef {name}(value: int) -> int:\n"
        f'    """{sentence}\n\n{textwrap.indent(_paragraph(pick, 2), "    ")}\n    """\n'
        f"    weighed = value * {factor} + {shift}\n"
        f"    return weighed % {modulus}\n"
    )


def _paragraph(pick: random.Random, sentences: int) -> str:
    return textwrap.fill(" ".join(pick.sample(SAYINGS, sentences)), 96)


def _tests(modules: list[Module]) -> str:
    lines = ["import unittest", "", f"from {PACKAGE}.{modules[0].area} import ("]
    lines += [f"    {module.name}," for module in modules]
    lines += [")", "", "", "class Area(unittest.TestCase):"]
    for module in modules:
        lines += [f"    def test_{module.name}(self) -> None:"]
        lines += [f"        self.assertEqual({module.name}.{call}, {result})" for call, result in module.checks]
        lines += [
            f"        self.assertTrue(all(hasattr({module.name}, name) for name in {module.name}.__all__))",
            "",
        ]
    return "\n".join(lines)


_CHECK: Final = """\
#!/bin/sh
# Run the tests of an area, or of all areas if none is named. PYTHON chooses the interpreter.
PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" tools/check.py "$@"
"""

_DRAW: Final = """\
#!/bin/sh
# Draw the ticket of an area. It can be drawn once.
exec "${PYTHON:-python3}" tools/draw.py "$@"
"""

# No times, so that the same work prints the same output.
_CHECK_TOOL: Final = '''\
"""Run the tests of an area, or of all areas if none is named."""

import io
import sys
import unittest

sys.path.insert(0, ".")
area = sys.argv[1] if len(sys.argv) > 1 else ""
suite = unittest.defaultTestLoader.discover(f"tests/{area}".rstrip("/"), top_level_dir=".")
report = io.StringIO()
result = unittest.TextTestRunner(report).run(suite)
for test, trace in [*result.failures, *result.errors]:
    print(f"FAILED {test}: {trace.strip().splitlines()[-1]}")
print(f"{result.testsRun} tests, {len(result.failures) + len(result.errors)} failed")
sys.exit(not result.wasSuccessful())
'''

_DRAW_TOOL: Final = '''\
"""Draw the ticket of an area. It can be drawn once."""

import sys
from pathlib import Path

area = sys.argv[1]
path = Path("var/tickets") / area
try:
    ticket = path.read_text(encoding="utf-8").strip()
    path.unlink()
except FileNotFoundError:
    sys.exit(f"the ticket for {area} has been drawn already")
print(f"ticket for {area}: {ticket}")
'''
