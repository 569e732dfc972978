"""A bundle: a folder with Wane and everything it needs, to be mounted read-only in any Linux environment.

It consists of the running Python and its installed packages, so that a benchmark measures the code that is installed
here. It brings its own libraries, even the C library, and starts through its own loader. So it needs nothing of the
environment, and the agent's commands there do not see it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from functools import cache
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock

import wane
from wane.core.errors import WaneError

PLACE: Final = "/opt/wane"  # the folder of a bundle in an environment

COMMAND: Final = f"{PLACE}/bin/wane"

EXTRAS: Final = ("agent", "proxy", "openai", "anthropic", "google")
"""Extras of Wane whose packages are included if they are installed."""

_LAYOUT: Final = 3
_KEPT: Final = 30 * 24 * 3600.0
_PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LEFT_OUT: Final = (
    *("__pycache__", "test", "tests", "idlelib", "tkinter", "_tkinter*", "turtledemo", "lib2to3", "site-packages"),
    *("*.a", "config-*"),
)
_LIBRARY: Final = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
# It starts through its own loader and libraries; -I and -B keep it from touching the environment that it works in.
_PYTHON_SCRIPT: Final = """\
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
exec "$here/lib/loader" --library-path "$here/lib" "$here/bin/{python}" -B "$@"
"""
# The agent's shell is supervised by another Python, started by the name of this one.
_WANE_SCRIPT: Final = """\
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
exec "$here/bin/python" -I -c "import sys; sys.executable = '$here/bin/python'
from wane.cli.main import main; sys.exit(main())" "$@"
"""


class BundleError(WaneError, RuntimeError):
    """A bundle that cannot be made here."""


@cache
def ensure() -> Path:
    """Return the folder of the bundle of the packages installed now; make it in the user's cache if it does not exist.

    In one process it is always the same, even if the sources change meanwhile.

    Raises:
        BundleError: if it cannot be made, or does not start.
    """
    if not sys.platform.startswith("linux"):
        raise BundleError("a bundle for Linux environments can only be made on Linux")
    packages = _closure()
    folder = platformdirs.user_cache_path("wane", appauthor=False) / "bundles"
    target = folder / _name(packages)
    if target.exists():
        target.touch()
        return target
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may be making it: waiting is quicker than making it twice.
    with FileLock(folder / ".lock"):
        if target.exists():
            return target
        # Remove bundles that have not been used for weeks: each change of the source makes a new one.
        oldest = time.time() - _KEPT
        for old in folder.glob("*-*"):
            if old.stat().st_mtime < oldest:
                shutil.rmtree(old, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
        try:
            _fill(new, packages)
            command = [str(new / "bin" / "wane"), "--version"]
            env = {"PATH": os.defpath}
            started = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)  # noqa: S603
            if started.returncode:
                reason = (started.stderr or started.stdout).strip()[-1000:]
                raise BundleError(f"the bundle does not start: {reason}")
            new.chmod(0o755)
            new.rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return target


def _name(packages: dict[str, Distribution]) -> str:
    digest = sha256(f"{_LAYOUT} {sys.version} {sys.base_prefix}".encode())
    for name, package in sorted(packages.items()):
        digest.update(f"\0{name} {package.version}".encode())
    root = Path(wane.__file__).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return f"wane-{wane.__version__}-{digest.hexdigest()[:16]}"


def _closure() -> dict[str, Distribution]:
    """The installed packages that Wane needs with its extras, by normalised name; Wane is one of them."""
    from packaging.requirements import Requirement

    packages: dict[str, Distribution] = {}
    todo: list[tuple[str, tuple[str, ...]]] = [("wane", EXTRAS)]
    visited: dict[str, set[str]] = {}  # by package, the extras whose requirements were looked at
    while todo:
        name, extras = todo.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        try:
            package = packages.setdefault(key, distribution(name))
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        looked_at = visited.setdefault(key, set())
        for extra in sorted({"", *extras} - looked_at):
            looked_at.add(extra)
            for text in package.requires or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    todo.append((needed.name, tuple(needed.extras)))
    return packages


def _fill(new: Path, packages: dict[str, Distribution]) -> None:
    base = Path(sys.base_prefix)
    (new / "bin").mkdir()
    shutil.copy2(Path(sys.base_exec_prefix) / "bin" / _PYTHON, new / "bin" / _PYTHON)
    library = new / "lib" / _PYTHON
    shutil.copytree(base / "lib" / _PYTHON, library, symlinks=False, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    site = library / "site-packages"
    site.mkdir()
    for package in packages.values():
        _copy_package(package, site, new / "bin")
    shutil.copytree(
        Path(wane.__file__).parent, site / "wane", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    _add_libraries(new)
    for name, text in (("python", _PYTHON_SCRIPT), ("wane", _WANE_SCRIPT)):
        script = new / "bin" / name
        script.write_text(text.format(python=_PYTHON), encoding="utf-8")
        script.chmod(0o755)
    # The bundle is read-only in the environment, so each start there would compile everything again. Some packages have
    # templates that are not valid Python; their errors do not matter.
    compiled = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(library)]
    subprocess.run([str(new / "bin" / "python"), "-I", *compiled], capture_output=True, check=False)  # noqa: S603


def _copy_package(package: Distribution, site: Path, scripts: Path) -> None:
    for file in package.files or ():
        source = Path(str(file.locate())).resolve()
        if "__pycache__" in file.parts or not source.is_file():
            continue
        if ".." not in file.parts:
            target = site / file
        elif source.parent == Path(sysconfig.get_path("scripts")).resolve() and source.name == "rg":
            # The only program that the agent starts by name. Other scripts name the Python they came with.
            target = scripts / source.name
        else:
            continue
        if file.suffix == ".pth" or file.name.startswith("__editable__"):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _add_libraries(new: Path) -> None:
    """Copy the shared libraries that the Python and its packages are linked with, and the loader."""
    libraries: dict[str, Path] = {}
    loader: Path | None = None
    for path in (new / "bin" / _PYTHON, *(path for path in new.rglob("*.so*") if path.is_file())):
        done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        for name, library in _LIBRARY.findall(done.stdout):
            if not name:
                loader = loader or Path(library)
            elif not Path(library).is_relative_to(new):
                libraries.setdefault(name, Path(library))
    if loader is None:
        raise BundleError(f"{sys.executable} cannot be bundled: ldd names no loader for it")
    shutil.copy2(loader.resolve(), new / "lib" / "loader")
    for name, path in libraries.items():
        shutil.copy2(path.resolve(), new / "lib" / name)
