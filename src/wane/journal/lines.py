r"""Headers and records as chained lines of bytes, wherever a session is kept: in a file or in a database.

A line is a JSON object, `{"kind":…,…,"crc":"…"}\n`. `crc` is the CRC-32 of the bytes before it, continued from the
`crc` of the line before. So a missing line is noticed, and so is damage inside a string, which would still be JSON. A
line is in ASCII, because only escapes can write the lone surrogates that a tool's output may hold; one that holds none
may be in UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

from wane.core.errors import CorruptJournalError, JournalError, JournalVersionError
from wane.journal.codec import SchemaError, decode, encode
from wane.journal.records import RECORDS, VERSION, Header, Record

T = TypeVar("T", Header, Record)

Clock = Callable[[], datetime]

Dumps = Callable[[Any], bytes]
"""Returns data as JSON without spaces or line ends; raises a ValueError for a value that JSON cannot hold."""

MESSAGE_PREFIX: Final = b'{"kind":"message",'
"""Beginning of the lines of messages, for counting messages without decoding them."""

REQUEST_PREFIX: Final = b'{"kind":"request",'
"""Beginning of the lines of requests."""

# A cycle ends the encoding too, by too deep a nesting; looking for one takes a third more time.
_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CRC_KEY: Final = b',"crc":"'
_CRC_SIZE: Final = len(_CRC_KEY) + len('01234567"}\n')


def _advise_update() -> str:
    from wane.installing import installation

    return f"A newer Wane wrote it; update with: {installation().update_line()}"


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def dump_line(data: object) -> bytes:
    """Return data as JSON in ASCII, without spaces.

    Raises:
        ValueError: for a value that JSON cannot hold, or that is nested too deeply.
    """
    try:
        return _ENCODE(data).encode("ascii")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def new_header(
    session_id: str, *, cwd: Path, message_format: str, clock: Clock = utc_now, owner: str = "", parent: str = ""
) -> Header:
    """Return the header of a session that begins now; see `Header`.

    Raises:
        JournalError: if the id is not 1 to 64 letters, digits, `-` and `_`.
    """
    if not _SESSION_ID.fullmatch(session_id):
        raise JournalError(f"session id {session_id!r} is not 1 to 64 letters, digits, '-' and '_'")
    created, folder = _to_milliseconds(clock()), str(cwd.absolute())
    return Header(VERSION, session_id, created, folder, message_format, wane_version(), owner, parent)


def write_line(record: Header | Record, after: int = 0) -> bytes:
    """Return a header or a record as a line; `after` is the checksum of the line before it, 0 for a header.

    Raises:
        ValueError: for a value that JSON cannot hold, or that is nested too deeply.
    """
    data = {"kind": record.kind, **encode(record)}
    for name in ("owner", "parent"):
        if data.get(name) == "":
            del data[name]
    return _line(data, after, dump_line)


def write_lines(records: Iterable[Record], after: int, clock: Clock = utc_now, dumps: Dumps = dump_line) -> list[bytes]:
    """Return records as lines, each stamped with the time unless it has one.

    Args:
        records: the records.
        after: checksum of the line before the first of them.
        clock: tells the time.
        dumps: writes JSON.

    Raises:
        JournalError: if a record cannot be written as JSON.
    """
    lines: list[bytes] = []
    now = encode(_to_milliseconds(clock()))
    for record in records:
        data = {"kind": record.kind, **encode(record)}
        if data["at"] is None:
            data["at"] = now
        try:
            lines.append(_line(data, after, dumps))
        except ValueError as error:
            raise JournalError(f"a record of kind {record.kind!r} cannot be written as JSON: {error}") from error
        after = checksum_of(lines[-1])
    return lines


def _line(data: dict[str, Any], after: int, dumps: Dumps) -> bytes:
    body = dumps(data)[:-1]
    return b'%b%b%08x"}\n' % (body, _CRC_KEY, crc32(body, after))


def read_header(line: bytes, name: str) -> Header:
    """Return the header in the first line of a file, whose name is for errors.

    Raises:
        CorruptJournalError: if it is not a header, or a damaged one.
        JournalVersionError: if another version of Wane wrote it.
    """
    first = f"{name} is not a session of Wane, or its first line"
    data = _parse(line, first)
    if data["kind"] != Header.kind or not isinstance(data.get("version"), int):
        raise _damage_error(first, 'it does not begin with the header of a session, {"kind":"session","version":…}')
    # Checked first: in another version everything except these two fields may differ.
    if data["version"] != VERSION:
        advice = _advise_update() if data["version"] > VERSION else "An earlier Wane wrote it; begin a new session"
        raise JournalVersionError(
            f"{name}, line 1: version {data['version']} of the session format, and this Wane reads version"
            f" {VERSION}. {advice}"
        )
    _check(line, 0, first)
    return _decode(Header, data, f"{name}, line 1")


def read_record(line: bytes, after: int, name: str = "the line") -> Record:
    """Return the record in a line; `after` is the checksum of the line before it, and the name is for errors.

    Raises:
        CorruptJournalError: if the line is not as it was written.
        JournalVersionError: if its kind is unknown, or it is whole but its fields differ from this version's.
    """
    data = _parse(line, name)
    cls = RECORDS.get(data["kind"])
    if cls is None:
        raise JournalVersionError(f"{name} has a record of unknown kind {ascii(data['kind'])[:80]}. {_advise_update()}")
    _check(line, after, name)
    return _decode(cls, data, name)


def read_lines(lines: Sequence[bytes], after: int, *, first: int, name: str) -> list[Record]:
    """Return the records in lines.

    Args:
        lines: the lines, each with its newline.
        after: checksum of the line before the first of them.
        first: number of the first line, for errors; the header is line 1.
        name: name of the session, for errors.

    Raises:
        CorruptJournalError: if a line is damaged, or does not continue the one before it.
        JournalVersionError: if another version of Wane wrote a record.
    """
    records: list[Record] = []
    for number, line in enumerate(lines, start=first):
        records.append(read_record(line, after, f"{name}, line {number}"))
        after = checksum_of(line)
    return records


def follow(line: bytes, after: int) -> int | None:
    """Return the checksum of a line, given that of the line before; None if the line is not as it was written.

    Its content is not decoded.
    """
    start = len(line) - _CRC_SIZE
    if start <= 0:
        return None
    checksum = crc32(memoryview(line)[:start], after)
    return checksum if line[start:] == b'%b%08x"}\n' % (_CRC_KEY, checksum) else None


def begins_whole(line: bytes, after: int) -> bool:
    """Whether a damaged line begins with a whole record: then its newline was damaged and nothing was cut."""
    offset, checksum = 0, after
    while (key := line.find(_CRC_KEY, offset + 1)) > 0:
        checksum = crc32(memoryview(line)[offset:key], checksum)
        checked = line[key : key + _CRC_SIZE]
        if len(checked) == _CRC_SIZE and checked[:-1] == b'%b%08x"}' % (_CRC_KEY, checksum):
            return True
        offset = key
    return False


def breaks_off(line: bytes) -> bool:
    """Whether a line is the beginning of a record, whose JSON ends before the object does."""
    try:
        text = line.decode("utf-8").rstrip("\n")
        json.loads(text)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        return text.startswith("{") and at_end
    except (UnicodeDecodeError, ValueError, RecursionError):
        return False
    return False


def checksum_of(line: bytes) -> int:
    """Return the checksum at the end of a whole line; the next line's checksum continues from it."""
    return int(line[-11:-3], 16)


