"""What the checks of all three steps share: a test file of ours run in the tree, the existing tests, and rewards."""

from __future__ import annotations

import json
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

TREE = Path("/app/excalidraw")
COMMIT = "817d8c553c3389650f8b4503984a6d4a5d2f0c11"
TESTS = Path(__file__).parent
PLACE = TREE / "packages/excalidraw/tests"
VITEST = ("npx", "vitest", "run", "--retry=3", "--testTimeout=60000")
"""On a busy machine Excalidraw's tests fail at random: they wait a second for the editor, and have five in all."""
REWARDS = Path("/logs/verifier/reward.json")


def typechecks() -> bool:
    return _passes("npx", "tsc")


def behaves(name: str) -> bool:
    """Run a test file of ours, which stays in the tree no longer than that."""
    file = PLACE / f"checks-{name}.test.tsx"
    file.write_text((TESTS / f"{name}.test.tsx").read_text())
    try:
        return _passes(*VITEST, str(file.relative_to(TREE)))
    finally:
        file.unlink()


def existing_tests(*names: str) -> bool:
    """Run tests as they were at the start. Those are named that do not hold what a new tool or tab changes."""
    files = []
    try:
        for name in names:
            text = subprocess.run(
                ["git", "show", f"{COMMIT}:packages/excalidraw/tests/{name}"], cwd=TREE, check=True, capture_output=True
            ).stdout
            file = PLACE / f"base-{name}"
            file.write_bytes(text)
            files.append(file)
        return _passes(*VITEST, *(str(file.relative_to(TREE)) for file in files))
    finally:
        for file in files:
            file.unlink()


def grade(parts: dict[str, Callable[[], bool]]) -> None:
    """Write a reward for each part, and `reward`, which is 1 if all are."""
    rewards: dict[str, int] = {}
    for name, check in parts.items():
        try:
            rewards[name] = int(check())
        except Exception:  # a check that breaks does not hold
            traceback.print_exc()
            rewards[name] = 0
    rewards = {"reward": min(rewards.values()), **rewards}
    REWARDS.write_text(json.dumps(rewards) + "\n")
    print(rewards)


def _passes(*argv: str) -> bool:
    done = subprocess.run(argv, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
    if done.returncode:
        print(" ".join(argv), "\n", done.stdout.decode(errors="replace")[-6000:])
    return done.returncode == 0
