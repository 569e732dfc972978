"""Reads the sessions of one file, in its own format or one that the caller names.

A reader is a module of this package, named as its format in `wane.lab.names`, or an object that another distribution
adds by an entry point of its format's name. It says of itself

- `NAME` and `TITLE`, how messages call the agent or the format;
- `PLACES`, where the agent keeps its sessions, if Wane is to list them, and `about`, the title in a file's first lines;
- `recognises`, whether the first JSON values of a file are of its format;
- and it has `read` for files with a record on each line, or `sessions` for JSON documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, cast

from wane.core.errors import ExtensionError, FormatError, JournalError
from wane.extensions import blame_extensions, find_extensions
from wane.formats.detection import shape
from wane.lab.names import MAX_UNPACKED, READER_NAMES
from wane.lab.readers import aider, databases
from wane.lab.readers.building.json_lines import DAMAGED, LOOKED_AT, Problems, first_bytes, head, open_unpacked
from wane.lab.readers.choice import choose, split_choice
from wane.lab.readers.closeness import closest_formats, one_of
from wane.lab.readers.documents import Value, json_values
from wane.lab.readers.named_files import plain_file, shown_path
from wane.lab.readers.unread import refuse_unread
from wane.lab.recorded_session import RecordedSession

_PROVIDERS: Final = ("openai", "anthropic", "openai_responses", "gemini", "auto")
"""Formats of providers' messages, which have one reader."""
_FIRST: Final = 4
"""Lines to look at first."""
_SHORT: Final = 1 << 20
"""Bytes of a first line; a file with a longer one is read as a document, so that it is not parsed twice."""


