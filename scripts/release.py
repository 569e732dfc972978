"""Build a release and check it, up to but not including publishing.

    python scripts/release.py [--no-extras]

Builds the source distributions and the wheels of `wane` and `wane-research` into `dist/`. Checks the versions, the
metadata, the wheels' sizes and files, that a clean environment can install the wheels and run them, and that pip can
resolve each extra.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
FOLDERS: Final = {"wane": ".", "wane_research": "research"}
"""By package, the folder of its distribution."""

MAX_WHEEL: Final = 3 * 2**19
"""Bytes that a wheel may have, so that it does not grow unnoticed."""

NEWER: Final = {"openhands": (3, 12), "dev-openhands": (3, 12)}
"""Extras that need a newer Python than Wane."""

# Runs in a clean environment, away from the repository.
_USE: Final = """
import sys, wane
assert "site-packages" in wane.__file__, wane.__file__
assert not {"rich", "pydantic_ai", "httpx", "starlette"} & sys.modules.keys(), "importing wane imports too much"
plan = wane.plan([{"role": "user", "content": "Hello."}], budget=1_000)
assert plan.messages == [{"role": "user", "content": "Hello."}]
assert [name for name in wane.__all__ if not hasattr(wane, name)] == []
print(wane.__version__)
"""


class ReleaseError(Exception):
    """The release is not fit to publish; the message says why."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program and return what it printed.

    Raises:
        ReleaseError: if it fails.
    """
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def version(root: Path = ROOT) -> str:
    """Return the version.

    Raises:
        ReleaseError: if the projects, the package and the changelog do not have the same.
    """
    project = str(metadata(root)["version"])
    package = re.search(r'__version__ = "(.*)"', (root / "src/wane/__init__.py").read_text(encoding="utf-8"))
    if package is None or package[1] != project:
        raise ReleaseError(f"pyproject.toml has version {project}, wane.__version__ is {package and package[1]}")
    research = metadata(root / FOLDERS["wane_research"])
    if research["version"] != project:
        raise ReleaseError(f"pyproject.toml has version {project}, research/pyproject.toml {research['version']}")
    if not any(re.fullmatch(rf"wane\[.*\]=={re.escape(project)}", needed) for needed in research["dependencies"]):
        raise ReleaseError(f"research/pyproject.toml does not ask for wane=={project}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## \[{re.escape(project)}\] - (\d{{4}}-\d\d-\d\d|unreleased)$", changes, re.MULTILINE)
    if heading is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{project}] with a date, or `unreleased`")
    if heading[1] == "unreleased":
        print(f"note: CHANGELOG.md has no date for {project} yet; set it before you publish")
    return project


def metadata(folder: Path) -> dict[str, Any]:
    """Return the table `project` of a distribution's pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def build(package: str) -> Path:
    """Build the wheel and the source distribution of a package, check their metadata, and return the wheel."""
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT / FOLDERS[package])
    (wheel,), (source,) = DIST.glob(f"{package}-*.whl"), DIST.glob(f"{package}-*.tar.gz")
    compress(wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    check_wheel(wheel, package)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {source.name}: {source.stat().st_size:,} bytes")
    return wheel


def compress(wheel: Path) -> None:
    """Compress a wheel again, with Zopfli, which saves 2.5 % and takes about a minute. Its files stay the same."""
    import zopfli  # of the extra `release`

    smaller = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as archive, zopfli.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as target:
        for info in archive.infolist():
            target.writestr(info, archive.read(info))
    smaller.replace(wheel)


def check_wheel(wheel: Path, package: str) -> None:
    """Check the size and the content of a package's wheel.

    Raises:
        ReleaseError: if it is too large, lacks `py.typed`, or has files outside the package.
    """
    if (size := wheel.stat().st_size) > MAX_WHEEL:
        raise ReleaseError(f"{wheel.name} has {size:,} bytes, more than {MAX_WHEEL:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if f"{package}/py.typed" not in names:
        raise ReleaseError(f"{wheel.name} has no {package}/py.typed")
    if strange := [name for name in names if not re.match(rf"{package}(-[^/]*\.dist-info)?/", name)]:
        raise ReleaseError(f"{wheel.name} has files outside the package: {', '.join(strange)}")


def environment(folder: Path) -> Path:
    """Make a virtual environment and return its Python."""
    run(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def check_installed(wheel: Path, research: Path, expected: str) -> None:
    """Install the wheel alone, and use it; then the research beside it, and use a command of that.

    Raises:
        ReleaseError: if that fails, or it reports another version.
    """
    with tempfile.TemporaryDirectory(prefix="wane-release-") as name:
        folder = Path(name)
        python = environment(folder / "venv")
        install(python, wheel)
        command = python.with_name("wane" + python.suffix)
        reported = run(python, "-I", "-c", _USE, cwd=folder), run(command, "--version", cwd=folder)
        if reported[0] != expected or not reported[1].endswith(expected):
            raise ReleaseError(f"the installed wheel reports version {reported}, not {expected}")
        (folder / "a.json").write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
        run(command, "plan", "a.json", "--budget", "10k", cwd=folder)
        install(python, research)
        run(command, "eval", "tasks", cwd=folder)


def install(python: Path, *arguments: str | Path) -> None:
    """Install something into an environment; packages of this release are taken from `dist/`.

    Raises:
        ReleaseError: if it cannot be installed.
    """
    options = ("--quiet", "--disable-pip-version-check", "--find-links", DIST)
    run(python, "-m", "pip", "install", *options, *arguments, cwd=python.parent)


def check_extras(wheels: Mapping[str, Path]) -> None:
    """Have pip resolve each extra by itself, without installing it.

    Args:
        wheels: by package.

    Raises:
        ReleaseError: if pip cannot resolve some; it names them.
    """
    failed = []
    with tempfile.TemporaryDirectory(prefix="wane-release-") as name:
        python = environment(Path(name) / "venv")
        for package, wheel in wheels.items():
            for extra in metadata(ROOT / FOLDERS[package])["optional-dependencies"]:
                if sys.version_info < NEWER.get(extra, ()):
                    print(f"  {extra}: not tried, it needs Python {'.'.join(map(str, NEWER[extra]))}")
                    continue
                try:
                    install(python, "--dry-run", f"{wheel}[{extra}]")
                    print(f"  {package}[{extra}]: resolved", flush=True)
                except ReleaseError as error:
                    failed.append(f"{package}[{extra}]: {str(error).splitlines()[-1]}")
    if failed:
        raise ReleaseError("extras that cannot be resolved:\n" + "\n".join(failed))


def main(args: list[str]) -> int:
    """Build and check; return 1 if something is wrong."""
    try:
        expected = version()
        shutil.rmtree(DIST, ignore_errors=True)
        wheels = {package: build(package) for package in FOLDERS}
        check_installed(wheels["wane"], wheels["wane_research"], expected)
        print("both install and run in a clean environment")
        if "--no-extras" not in args:
            check_extras(wheels)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"dist/ has version {expected}. Nothing was published: docs/releasing.md says how.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
