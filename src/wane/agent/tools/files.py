"""The harness's file tools, changed so that a file is written whole or not at all."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from pydantic_ai_harness.filesystem import FileSystemToolset
from typing_extensions import override

from wane.agent.replacing import replace_file


class WholeFiles(FileSystemToolset[Any]):
    """The harness's file tools, which empty a file before they write it. Here, a new file takes its place."""

    @override
    def open_write(self, resolved: Path, *, read_back: bool, create: bool) -> tuple[BinaryIO, bool]:
        """Open a file as the harness does, and return a copy in memory that replaces the file once it is written."""
        file, created = super().open_write(resolved, read_back=read_back, create=create)
        with file:
            return _Copy(file.read() if read_back else b"", resolved), created


class _Copy(BytesIO):
    """The content of a file, which replaces the file if the `with` block ends without an error."""

    def __init__(self, content: bytes, path: Path) -> None:
        super().__init__(content)
        self._path = path

    @override
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            replace_file(self._path, self.getvalue())
        super().__exit__(kind, error, at)
