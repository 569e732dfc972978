"""The interface of a reader: a module for each format of recorded sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from wane.lab.readers.building.lines import Problems
from wane.lab.readers.documents import Value
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


class LineReader(Reader, Protocol):
    """Reads files with one record per line."""

    def read(self, path: Path) -> list[RecordedSession]:
        """Return the sessions of a file, mostly one; none if it holds nothing in this format.

        What cannot be read is left out and named in `problems`.

        Raises:
            OSError: if the file cannot be read at all.
            FormatError: if it is of another format.
        """
        ...


class DocumentReader(Reader, Protocol):
    """Reads JSON values that a file holds."""

    def sessions(self, found: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
        """Return the sessions among JSON values.

        Args:
            found: the values of a file.
            name: name of a session; several are numbered from 1.
            problems: what was wrong with the file; the first session reports it.

        Raises:
            FormatError: if there is none in this format.
            MissingExtraError: if the format needs an extra that is not installed.
        """
        ...
