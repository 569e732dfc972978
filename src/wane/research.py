"""Loads what the distribution `wane-research` adds where it is installed: commands, and strategies of other libraries.

Wane does not import it: its parts are loaded by name when they are asked for. Entry points would need the metadata of
all installed packages, and reading that takes a third of the command's start.
"""

from __future__ import annotations

from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, Final

from wane.core.errors import WaneError

_PACKAGE: Final = "wane_research"


class MissingResearchError(WaneError, ImportError):
    """A part of `wane-research`, which is not installed, or one of its extras.

    Args:
        part: what needs it, as a user would call it.
        extra: the extra of `wane-research` to install; "" for none.
    """

    def __init__(self, part: str, extra: str = "") -> None:
        from wane.installing import installation

        suffix = f"[{extra}]" if extra else ""
        lines = [installation().package_line(f"{where}{suffix}") for where in ("wane-research", "./research")]
        super().__init__(f"{part} needs wane-research{suffix}. Install it with: {lines[0]}, or in a clone: {lines[1]}")
        self.part = part
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingResearchError], tuple[str, str]]:
        # By default, unpickling passes the message alone.
        return type(self), (self.part, self.extra)


def is_research_installed() -> bool:
    """Return whether `wane-research` is installed."""
    return find_spec(_PACKAGE) is not None


def load_research(name: str) -> Any:
    """Return an object of `wane-research`, which must be installed.

    Args:
        name: the module in its package, and the object: `cli.commands:COMMANDS`.
    """
    return resolve_name(f"{_PACKAGE}.{name}")
