"""Sub-agents whose sessions are in files of their own: finds these files, and the session that started each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from wane.core.errors import FormatError, MissingExtraError
from wane.lab.readers.building.json_lines import DAMAGED, head, is_compressed_copy, plain_path
from wane.lab.readers.building.values import mapping, text
from wane.lab.recorded_session import RecordedSession


def ids_of(line: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id in the first line of a session, and that of the session that started it; empty for none."""
    if line.get("kind") == "session":  # Wane's proxy
        return text(line.get("id")), text(line.get("parent"))
    if line.get("type") == "session_meta":  # Codex
        payload = mapping(line.get("payload"))
        source = payload.get("source")
        spawn = mapping(mapping(mapping(source).get("subagent")).get("thread_spawn"))
        return text(payload.get("id")), text(payload.get("parent_thread_id")) or text(spawn.get("parent_thread_id"))
    return "", ""


def descendants(path: Path) -> list[Path]:
    """Return the files of the sub-agents that a file's session started, of theirs, and so on, if they are beside it."""
    first = first_record(path)
    own, _ = ids_of(first)
    if not own:
        return []
    # The proxy keeps sessions that begin alike in a folder of their own.
    proxied = first.get("kind") == "session" and own.startswith(f"{path.parent.name}-")
    folder, pattern = (path.parent.parent, "*/*.jsonl") if proxied else (path.parent, "*.jsonl*")
    children = _children_in(folder, pattern, folder.stat().st_mtime_ns)
    files: list[Path] = []
    waiting, visited = [own], {own}
    while waiting:
        for child, file in children.get(waiting.pop(), ()):
            if child not in visited and file != path:  # files may name each other as parents
                files.append(file)
                waiting.append(child)
                visited.add(child)
    return files


@lru_cache(maxsize=4)
def _children_in(folder: Path, pattern: str, _changed: int) -> dict[str, list[tuple[str, Path]]]:
    """Return the sub-agents in a folder, each with its id and file, by the session that started it.

    The time of the folder's last change is an argument, so that files that are added later are seen.
    """
    children: dict[str, list[tuple[str, Path]]] = {}
    for file in sorted(folder.glob(pattern)):
        if plain_path(file).suffix != ".jsonl" or is_compressed_copy(file):
            continue
        child, parent = ids_of(first_record(file))
        if parent:
            children.setdefault(parent, []).append((child, file))
    return children


def nest_children(sessions: Sequence[RecordedSession]) -> set[int]:
    """Put sessions of sub-agents into those that started them, and return their positions.

    A session stays where it is if its parent is not among the sessions, or is there twice.
    """
    counts = Counter((session.source, session.id) for session in sessions if session.id)
    by_id = {(session.source, session.id): session for session in sessions}
    inner = set[int]()
    for position, session in enumerate(sessions):
        key = (session.source, session.parent)
        parent = by_id.get(key)
        if not session.parent or parent is None or counts[key] != 1:
            continue
        if all(session is not above for above in _ancestors(parent, by_id)):
            if session.name not in {side.name for side in parent.sidechains}:
                parent.sidechains.append(session)
            inner.add(position)
    return inner


def _ancestors(session: RecordedSession, by_id: Mapping[tuple[str, str], RecordedSession]) -> Iterator[RecordedSession]:
    """Yield a session, its parent, and so on, each once."""
    seen: list[int] = []
    current: RecordedSession | None = session
    while current is not None and id(current) not in seen:
        yield current
        seen.append(id(current))
        current = by_id.get((current.source, current.parent)) if current.parent else None


def first_record(path: Path) -> Mapping[str, Any]:
    """Return the JSON object on the first line of a file; an empty one if there is none or it cannot be read."""
    try:
        return mapping(next(iter(head(path, 1)), None))
    except (*DAMAGED, FormatError, MissingExtraError):
        return {}