def _parse(line: bytes, name: str) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise _damage_error(name, "it is cut off")
    try:
        data = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _damage_error(name, f"it is not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise _damage_error(name, f"it is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise _damage_error(name, "it is not a record")
    return data


def decode_line(cls: type[T], data: dict[str, Any]) -> T:
    """Return a header or record of a line's data, which is changed.

    Raises:
        SchemaError: if its fields are not those of its kind.
    """
    del data["kind"], data["crc"]
    return decode(cls, data)


def _check(line: bytes, after: int, name: str) -> None:
    if follow(line, after) is None:
        raise _damage_error(name, "its checksum is wrong: it, or a line before it, was changed or is missing")


def _decode(cls: type[T], data: dict[str, Any], name: str) -> T:
    try:
        return decode_line(cls, data)
    except SchemaError as error:
        # The checksum is right, so another version of Wane wrote exactly this.
        raise JournalVersionError(
            f"{name} has a record of kind {cls.kind!r} that this version does not understand: {error}. "
            f"{_advise_update()}"
        ) from None


def _damage_error(name: str, why: str) -> CorruptJournalError:
    return CorruptJournalError(f"{name} is damaged: {why}")


def _to_milliseconds(moment: datetime) -> datetime:
    # The precision of a line, so that a record read back equals the one written.
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


@cache  # it takes half a millisecond to read
def wane_version() -> str:
    """Return the version of the `wane` that runs; "unknown" if it is not installed."""
    # Loading it takes as long as reading a small session.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wane")
    except PackageNotFoundError:
        return "unknown"
