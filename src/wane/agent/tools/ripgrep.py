"""Puts ripgrep on PATH, because the harness's search tools start `rg` by name.

The `agent` extra installs it in the scripts directory of the Python that runs Wane. That directory is not on PATH when
`wane` is started by its full path, or from a tool's own environment.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final

from wane.agent.search_path import find_project, is_of_project, replace_path, users_environment


def warn_missing() -> str:
    """Return the warning if there is no `rg`."""
    from wane.installing import installation

    return (
        "ripgrep (rg) was not found, so searches are slower and ignore .gitignore. Install it with: "
        f"{installation().extras_line('agent')}, or from your system's packages"
    )


_CONFIG_VARIABLE: Final = "RIPGREP_CONFIG_PATH"
_CONFIG: Final = Path(__file__).with_name("ripgreprc")
_USERS_CONFIG: Final = "WANE_USER_RIPGREP_CONFIG_PATH"


def enable(
    environ: MutableMapping[str, str], directories: Sequence[str] | None = None, project: Path | None = None
) -> bool:
    """Change an environment so that processes find `rg`, and `rg` respects `.gitignore` outside repositories too.

    The scripts directory is appended to PATH, so it shadows none of the user's programs. The user's ripgrep
    configuration is set aside, because the search tools parse the output of `rg`. A second call changes nothing.

    Args:
        environ: the environment.
        directories: where to look besides PATH; by default the scripts directories of this Python.
        project: the directory of the session. An `rg` of its own project is not started.

    Returns:
        Whether there is an `rg`.
    """
    directories = _script_directories() if directories is None else directories
    if project is not None and may_be_of_project(environ, project):
        return False
    if shutil.which("rg", path=environ.get("PATH", os.defpath)) is None:
        scripts = next((path for path in directories if shutil.which("rg", path=path)), None)
        if scripts is None:
            return False
        replace_path(environ, os.pathsep.join(filter(None, (environ.get("PATH", os.defpath), scripts))))
    if environ.get(_CONFIG_VARIABLE) != str(_CONFIG):
        if users := environ.get(_CONFIG_VARIABLE):
            environ[_USERS_CONFIG] = users
        environ[_CONFIG_VARIABLE] = str(_CONFIG)
    return True


def may_be_of_project(environ: Mapping[str, str], project: Path) -> bool:
    """Return whether the first `rg` on PATH is one of the project of a directory.

    A relative entry of PATH counts as one: it means another folder in each directory.
    """
    directories = _script_directories()
    own = find_project(project)
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(entry, "rg")
        if not os.path.isabs(entry):
            return True
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return entry not in directories and (is_of_project(entry, own) or is_of_project(program, own))
    return False


def undone(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it was before `enable`, for the commands that the agent runs."""
    restored = users_environment(environ)
    if restored.get(_CONFIG_VARIABLE) == str(_CONFIG):
        del restored[_CONFIG_VARIABLE]
        if users := restored.pop(_USERS_CONFIG, None):
            restored[_CONFIG_VARIABLE] = users
    return restored


def _script_directories() -> tuple[str, ...]:
    # With `python -m venv --system-site-packages` and user installs, scripts are not beside the interpreter.
    return tuple(dict.fromkeys((sysconfig.get_path("scripts"), os.path.dirname(sys.executable))))
