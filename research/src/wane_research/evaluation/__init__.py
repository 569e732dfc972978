"""Benchmarks: runs their tasks, keeps the results, and reports them with their limits."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Final

from wane.core.errors import WaneError
from wane.installing import Installation, installation
from wane_research.missing import MissingResearchError

OLDEST: Final = (3, 12)  # the oldest Python that Harbor runs on


class OldPythonError(WaneError, ImportError):
    """A Python that Harbor does not run on."""


def need_harbor(part: str) -> None:
    """Check that Harbor is there, and switch off its telemetry unless it was asked for.

    `part`: the part that needs it.
    """
    if sys.version_info < OLDEST:
        current = ".".join(map(str, sys.version_info[:2]))
        line = Installation(origin=installation().origin).package_line("wane-research[eval]")
        raise OldPythonError(
            f"{part} needs Harbor, which runs on Python {'.'.join(map(str, OLDEST))} or newer, and this is {current}. "
            f"In an environment with a newer one, install it with: {line}"
        )
    if find_spec("harbor") is None:
        raise MissingResearchError(part, "eval")
    os.environ.setdefault("HARBOR_TELEMETRY", "off")