class LineReader(Protocol):
    """Reads one format of files with one record per line."""

    NAME: str
    TITLE: str

    def recognises(self, head: Sequence[object]) -> bool:
        """Return whether the first JSON values of a file look like this format, by what is in their messages."""
        ...

    def about(self, lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
        """Return the first turn that a person typed, and the working directory, from the first lines of a file."""
        ...

    def read(self, path: Path) -> list[RecordedSession]:
        """Return the sessions of a file, mostly one; none if it holds nothing in this format.

        Unreadable content is left out and named in `problems`.

        Raises:
            OSError: if the file cannot be read at all.
            FormatError: if it is of another format.
        """
        ...


class DocumentReader(Protocol):
    """Reads one format of the JSON values in a file: a module, or a `ProviderReader`."""

    def recognises(self, head: Sequence[object]) -> bool:
        """Return whether the first JSON values of a file look like this format."""
        ...

    def sessions(self, values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
        """Return the sessions among the JSON values of a file; several are numbered from 1.

        The first one reports the problems of the file.

        Raises:
            FormatError: if there is none in this format.
            MissingExtraError: if the format needs an extra that is not installed.
        """
        ...


def briefly(error: Exception) -> str:
    """Return why a file cannot be read, without what to do about it."""
    return str(error).removesuffix(f"; {_FORMATS_HINT}")


def read_file(
    path: Path,
    format: str = "auto",  # noqa: A002 - the field's word
    max_unpacked: int = MAX_UNPACKED,
) -> list[RecordedSession]:
    """Read the sessions of one file; see `wane.lab.readers.read_session` for its errors."""
    file, choice = split_choice(path)
    with plain_file(file, max_unpacked) as plain:
        sessions = read_plain(plain, format, shown_path(file))
    return [choose(sessions, choice, shown_path(file))] if choice else sessions


def read_plain(plain: Path, format: str, name: str) -> list[RecordedSession]:  # noqa: A002 - the field's word
    """Read the sessions of a file from `plain_file`, which errors call `name`; see `read_file`."""
    try:
        if is_foreign(plain):
            sessions = databases.read(plain) if databases.is_database(plain) else aider.read(plain)
            sources = {session.source for session in sessions}
            if format != "auto" and sources - {_reader_name(format)}:
                raise FormatError(f"it holds no session of the format {format!r}, but of {', '.join(sorted(sources))}")
        else:
            with blame_extensions():
                sessions = _read_any(plain) if format == "auto" else _read_as(plain, format)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None
    except DAMAGED as error:
        raise JournalError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    if not sessions:
        raise FormatError(f"{name}: it holds no session of the format {format!r}")
    return sessions


def is_foreign(path: Path) -> bool:
    """Return whether a file holds sessions, but not as JSON: a database, or aider's Markdown.

    Raises:
        OSError: if it cannot be read.
    """
    return databases.is_database(path) or aider.is_history(first_bytes(path))


def reader_names() -> tuple[str, ...]:
    """Return the formats that `read_file` takes besides `auto`, Wane's own first."""
    return (*READER_NAMES, *find_extensions("reader", READER_NAMES))


def check_format(name: str) -> str:
    """Return the name of a format, if that is known, or `auto`; for the command line.

    Raises:
        ValueError: if it is unknown, such as `list`; it names those that are known.
    """
    names = ("auto", *reader_names())
    if name not in names:
        raise ValueError(f"it must be {one_of(names)}")
    return name


def _reader_name(name: str) -> str:
    for reader in reader_names():
        if reader.replace("_", "-") == name.replace("_", "-"):
            return reader
    raise FormatError(f"the format {name!r} is unknown; known: auto, {', '.join(reader_names())}")


def _read_as(path: Path, name: str) -> list[RecordedSession]:
    reader = _reader_name(name)
    if reader == aider.NAME:
        raise FormatError("it is no chat history of aider, which begins with '# aider chat started at'")
    module = _reader(reader)
    if hasattr(module, "read"):
        return cast(LineReader, module).read(path)
    problems = Problems()
    return cast(DocumentReader, module).sessions(json_values(path, problems), path.stem, problems)


def _reader(name: str) -> object:
    if name in _PROVIDERS:
        from wane.lab.readers.providers import ProviderReader

        return ProviderReader(name)
    if name in READER_NAMES:
        return import_module(f"wane.lab.readers.{name.replace('-', '_')}")
    extension = find_extensions("reader", READER_NAMES)[name]
    reader = extension.load()
    lacking = [attribute for attribute in ("NAME", "TITLE", "recognises") if not hasattr(reader, attribute)]
    if not hasattr(reader, "read") and not hasattr(reader, "sessions"):
        lacking.append("read or sessions")
    if lacking:
        raise extension.refusal(f"it lacks {', '.join(lacking)}")
    if name != reader.NAME:
        raise extension.refusal(f"its NAME is {reader.NAME!r}")
    return reader


def session_readers() -> Iterator[Any]:
    """Yield what reads the sessions of agents, in the order of the names; of other distributions what can be used."""
    for name in reader_names():
        if name not in _PROVIDERS:
            # A faulty one is refused when its name is asked for, and must not stop the others.
            try:
                reader = _reader(name)
            except ExtensionError:
                continue
            yield reader


@cache
def _document_readers() -> tuple[DocumentReader, ...]:
    readers = [cast(DocumentReader, reader) for reader in session_readers() if hasattr(reader, "sessions")]
    return (*readers, cast(DocumentReader, _reader("auto")))


def line_reader_of(head: Sequence[object]) -> LineReader | None:
    """Return the reader of a file with one record per line, by its first JSON values; None if none knows them."""
    # One after the other, because a reader is imported only when it is asked.
    for reader in session_readers():
        if hasattr(reader, "read") and hasattr(reader, "recognises") and reader.recognises(head):
            return cast(LineReader, reader)
    return None


def _read_any(path: Path) -> list[RecordedSession]:
    short_lines = path.stat().st_size < _SHORT
    if not short_lines:
        with open_unpacked(path) as file:
            short_lines = len(file.readline(_SHORT)) < _SHORT
    if short_lines:
        beginning: list[object] = []
        # Nearly always the first lines tell the format, and the reader decodes them again.
        for count in (_FIRST, LOOKED_AT):
            beginning = head(path, count)
            if reader := line_reader_of(beginning):
                return reader.read(path)
        refuse_unread(beginning)
    problems = Problems()
    numbered = json_values(path, problems)
    values = [value for _, value in numbered]
    document = values[0] if len(values) == 1 else values
    listed = document if isinstance(document, list) else values
    refuse_unread(listed[:LOOKED_AT])
    for documents in _document_readers():
        if documents.recognises(values[:LOOKED_AT]):
            return documents.sessions(numbered, path.stem, problems)
    if reader := line_reader_of(listed[:LOOKED_AT]):
        if listed is values and _is_by_lines(path):
            return reader.read(path)
        # The records are in a list, or on several lines each, as `jq` writes them.
        with TemporaryDirectory(prefix="wane-") as folder:
            copy = Path(folder) / path.name
            copy.write_text("".join(f"{json.dumps(value)}\n" for value in listed), encoding="utf-8")
            return reader.read(copy)
    what = f"it is JSON, but of no known format: {shape(document)}"
    if closest := closest_formats(listed[:LOOKED_AT]):
        what += f". Its keys come closest to {one_of(closest)}, but no message in it reads as one of that format"
    raise FormatError(f"{what}; {_FORMATS_HINT}")


def _is_by_lines(path: Path) -> bool:
    """Whether the first line of a file is a whole record."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


_FORMATS_HINT: Final = "--format list names the formats that Wane reads"
