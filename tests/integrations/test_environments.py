"""Frameworks that cannot share the environment of the others: each runs its contract tests in one of its own.

These environments are made beside that of this run, and are kept while `pyproject.toml` stays as it is. To make them
ahead, while other tests run: `python -m tests.integrations.test_environments`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = "tests/integrations/adapters"
MOST = 280.0
"""Seconds that all environments together may take to install."""

# By module: the environment, which is an extra of the project, and its tests.
FRAMEWORKS = {
    "google.adk": ("dev-google-adk", ["test_google_adk.py", "test_google_adk_format.py", "test_guides.py"]),
    "inspect_ai": ("dev-google-adk", ["test_inspect_ai.py", "test_inspect_ai_format.py"]),
    "minisweagent": ("dev-litellm", ["test_mini_swe_agent.py", "test_guides.py"]),
    "litellm": ("dev-litellm", ["test_litellm.py"]),
    "openhands.sdk": ("dev-openhands", ["test_openhands.py", "test_openhands_format.py", "test_guides.py"]),
}
EXTRAS = tuple(dict.fromkeys(extra for extra, _ in FRAMEWORKS.values()))
CONFLICTS = ("ResolutionImpossible", "conflicting dependencies", "unsatisfiable")
"""How an installer says that requirements exclude each other: that is a fault of the project."""


@dataclass
class Environments:
    """The environments by extra, each made when it is first asked for."""

    folder: Path
    left: float = MOST
    made: dict[str, str] = field(default_factory=dict)

    def python(self, extra: str) -> str:
        """The environment's interpreter; the test is skipped where it cannot be made."""
        if extra not in self.made:
            self.made[extra] = self.make(extra)
        if why := self.made[extra]:
            pytest.skip(why)
        return str(self.folder / extra / "bin" / "python")

    def make(self, extra: str) -> str:
        """Make one, and return what prevented it."""
        place = self.folder / extra
        stamp, wanted = place / ".ready", (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return ""
        python = newer_python() if extra == "dev-openhands" else sys.executable
        if python is None:
            return "OpenHands needs Python 3.12 or newer, and none was found"
        started = time.monotonic()
        code, told = run(["sh", "scripts/install.sh", str(place), extra], self.left, PYTHON=python)
        self.left = max(0.0, self.left - (time.monotonic() - started))
        if code is None:
            return f"the environment {extra} was not installed within {MOST:.0f} s; run it again to go on"
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


@pytest.fixture(scope="module")
def environments() -> Environments:
    folder = Path(sys.prefix) / "environments"
    if sys.prefix == sys.base_prefix or not os.access(sys.prefix, os.W_OK):
        pytest.skip(f"{sys.prefix} is no virtual environment with room for others")
    return Environments(folder)


def installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def missing(extra: str) -> list[str]:
    """The frameworks of an environment that are not installed here."""
    return [module for module, (needed, _) in FRAMEWORKS.items() if needed == extra and not installed(module)]


@pytest.mark.full
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_environment_has_its_frameworks(extra: str, environments: Environments) -> None:
    if not missing(extra):
        pytest.skip("all of its frameworks are installed here, and their tests run with the others")
    python = environments.python(extra)
    code, told = run([python, "-c", f"import {', '.join(missing(extra))}"], MOST)
    assert code == 0, told[-2_000:]


@pytest.mark.full
@pytest.mark.parametrize("module", FRAMEWORKS)
def test_its_contract_holds_there(module: str, environments: Environments) -> None:
    if installed(module):
        pytest.skip(f"{module} is installed here, and its tests run with the others")
    extra, files = FRAMEWORKS[module]
    python = environments.python(extra)
    paths = [f"{TESTS}/{name}" for name in files]
    code, told = run([python, "-m", "pytest", "-m", "", "-p", "no:cacheprovider", *paths], 500)
    # The end has the names of those that failed.
    assert code == 0, told[-20_000:]


if __name__ == "__main__":
    ahead = Environments(Path(sys.prefix) / "environments", left=900)
    for each in EXTRAS:
        if missing(each) and (why := ahead.make(each)):
            print(why, file=sys.stderr)
