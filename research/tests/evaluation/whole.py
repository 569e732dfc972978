"""What tests of whole evaluations share: a Python with Harbor, and how to run the command with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wane_research.evaluation.results import FILE_NAME, RunResults, read

ROOT = Path(__file__).parents[3]
SOURCES = os.pathsep.join(str(ROOT / folder) for folder in ("src", "research/src"))
"""The code of this repository, for PYTHONPATH."""

COMMAND = "import sys; from wane.cli.main import main; sys.exit(main())"
TASKS = ("apple", "birch", "cedar")
PATIENCE = 500.0
KEY = "a-key-of-this-test-0123456789"


def find_python() -> str:
    """A Python with Harbor: this one, or that of the second environment; "" without."""
    named = os.environ.get("WANE_EVAL_PYTHON")
    for python in filter(None, (named, sys.executable, str(ROOT / ".venv-eval" / "bin" / "python"))):
        if (
            Path(python).exists()
            and not subprocess.run(
                [python, "-c", "import harbor, wane, anthropic"], capture_output=True, check=False
            ).returncode
        ):
            return python
    return ""


def wait_for_end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, out


def results(folder: Path, protocol: str) -> RunResults:
    (found,) = (it for it in map(read, folder.rglob(FILE_NAME)) if it.run.arm.protocol == protocol)
    return found
