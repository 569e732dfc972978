"""Where agents keep their sessions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent keeps its sessions on a machine.

    Attributes:
        variable: environment variable that names its directory.
        default: the directory if the variable is not set, below the user's home.
        patterns: its session files, or its database, below the directory.
    """

    variable: str
    default: str
    patterns: tuple[str, ...]
