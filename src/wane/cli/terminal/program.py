"""How the user calls this program again, for lines that name a command to type."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def program(started_as: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Return `wane` if the user's shell finds this program by that name, else the path by which it was started.

    `make demo` starts `.venv/bin/wane`, which is not on the path of the user's shell. Neither is what `uv run` and
    `uvx` start: they put it on the path of the program alone, and set `UV`.
    """
    started = Path(sys.argv[0] if started_as is None else started_as)
    environ = os.environ if environ is None else environ
    if started.name == "__main__.py":
        return f"{_format_path(Path(sys.executable))} -m wane"
    if started.stem != "wane" or not started.exists():
        return "wane"
    from wane.agent.search_path import users_environment

    on_path = None if "UV" in environ else shutil.which("wane", path=users_environment(environ).get("PATH"))
    if on_path is not None and Path(on_path).resolve() == started.resolve():
        return "wane"
    return _format_path(started)


def _format_path(path: Path) -> str:
    """Return a path as one would type it here: relative if the current directory is above it."""
    cwd, absolute = Path.cwd(), path.absolute()
    if absolute.is_relative_to(cwd):
        path = absolute.relative_to(cwd)
    return shlex.quote(str(path))
