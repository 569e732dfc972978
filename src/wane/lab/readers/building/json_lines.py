"""Reads JSON Lines one at a time, also of compressed files; broken and abandoned lines are named and skipped."""

from __future__ import annotations

import errno
import gzip
import io
import json
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar, cast

from wane.core.errors import FormatError, MissingExtraError
from wane.fast_json import fast_dumps
from wane.fast_json import fast_loads as orjson_loads
from wane.lab.names import MAX_UNPACKED
from wane.lab.recorded_session import ModelCall, Problem

LONGEST_LINE: Final = 128 * 1024 * 1024
"""Bytes of the longest line that is read. No record of a session is longer."""

NAMED_EACH: Final = 20
"""How many problems of a kind are named line by line; the rest are only counted."""

LOOKED_AT: Final = 30
"""Number of lines at the beginning of a file that tell its format."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
DAMAGED: Final = (OSError, EOFError, zlib.error)
"""Errors of reading a file that cannot be read, or that is compressed and damaged."""
_BUFFER: Final = 1 << 16
"""Bytes to read at once: lines are long, but a larger buffer takes longer to make than a small file to read."""
_FIRST_BYTES: Final = 256
_STEP: Final = 4096
"""Bytes of a compressed file to decompress at once: zstd makes at most 128 MiB of them."""

_PACKED: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}

fast_loads: Callable[[bytes], Any] = orjson_loads or json.loads


def dump_json(value: object) -> bytes:
    """Return data as JSON for `fast_loads`."""
    with suppress(TypeError):  # half a surrogate pair
        if fast_dumps is not None:
            return fast_dumps(value)
    return json.dumps(value, separators=(",", ":")).encode()


class Problems:
    """The problems of a file: each is named with its line, or only counted if there are too many of its kind.

    Attributes:
        abandoned: the model calls on abandoned branches.
        unread: lines that may have held model calls.
    """

    def __init__(self) -> None:
        self.unread = 0
        self.abandoned: list[ModelCall] = []
        self._named: list[Problem] = []
        self._seen: Counter[str] = Counter()

    def add(self, line: int | None, what: str, kind: str = "", *, unread: bool = False) -> None:
        """Note a problem and its line, from 1; `unread` if the line may have held a model call.

        Problems of one `kind` are counted together; without a kind, those with the same words are.
        """
        if unread:
            self.unread += 1
        kind = kind or what
        self._seen[kind] += 1
        if self._seen[kind] <= NAMED_EACH:
            self._named.append(Problem(line, what))

    def list_sorted(self) -> list[Problem]:
        """Return the problems, in the order of the file."""
        problems = sorted(self._named, key=lambda problem: (problem.line is None, problem.line or 0))
        for kind, count in self._seen.items():
            if count > NAMED_EACH:
                problems.append(Problem(None, f"{count - NAMED_EACH:,} more: {kind}"))
        return problems


def open_unpacked(path: Path, most: int | None = MAX_UNPACKED) -> BinaryIO:
    """Open a file for reading, decompressed if it is compressed with gzip or zstd.

    If the data are damaged, reading them raises one of `DAMAGED`; a FormatError, if there are more than `most` bytes.

    Raises:
        OSError: if it cannot be read.
        MissingExtraError: for zstd, without the extra `lab`.
    """
    match compression(path):
        case "gzip":
            content = cast(BinaryIO, gzip.open(path))  # noqa: SIM115 - the caller closes it
        case "zstd":
            content = cast(BinaryIO, io.BufferedReader(_Zstd(path)))
        case _:
            return path.open("rb", buffering=_BUFFER)
    return content if most is None else cast(BinaryIO, io.BufferedReader(_Limited(content, most)))


def plain_path(path: Path) -> Path:
    """Return the path of a file without the suffix of its compression."""
    return path.with_suffix("") if path.suffix in (".gz", ".zst") else path


def is_compressed_copy(path: Path) -> bool:
    """Return whether a file is a compressed copy of one beside it, as there is while an agent compresses a file."""
    plain = plain_path(path)
    return plain != path and plain.exists()


def compression(path: Path) -> str | None:
    """Return how a file is compressed, gzip or zstd; None if it is not.

    Raises:
        OSError: if it cannot be read, or is no file: a pipe or a device could block, or never end.
    """
    magic = first_bytes(path)
    return next((name for name, beginning in _PACKED.items() if magic.startswith(beginning)), None)


def first_bytes(path: Path) -> bytes:
    """Return the bytes at the start of a file, which tell what it is.

    Raises:
        OSError: if it cannot be read, or is no file: a pipe or a device could block, or never end.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    with path.open("rb", buffering=0) as file:
        return file.read(_FIRST_BYTES)


