"""`wane show --at` and `wane verify`: shows the requests of a session as they were sent, and proves it."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.lab.arguments import locate_session
from wane.cli.sessions.stores import directory_of, id_in_store, where_of, with_store
from wane.cli.terminal.text import count_noun, local_time, printable, write_json
from wane.cli.top_commands import ShowOptions, VerifyOptions
from wane.core.errors import SessionNotFoundError
from wane.journal import NoteRecord, Record, SentRequest, SessionStore, read, sent_requests
from wane.journal.reader import End
from wane.journal.records import FORK_NOTE
from wane.journal.store import Deleted, deleted_sessions
from wane.proxy.store.stores import DELETED, Store

_LAYERS: Final = {
    "http": "the body as it went to the provider",
    "model": "what Wane handed over to the model's client, which shows no body",
}
_LINK: Final = re.compile(r"[0-9a-f]{64}")
_STATES: Final = {
    "identical": "rebuilt, to the byte what was sent",
    "not kept": "content was not kept; only the digest is here",
    "deleted": "content was deleted since; it cannot be rebuilt",
    "wrong": "WRONG",
}


_ENDS: Final = {
    "cut short": "The last record was cut short",
    "cut off": "The last line is CUT OFF: the end of its record is missing",
    "damaged": "The last line is DAMAGED",
}


class _Session(NamedTuple):
    id: str
    records: Sequence[Record]
    torn_bytes: int = 0
    end: End = "whole"


def show_request(options: ShowOptions, number: int) -> int:
    """Print a request, or how it differs from another one, and return the exit code."""
    requests = list(sent_requests(_session(options.name, options.store).records))
    request = _find_request(requests, number)
    lines, data = list(_lines(request)), request_dict(request)
    headings = [_heading(request, len(requests))]
    is_wrong = request.state == "wrong"
    if options.diff is not None:
        before = _find_request(requests, options.diff)
        names = (f"request {before.number}", f"request {request.number}")
        lines = list(difflib.unified_diff(list(_lines(before)), lines, *names, lineterm="", n=2))
        data = {"before": request_dict(before), "after": data, "diff": lines}
        headings.insert(0, _heading(before, len(requests)))
        is_wrong = is_wrong or before.state == "wrong"
        if not lines:
            headings.append("# no difference")
    if options.as_json:
        write_json(data)
    else:
        for line in (*headings, *lines):
            _write(line)
    return failure.FAILED if is_wrong else failure.OK


def _heading(request: SentRequest, requests: int) -> str:
    """Return a line about a request; `requests` is the number of them in the session."""
    record = request.record
    when = "" if record.at is None else f", {local_time(record.at)}"
    where = f" to {record.url}" if record.url else ""
    size = f"{record.size:,} bytes, {_LAYERS[record.layer]}"
    state = request.problem or _STATES[request.state]
    return f"# request {request.number} of {requests}{when}{where}: {size}; {state}"


def verify_session(options: VerifyOptions) -> int:
    # The beginning of a link would prove little: most chains have a link that begins with the same two digits.
    if options.chain is not None and not _LINK.fullmatch(options.chain):
        raise InputError(f"--chain is {options.chain!r}; it must be a whole link, 64 hexadecimal digits")
    try:
        session = _session(options.name, options.store)
    except SessionNotFoundError:
        deleted = _read_deletion(options.name, where_of(options.store))
        if deleted is None:
            raise
        return _tell_deleted(deleted, options)
    requests = list(sent_requests(session.records))
    states = Counter[str](request.state for request in requests)
    links = [request.record.chain for request in requests]
    noted = options.chain is None or options.chain in links
    sound = bool(requests) and not states["wrong"] and session.end in ("whole", "cut short") and noted
    if options.as_json:
        write_json(
            {
                "session": session.id,
                "valid": sound,
                "requests": len(requests),
                "copied": _count_copied(session.records),
                "states": dict(states),
                "chain": links[-1] if links else None,
                "end": session.end,
                "torn_bytes": session.torn_bytes,
                "wrong": [request_dict(request) for request in requests if request.state == "wrong"],
            }
        )
        return failure.OK if sound else failure.FAILED
    _tell(session, requests, states)
    if not noted:
        _write(f"The link {options.chain} is not in it: the chain was cut, or made again.")
    return failure.OK if sound else failure.FAILED


def request_dict(request: SentRequest) -> dict[str, Any]:
    record = request.record
    return {
        "number": request.number,
        "at": None if record.at is None else record.at.isoformat(),
        "url": record.url,
        "layer": record.layer,
        "state": request.state,
        "problem": request.problem,
        "size": record.size,
        "digest": record.digest,
        "salt": record.salt,
        "chain": record.chain,
        "deleted": None if record.deleted is None else record.deleted.isoformat(),
        "body": None if request.body is None else request.body.decode("utf-8", "surrogatepass"),
    }


def _session(name: str, where: str | None) -> _Session:
    directory = None if where is None else directory_of(where)
    if where is None or directory is not None:
        file = read(Path(locate_session(name)) if directory is None else SessionStore(directory).find(name))
        return _Session(file.header.id, file.records, file.torn_bytes, file.end)

    async def stored(store: Store) -> _Session:
        session_id = id_in_store(name, [session.id for session in await store.unwritten(0)])
        return _Session(session_id, await store.read(session_id))

    return with_store(where, stored)


def _read_deletion(name: str, where: str) -> Deleted | None:
    async def stored(store: Store) -> list[Deleted]:
        return Deleted.read((await store.documents(DELETED)).values())

    directory = directory_of(where)
    entries = with_store(where, stored) if directory is None else deleted_sessions(directory)
    return next((entry for entry in reversed(entries) if name and entry.matches(name)), None)


def _tell_deleted(deleted: Deleted, options: VerifyOptions) -> int:
    noted = options.chain in (None, deleted.chain)
    if options.as_json:
        data = {"session": deleted.id, "deleted": deleted.at, "requests": deleted.requests, "chain": deleted.chain}
        write_json(data | {"valid": noted})
    else:
        _write(f"session {deleted.id} was deleted at {deleted.at}. It had {count_noun(deleted.requests, 'request')}.")
        _write(f"Its chain ended in {deleted.chain or '(none)'}")
        if not noted:
            _write(f"It is not known if the link {options.chain} was in it: only the last link is left.")
    return failure.OK if noted else failure.FAILED


def _find_request(requests: Sequence[SentRequest], number: int) -> SentRequest:
    if number <= len(requests):
        return requests[number - 1]
    if not requests:
        raise InputError("the journal holds no requests of this session: a Wane that recorded none began it")
    raise InputError(f"there is no request {number}: the session has {len(requests):,}")


def _count_copied(records: Sequence[Record]) -> int:
    """Return the number of requests that were sent in the session that this one branches off from."""
    requests = copied = 0
    for record in records:
        if record.kind == "request":
            requests += 1
        elif isinstance(record, NoteRecord) and record.topic == FORK_NOTE:
            copied = requests
    return copied


def _tell(session: _Session, requests: Sequence[SentRequest], states: Mapping[str, int]) -> None:
    _write(f"session {session.id}: {count_noun(len(requests), 'request')}")
    if copied := _count_copied(session.records):
        _write(f"{copied:>6,}  of them were sent in the session that it branches off from")
    for state, words in _STATES.items():
        if states[state]:
            _write(f"{states[state]:>6,}  {words}")
    for request in requests:
        if request.state == "wrong":
            _write(f"request {request.number} (line {request.line}): {request.problem}")
    if session.end != "whole":
        _write(f"{_ENDS[session.end]} ({count_noun(session.torn_bytes, 'byte')}): a request there is not known.")
    if not requests:
        _write("Nothing can be verified: the journal has no digests of requests.")
    elif not states["wrong"]:
        _write(f"The chain of digests is unbroken; it ends in {requests[-1].record.chain}")


def _lines(request: SentRequest) -> Iterator[str]:
    """Yield a request as an outline for people: everything in it, with its texts unquoted."""
    if request.body is None:
        return
    try:
        body = json.loads(request.body)
    except ValueError:
        yield from request.body.decode("utf-8", "replace").splitlines()
    else:
        yield from _outline_value(body, "")


def _outline_value(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        entries = [(f"{key}:", entry) for key, entry in value.items()]
    elif isinstance(value, list):
        entries = [("-", entry) for entry in value]
    else:
        entries = [("-", value)]
    for name, entry in entries:
        if isinstance(entry, dict | list) and entry:
            yield f"{indent}{name}"
            yield from _outline_value(entry, f"{indent}  ")
        elif isinstance(entry, str) and "\n" in entry:
            yield f"{indent}{name} |"
            yield from (f"{indent}  {line}" for line in entry.split("\n"))
        else:
            text = entry if isinstance(entry, str) else json.dumps(entry)
            yield f"{indent}{name} {text}"


def _write(line: str) -> None:
    sys.stdout.write(f"{printable(line, chr(9))}\n")
