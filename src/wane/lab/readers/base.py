"""The interface of a reader: a module for each format of recorded sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from wane.lab.session import RecordedSession

PROVIDERS: Final = ("openai", "anthropic", "openai_responses")
"""The names in `wane.formats` of the formats of providers' messages."""


class Reader(Protocol):
    """One format of recorded sessions: a module with these names, or a `ProviderReader`."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of the module
        """The format's name on the command line and in `RecordedSession.source`."""
        ...

    def recognises(self, head: Sequence[object]) -> bool:
        """Return whether the first JSON values of a file look like this format."""
        ...

    def read(self, path: Path) -> list[RecordedSession]:
        """Return the sessions of a file, mostly one; none if it holds nothing in this format.

        What cannot be read is left out and named in `problems`.

        Raises:
            OSError: if the file cannot be read at all.
            FormatError: if it is of another format.
        """
        ...
