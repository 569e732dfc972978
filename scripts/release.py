"""Build a release and check it, up to but not including publishing.

    python scripts/release.py [--no-extras]

Builds the source distribution and the wheel into `dist/`. Checks the versions, the metadata, the wheel's size and
files, that a clean environment can install the wheel and run it, and that pip can resolve each extra.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MAX_WHEEL: Final = 2**20
"""Bytes that the wheel may have, so that it does not grow unnoticed."""

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
        ReleaseError: if the project, the package and the changelog do not have the same.
    """
    project = str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    package = re.search(r'__version__ = "(.*)"', (root / "src/wane/__init__.py").read_text(encoding="utf-8"))
    if package is None or package[1] != project:
        raise ReleaseError(f"pyproject.toml has version {project}, wane.__version__ is {package and package[1]}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## \[{re.escape(project)}\] - (\d{{4}}-\d\d-\d\d|unreleased)$", changes, re.MULTILINE)
    if heading is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{project}] with a date, or `unreleased`")
    if heading[1] == "unreleased":
        print(f"note: CHANGELOG.md has no date for {project} yet; set it before you publish")
    return project


def build() -> tuple[Path, Path]:
    """Build the wheel and the source distribution, check their metadata, and return them."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    (wheel,), (source,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    compress(wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    return wheel, source


def compress(wheel: Path) -> None:
    """Compress a wheel anew with Zopfli, which saves 2.5 % and takes about a minute. Its files stay the same."""
    import zopfli  # of the extra `release`

    smaller = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as archive, zopfli.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as target:
        for info in archive.infolist():
            target.writestr(info, archive.read(info))
    smaller.replace(wheel)


def check_wheel(wheel: Path) -> None:
    """Check a wheel's size and content.

    Raises:
        ReleaseError: if it is too large, lacks `py.typed`, or has files outside the package.
    """
    if (size := wheel.stat().st_size) > MAX_WHEEL:
        raise ReleaseError(f"{wheel.name} has {size:,} bytes, more than {MAX_WHEEL:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if "wane/py.typed" not in names:
        raise ReleaseError(f"{wheel.name} has no wane/py.typed")
    if strange := [name for name in names if not re.match(r"wane(-[^/]*\.dist-info)?/", name)]:
        raise ReleaseError(f"{wheel.name} has files outside the package: {', '.join(strange)}")


def environment(folder: Path) -> Path:
    """Make a virtual environment and return its Python."""
    run(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def check_installed(wheel: Path, expected: str) -> None:
    """Install the wheel alone, and use it.

    Raises:
        ReleaseError: if that fails, or it reports another version.
    """
    with tempfile.TemporaryDirectory(prefix="wane-release-") as name:
        folder = Path(name)
        python = environment(folder / "venv")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
        command = python.with_name("wane" + python.suffix)
        reported = run(python, "-I", "-c", _USE, cwd=folder), run(command, "--version", cwd=folder)
        if reported[0] != expected or not reported[1].endswith(expected):
            raise ReleaseError(f"the installed wheel reports version {reported}, not {expected}")
        (folder / "a.json").write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
        run(command, "plan", "a.json", "--budget", "10k", cwd=folder)


def check_extras(wheel: Path) -> None:
    """Have pip resolve each extra by itself, without installing it.

    Raises:
        ReleaseError: if pip cannot resolve some; it names them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    failed = []
    with tempfile.TemporaryDirectory(prefix="wane-release-") as name:
        python = environment(Path(name) / "venv")
        for extra in project["optional-dependencies"]:
            if sys.version_info < NEWER.get(extra, ()):
                print(f"  {extra}: not tried, it needs Python {'.'.join(map(str, NEWER[extra]))}")
                continue
            try:
                run(python, "-m", "pip", "install", "--dry-run", "--quiet", f"{wheel}[{extra}]", cwd=Path(name))
                print(f"  {extra}: resolved", flush=True)
            except ReleaseError as error:
                failed.append(f"{extra}: {str(error).splitlines()[-1]}")
    if failed:
        raise ReleaseError("extras that cannot be resolved:\n" + "\n".join(failed))


def main(args: list[str]) -> int:
    """Build and check; return 1 if something is wrong."""
    try:
        found = version()
        wheel, source = build()
        check_wheel(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {source.name}: {source.stat().st_size:,} bytes")
        check_installed(wheel, found)
        print("installs and runs in a clean environment")
        if "--no-extras" not in args:
            check_extras(wheel)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"dist/ has version {found}. Nothing was published: docs/releasing.md says how.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
