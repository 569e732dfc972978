"""What is judged to read does no more under real shells, without a sandbox."""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.agent.approval.fuzzing import SHELLS, TOKEN, Range, mutate_line, table_lines
from tests.marks import wide
from wane.agent.sandbox import wall
from wane.agent.sandbox.wall import Confinement, Sandbox

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(os.name == "nt", reason="needs shells of POSIX"),
    pytest.mark.skipif(not all(map(shutil.which, SHELLS)), reason="needs dash and bash"),
]
LINES = 1_500
UNJUDGED = 150
SHARES = 11
"""Parts of the lines of the table, of which every run takes one."""


@pytest.fixture
def shooting(tmp_path: Path) -> Range:
    return Range(tmp_path)


@pytest.mark.parametrize(
    ("line", "trace"),
    [
        ("touch mark", "mark"),
        ("cat link/secret >/dev/null", "secret"),
        ("echo $SECRET", "tells"),
        ("ls link", "tells"),
        ("git add app.log", "index"),
    ],
)
def test_what_must_not_be_done_is_noticed(line: str, trace: str, shooting: Range) -> None:
    assert not shooting.reads(line)
    assert trace in " ".join(shooting.harm(line))
    assert TOKEN not in line


@pytest.mark.parametrize("seed", [1, 2, *wide(*range(3, 20))])
def test_mutated_lines_that_read_do_no_more(seed: int, shooting: Range) -> None:
    randomness = random.Random(seed)
    reading = 0
    for _ in range(LINES):
        line = mutate_line(randomness)
        if shooting.reads(line):
            reading += 1
            harm = list(shooting.harm(line))
            assert not harm, (line, harm)
    assert reading > LINES // 20, "the lines are not harmless enough to show anything"


@pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")
@pytest.mark.parametrize("seed", [20, *wide(*range(21, 31))])
@pytest.mark.parametrize("kind", [Confinement.BUBBLEWRAP, Confinement.LANDLOCK])
def test_the_sandbox_alone_holds_all_lines(kind: Confinement, seed: int, shooting: Range) -> None:
    none = Sandbox(Confinement.NONE, Path(os.path.realpath(shooting.project)))
    holding = [one for one in wall._candidates(none, os.environ) if one.kind is kind and not wall.probe(one)]
    if not holding:
        pytest.skip(f"{kind} does not hold on this machine")
    randomness = random.Random(seed)
    asking = 0
    for _ in range(UNJUDGED):
        line = mutate_line(randomness)
        asking += not shooting.reads(line)
        harm = [told for told in shooting.harm(line, holding[0]) if not told.endswith("it does not end")]
        assert not harm, (line, harm)
    assert asking > UNJUDGED // 2, "the lines are harmless without a sandbox, too"


@pytest.mark.parametrize("share", [0, *wide(*range(1, SHARES))])
def test_no_option_of_the_table_does_more_than_read(share: int, shooting: Range) -> None:
    lines = list(dict.fromkeys(table_lines()))[share::SHARES]
    reading = [line for line in lines if shooting.reads(line)]
    assert len(reading) > len(lines) * 0.8, "an option of the table is allowed"
    for line in reading:
        harm = list(shooting.harm(line))
        assert not harm, (line, harm)