class _Zstd(io.RawIOBase):
    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("Reading files compressed with zstd", "lab") from None
        self._zstandard = zstandard
        self._file = path.open("rb")
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            chunk = self._frame.unused_data or self._file.read(_STEP)
            if self._frame.eof:
                if not chunk:
                    return 0
                self._frame = self._zstandard.ZstdDecompressor().decompressobj()
            if not chunk:
                raise EOFError("it breaks off")
            try:
                self._content = memoryview(self._frame.decompress(chunk))
            except self._zstandard.ZstdError as error:
                raise OSError(str(error)) from error
        # A view, because cutting pieces off the bytes would copy the rest each time.
        taken, self._content = self._content[: len(buffer)], self._content[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _Limited(io.RawIOBase):
    """What a compressed file holds, up to a number of bytes."""

    def __init__(self, content: BinaryIO, most: int) -> None:
        self._content = content
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._content.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        data = self._content.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise FormatError(
                f"it holds more than {self._most:,} bytes, decompressed; to read it, allow more (--max-unpacked 10g)"
            )
        buffer[: len(data)] = data
        return len(data)


def records(path: Path, problems: Problems, *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file with their line numbers, from 1.

    Empty lines are skipped. Bytes that are not UTF-8 are read as U+FFFD and named; lines without a JSON object are
    named and skipped.

    Raises:
        OSError: if the file cannot be read.
    """
    # `plain_file` has measured what a compressed file holds.
    with open_unpacked(path, None) as file:
        for number, value in _values(file, problems, longest):
            if isinstance(value, dict):
                yield number, value


def _values(file: BinaryIO, problems: Problems, longest: int) -> Iterator[tuple[int, object]]:
    """Yield the value on each line of a file with its number, from 1; see `_decode`."""
    number = 0
    while raw := file.readline(longest):
        number += 1
        # Nearly all lines are whole objects of strict JSON; `_decode` is for the others, such as half a surrogate pair.
        try:
            value: object = fast_loads(raw) if len(raw) < longest else None
        except (ValueError, RecursionError):
            value = None
        yield number, value if type(value) is dict else _decode(number, raw, file, problems, longest)


def reason(error: ValueError | RecursionError) -> str:
    """Return why text could not be read as JSON."""
    if not isinstance(error, json.JSONDecodeError):
        return "it is nested too deeply, or holds a number of too many digits"
    unexpected = error.doc[error.pos :].strip()
    if not unexpected or error.msg.startswith("Unterminated string"):
        return "it breaks off"
    if error.msg.startswith("Invalid control character"):
        return "a string holds a line break or another control character"
    return f"{unexpected.split()[0][:20]!r} was not expected"


def placed_reason(error: json.JSONDecodeError) -> str:
    """Return why and where text could not be read as JSON."""
    return f"{reason(error)} at line {error.lineno}, column {error.colno}"


def head(path: Path, count: int = LOOKED_AT) -> list[object]:
    """Return the JSON values on the first `count` lines of a file, which tell its format.

    Lines that are not JSON are skipped.

    Raises:
        OSError: if the file cannot be read.
    """
    ignored = Problems()
    with open_unpacked(path) as file:
        values = [value for _, value in islice(_values(file, ignored, LONGEST_LINE), count)]
    return [value for value in values if value is not None]


def _decode(number: int, raw: bytes, file: BinaryIO, problems: Problems, longest: int) -> object:
    """Return the value on a line; None if it has none. A value that is no object is named as a problem.

    A line longer than `longest` bytes, of which `raw` is the beginning, is passed over in the file.
    """
    if len(raw) == longest and not raw.endswith(b"\n"):
        while (chunk := file.readline(1 << 20)) and not chunk.endswith(b"\n"):
            pass
        problems.add(number, f"the line is longer than {longest:,} bytes", "line too long", unread=True)
        return None
    if number == 1:
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if not (raw := raw.strip()):
        return None
    try:
        line = raw.decode()
        damaged = False
    except UnicodeDecodeError:
        line = raw.decode(errors="replace")
        damaged = True
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        problems.add(number, f"not JSON ({reason(error)}): {line[:40]!r}", "not JSON", unread=True)
        return None
    if not isinstance(value, dict):
        problems.add(number, f"not a JSON object: {line[:40]!r}", "not a JSON object", unread=True)
    elif damaged:
        problems.add(number, "holds bytes that are not UTF-8; they were read as U+FFFD", "bytes that are not UTF-8")
    return value


ABANDONED: Final = "on an abandoned branch (a turn that was edited or tried again)"


class Node(Protocol):
    """An entry in a tree: its id, which is unique in the file, and that of the entry before it; None for a root."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> str | None: ...  # noqa: D102


NodeT = TypeVar("NodeT", bound=Node)


def path_to(leaf: NodeT | None, nodes: Sequence[NodeT]) -> Mapping[str, NodeT]:
    """Return the entries from a leaf to its root, by id, leaf first.

    A missing parent was lost with a broken line. The previous entry in the file takes its place, so that the earlier
    entries are not lost too.
    """
    positions = {node.id: position for position, node in enumerate(nodes)}
    path: dict[str, NodeT] = {}
    while leaf is not None and leaf.id not in path:
        path[leaf.id] = leaf
        if leaf.parent is None:
            break
        position = positions.get(leaf.parent, positions[leaf.id] - 1)
        leaf = nodes[position] if position >= 0 else None
    return path


def name_abandoned(lines: Iterable[int], problems: Problems, calls: Iterable[ModelCall]) -> None:
    """Note the ascending lines of abandoned branches, one problem per run of lines, and their calls."""
    problems.abandoned += calls
    runs: list[list[int]] = []
    for line in lines:
        # A few lines that no request carries do not end a run.
        if runs and line <= runs[-1][1] + 3:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    for first, last in runs:
        what = ABANDONED if first == last else f"lines {first} to {last}: {ABANDONED}"
        problems.add(first, what, ABANDONED)


def count_abandoned(messages: int, problems: Problems, calls: Iterable[ModelCall], line: int | None = None) -> None:
    """Note the number of messages on an abandoned branch, and their calls, in a file without a line for each."""
    problems.abandoned += calls
    problems.add(line, f"{messages} {'message' if messages == 1 else 'messages'} {ABANDONED}", ABANDONED)
