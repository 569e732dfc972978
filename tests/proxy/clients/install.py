"""The real clients, from their registries, in a cache of the user's outside the repository.

To install all ahead, while other work is done: `python -m tests.proxy.clients.install`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import platformdirs
from filelock import FileLock

NODE = "node@22.23.3"
_OLDEST_NODE = (22, 19)
_PATIENCE = 240  # seconds for one installation


class UnavailableError(Exception):
    """A client that cannot be installed here, with the reason."""


@dataclass(frozen=True)
class Package:
    """A client: the version that it was tried with, and what has to be run once it is there.

    One that is written in Python names the versions of Python that it runs on, and requirements in place of its own,
    where the index has not what it asks for.
    """

    spec: str
    program: str
    after: tuple[str, ...] = ()
    needs_node: bool = False
    python: str = ""
    overrides: tuple[str, ...] = ()


CLAUDE = Package("@anthropic-ai/claude-code@2.1.332", "claude", ("node_modules/@anthropic-ai/claude-code/install.cjs",))
CODEX = Package("@openai/codex@0.171.0", "codex")
PI = Package("@earendil-works/pi-coding-agent@1.6.0", "pi", needs_node=True)
# It names only the provider's SDK.
EARLIER_PI = Package("@earendil-works/pi-coding-agent@0.80.10", "pi", needs_node=True)
GEMINI = Package("@google/gemini-cli@0.61.0", "gemini")
OPENCODE = Package("opencode-ai@1.18.33", "opencode", ("node_modules/opencode-ai/postinstall.mjs",))
COPILOT = Package("@github/copilot@1.0.102", "copilot", needs_node=True)
QWEN = Package("@qwen-code/qwen-code@0.24.4", "qwen", needs_node=True)
KIMI = Package("@moonshot-ai/kimi-code@2.1.0", "kimi", needs_node=True)
CLINE = Package("cline@3.0.65", "cline", needs_node=True)
CLAUDE_ACP = Package("@agentclientprotocol/claude-agent-acp@0.101.0", "claude-agent-acp", needs_node=True)
CODEX_ACP = Package("@agentclientprotocol/codex-acp@2.6.0", "codex-acp", needs_node=True)
# From the Python package index, which has certifi 2026.10.19.post1 in place of the 2026.10.19 that it asks for.
VIBE = Package("mistral-vibe==3.0.3", "vibe", python=">=3.12", overrides=("certifi>=2026.10.19",))
VIBE_ACP = replace(VIBE, program="vibe-acp")
NODE_22 = Package(NODE, "node", ("node_modules/node/installArchSpecificPackage.js",))
PACKAGES = (CLAUDE, CODEX, PI, EARLIER_PI, GEMINI)
"""Those of `.ci/run`; the others come when a test asks for them."""


@dataclass(frozen=True)
class Installed:
    """A client that is there: its program, and the directories to put on the PATH for it."""

    program: Path
    path: tuple[Path, ...]


def install_client(package: Package) -> Installed:
    """Return a client, and install it, with all others of `.ci/run`, if it is not there yet.

    Raises:
        UnavailableError: if npm or the package is missing, or it cannot be installed.
    """
    outcome = _all_installed()[package] if package in PACKAGES else _try(package)
    if isinstance(outcome, UnavailableError):
        raise outcome
    return outcome


@cache
def _all_installed() -> dict[Package, Installed | UnavailableError]:
    """All at once: it is the registry that takes the time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(PACKAGES, pool.map(_try, PACKAGES), strict=True))


def prepare_folder(spec: str, install: Callable[[Path], None]) -> Path:
    """Return the folder of what was installed by this name, and let `install` fill it the first time.

    Where several processes ask at once, one installs and the others wait. What failed is tried again the next time.

    Raises:
        UnavailableError: if there is no place for the folder, or as `install` raises it.
    """
    folder = platformdirs.user_cache_path("wane-tests") / spec.replace("/", "+")
    done = folder / "installed"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"no place to install {spec}: {error}") from error
    with FileLock(folder / "lock"):
        if not done.exists():
            install(folder)
            done.touch()
    return folder


def _try(package: Package) -> Installed | UnavailableError:
    try:
        path = [_bin(package, _prepare(package))]
        if package.needs_node and not _has_node():
            path.append(_bin(NODE_22, _prepare(NODE_22)))
    except UnavailableError as error:
        return error
    return Installed(path[0] / package.program, tuple(path))


def _bin(package: Package, folder: Path) -> Path:
    return folder / "venv" / "bin" if package.python else folder / "node_modules" / ".bin"


def _prepare(package: Package) -> Path:
    return prepare_folder(package.spec, lambda folder: _install(package, folder))


def _install(package: Package, folder: Path) -> None:
    (_install_for_python if package.python else _install_for_node)(package, folder)
    if not (_bin(package, folder) / package.program).exists():
        raise UnavailableError(f"{package.spec} brought no program {package.program}")


def _install_for_python(package: Package, folder: Path) -> None:
    uv = shutil.which("uv")
    if uv is None:
        raise UnavailableError(f"{package.spec} cannot be installed: there is no uv")
    _run([uv, "venv", "--clear", "--no-python-downloads", "--python", _python(package), str(folder / "venv")], folder)
    overrides = folder / "overrides.txt"
    overrides.write_text("\n".join(package.overrides))
    python = str(folder / "venv" / "bin" / "python")
    _run([uv, "pip", "install", "--python", python, "--overrides", str(overrides), package.spec], folder)


def _python(package: Package) -> str:
    """The interpreter for a package: one of pyenv's, whose programs on the PATH need not work, or what uv finds."""
    versions = sorted((Path.home() / ".pyenv" / "versions").glob("3.1[2-9].*/bin/python"))
    return str(versions[0]) if versions else package.python


def _install_for_node(package: Package, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(f"{package.spec} cannot be installed: there is no npm")
    options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"]
    options += [
        "--fetch-retries=1",
        "--fetch-timeout=30000",
        "--fetch-retry-mintimeout=1000",
        "--fetch-retry-maxtimeout=5000",
    ]
    _run([npm, "install", "--prefix", str(folder), *options, package.spec], folder)
    for script in package.after:
        _run(["node", script], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{' '.join(command[:2])} failed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise UnavailableError(f"{' '.join(command[:2])} failed: {' '.join(said)}")


def _has_node() -> bool:
    """Whether the machine's own Node is new enough."""
    node = shutil.which("node")
    if node is None:
        return False
    said = subprocess.run([node, "-p", "JSON.stringify(process.versions.node)"], capture_output=True, text=True)
    version = str(json.loads(said.stdout)) if said.returncode == 0 else "0"
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_NODE


if __name__ == "__main__":
    for each in PACKAGES:
        with contextlib.suppress(UnavailableError):  # its tests say why
            install_client(each)
