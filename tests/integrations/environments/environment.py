"""Frameworks that cannot share the environment of the others: each runs its contract tests in one of its own.

These environments are made beside that of this run, and are kept while `pyproject.toml` stays as it is. Each has a file
of tests, so that they run at once. To make all ahead, while other tests run:
`python -m tests.integrations.environments.environment`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = "tests/integrations/adapters"
MOST = 280.0
"""Seconds that an environment may take to install during the tests."""

# By environment, which is an extra of the project, and module: the tests.
FRAMEWORKS = {
    "dev-google-adk": {
        "google.adk": ["test_google_adk.py", "test_guides.py", "test_versions.py", "test_reasoning.py"],
        "inspect_ai": ["test_inspect_ai.py"],
    },
    "dev-litellm": {
        "minisweagent": ["test_mini_swe_agent.py", "test_guides.py", "test_versions.py"],
        "litellm": ["test_litellm.py", "test_reasoning.py"],
    },
    "dev-crewai": {"crewai": ["test_guides.py", "test_versions.py", "test_reasoning.py"]},
    "dev-openhands": {
        "openhands.sdk": ["test_openhands.py", "test_guides.py", "test_versions.py", "test_reasoning.py"],
    },
}
CONFLICTS = ("ResolutionImpossible", "conflicting dependencies", "unsatisfiable")
"""How an installer says that requirements exclude each other: that is a fault of the project."""


# LiteLLM looks for newer prices in a thread, whose warning that there is no network can lock its import.
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
PROGRAM = "import sys, pytest, {modules}; sys.exit(pytest.main(sys.argv[1:]))"
"""Runs tests in a process that has all of the frameworks; those of a framework that is missing would skip."""


def interpreter(extra: str) -> str:
    """Return the environment's interpreter; skip where it cannot be made."""
    if not missing(extra):
        pytest.skip("all of its frameworks are installed here, and their tests run with the others")
    if sys.prefix == sys.base_prefix or not os.access(sys.prefix, os.W_OK):
        pytest.skip(f"{sys.prefix} is no virtual environment with room for others")
    if why := make(extra, MOST):
        pytest.skip(why)
    return str(folder(extra) / "bin" / "python")


class EnvironmentTests:
    """The contract tests of an environment's frameworks, for its file to inherit."""

    extra = ""

    @pytest.mark.full
    def test_their_contracts_hold_there(self, pytestconfig: pytest.Config) -> None:
        python, modules = interpreter(self.extra), missing(self.extra)
        paths = dict.fromkeys(f"{TESTS}/{name}" for module in modules for name in FRAMEWORKS[self.extra][module])
        chosen = ["-m", pytestconfig.getoption("markexpr"), "-p", "no:cacheprovider"]
        program = PROGRAM.format(modules=", ".join(modules))
        code, told = run([python, "-c", program, *chosen, *paths], 500, **OFFLINE)
        # The end has the names of those that failed.
        assert code == 0, told[-20_000:]


def missing(extra: str) -> list[str]:
    """Return the frameworks of an environment that are not installed here."""
    return [module for module in FRAMEWORKS[extra] if not is_installed(module)]


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def folder(extra: str) -> Path:
    return Path(sys.prefix) / "environments" / extra


def make(extra: str, seconds: float) -> str:
    """Make an environment, and return what prevented it."""
    stamp, wanted = folder(extra) / ".ready", (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return ""
    python = newer_python() if extra == "dev-openhands" else sys.executable
    if python is None:
        return "OpenHands needs Python 3.12 or newer, and none was found"
    code, told = run(["sh", "scripts/install.sh", str(folder(extra)), extra], seconds, PYTHON=python)
    if code is None:
        return f"the environment {extra} was not installed within {seconds:.0f} s; run it again to go on"
    if code:
        assert not any(word in told for word in CONFLICTS), told[-2_000:]
        return f"the environment {extra} could not be installed: {told.strip().splitlines()[-1]}"
    stamp.write_text(wanted, encoding="utf-8")
    return ""


def newer_python() -> str | None:
    """A Python of 3.12 or newer, if one is found."""
    if sys.version_info >= (3, 12):
        return sys.executable
    found = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    found += sorted(map(str, Path.home().glob(".pyenv/versions/3.1[234].*/bin/python3")))
    return next((path for path in found if path and works(path)), None)


def works(python: str) -> bool:
    """Whether it is what its name says; a launcher may be there for a version that is not."""
    code = "import sys, ensurepip; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def run(command: list[str], seconds: float, **variables: str) -> tuple[int | None, str]:
    """Run a command in the project, without a terminal: its exit code, None if it took too long, and what it said."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return None, ""
    return started.returncode, told


if __name__ == "__main__":
    wanted = [extra for extra in FRAMEWORKS if missing(extra)]
    with ThreadPoolExecutor() as pool:
        for why in filter(None, pool.map(lambda extra: make(extra, 900), wanted)):
            print(why, file=sys.stderr)
