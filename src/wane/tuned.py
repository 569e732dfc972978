"""The budget that `wane tune --save` keeps for `--budget auto`, in a file of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from wane.budgets import TunedBudget
from wane.core.errors import ConfigError
from wane.replacing import replace_file

CONFIG_DIR_VARIABLE: Final = "WANE_CONFIG_DIR"
"""Names the user's directory of settings, if it is set."""

FILE: Final = "tuned.json"


def settings_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's directory of settings, which need not exist."""
    if override := environ.get(CONFIG_DIR_VARIABLE):
        return Path(override).expanduser()
    import platformdirs  # slow to load, and few plans ask for this

    return platformdirs.user_config_path("wane", appauthor=False)


def read_tuned(environ: Mapping[str, str]) -> TunedBudget | None:
    """Return the budget that was saved last; None if there is none.

    Raises:
        ConfigError: for a file that cannot be read.
    """
    path = settings_folder(environ) / FILE
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): remove it, or run wane tune --save again") from error
    try:
        data = json.loads(content)
        values = [data["tokens"], data["sessions"]]
    except (ValueError, KeyError, TypeError):
        values = []
    if not values or any(type(value) is not int or value < 1 for value in values):
        raise ConfigError(f"{path} holds no tuned budget: remove it, or run wane tune --save again")
    return TunedBudget(*values)


def usable_tuned(environ: Mapping[str, str], warn: Callable[[str], None]) -> TunedBudget | None:
    """Return the budget that was saved last; None if there is none, or if its file is damaged, of which `warn` is told.

    A saved budget is a convenience: no command stops because it cannot be read.
    """
    try:
        return read_tuned(environ)
    except ConfigError as error:
        warn(f"{error}. Until then there is no tuned budget")
        return None


def save_tuned(tuned: TunedBudget, environ: Mapping[str, str]) -> Path:
    """Keep a budget for `--budget auto`, and return its file.

    Raises:
        ConfigError: if the file cannot be written.
    """
    path = settings_folder(environ) / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{json.dumps(asdict(tuned))}\n".encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    return path
