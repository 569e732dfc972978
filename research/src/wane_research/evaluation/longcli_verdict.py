"""Turns the output of a LongCLI-Bench task's tests into rewards: for all passing, and for the share that passed.

This file runs inside a task's environment, as part of its `tests/test.sh`: it needs Python 3.8 and nothing else.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

PASSED = ("PASSED", "XFAIL", "SKIPPED")
FAILED = ("FAILED", "XPASS", "ERROR")


def verdict(folder: Path, modes: Mapping[str, str]) -> dict[str, float]:
    """Return the rewards: 1 if every set of tests passed, and the share of each set that passed.

    `folder`: the `test_output` that the tests wrote.
    `modes`: the format of each set's output, by the set's name (`f2p`, `p2p`): `pytest` or `text`. Sets in another
    format do not count.
    """
    parsers = {"pytest": _of_pytest, "text": _of_text}
    sets = {name: parsers[mode](folder, name) for name, mode in modes.items() if mode in parsers}
    rewards: dict[str, float] = {"reward": int(bool(sets))}
    for name, (passed, share) in sets.items():
        rewards[name] = round(share, 3)
        if not passed:
            rewards["reward"] = 0
    return rewards


def _of_pytest(folder: Path, name: str) -> tuple[bool, float]:
    path = folder / f"{name}_output.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    summary = re.split(r"=+\s*short test summary info\s*=+", text, maxsplit=1, flags=re.IGNORECASE)[1:]
    tests: dict[str, bool] = {}
    for line in "".join(summary).splitlines():
        outcome = line
        if line.startswith("FAILED") and " - " in line:
            # The reason for a failure is not part of the test's name.
            outcome = line.rpartition(" - ")[0]
        status, _, test = outcome.partition(" ")
        if status.strip(":") in PASSED + FAILED and test.strip():
            tests[test.strip().split("::", 1)[-1]] = status.strip(":") in PASSED
    share = sum(tests.values()) / len(tests) if tests else 0.0
    return bool(tests) and all(tests.values()), share


def _of_text(folder: Path, name: str) -> tuple[bool, float]:
    try:
        score = json.loads((folder / f"{name}_score.json").read_text(encoding="utf-8"))
        return int(score.get("is_pass", 0)) == 1, float(score.get("step_score", 0))
    except (OSError, ValueError, TypeError, AttributeError):
        # A script that crashed wrote none.
        return False, 0.0


if __name__ == "__main__":
    print(json.dumps(verdict(Path(sys.argv[1]), dict(word.split("=", 1) for word in sys.argv[2:]))))
