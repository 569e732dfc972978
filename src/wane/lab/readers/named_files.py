"""Finds the files that a user means: a path, a folder, a pattern, standard input, or a compressed file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from wane.core.errors import FormatError, JournalError, SessionNotFoundError
from wane.lab.names import MAX_UNPACKED
from wane.lab.readers.building.json_lines import (
    DAMAGED,
    compression,
    head,
    is_compressed_copy,
    open_unpacked,
    plain_path,
)
from wane.lab.readers.choice import split_choice
from wane.lab.readers.databases import is_session

STDIN: Final = "-"
"""The path that means standard input."""

_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".db")


_WITHOUT_SESSIONS: Final = (
    "agent-*.meta.json",  # Claude Code: the kind of a sub-agent, beside its session
    "*/tool-results/*.json",  # Claude Code: a result that was too large for the session
    "*/projects/*/sessions-index.json",  # Claude Code: a list of a project's sessions
    "meta.json",  # Mistral Vibe: read with messages.jsonl beside it
)
"""What agents keep beside their sessions: in a folder, no session is looked for in it."""


def shown_path(path: str | Path) -> str:
    """Return how messages name a path: as it is, or "standard input"."""
    return "standard input" if str(path) == STDIN else str(path)


def find_files(path: str | Path) -> list[Path]:
    """Return the files that a path stands for, sorted.

    Args:
        path: a file, a folder (all `.json`, `.jsonl`, `.ndjson` and `.db` files in and below it, also with `.gz` or
            `.zst`, without hidden ones), a pattern with `*`, `?` or `**`, one session of a database
            (`opencode.db/ses_1a2b`) or of a file with several (`FILE#2`, `FILE#TITLE`), or `-` for standard input.

    Raises:
        SessionNotFoundError: if there is no such file.
        JournalError: if it is a pipe or a device.
    """
    target = Path(path)
    if str(path) == STDIN or target.is_file() or split_choice(path)[1]:
        return [target]
    if target.is_dir():
        files = [entry for entry in target.rglob("*") if _is_session_file(entry, target)]
        problem = f"the folder {path} holds no {', '.join(_SUFFIXES)} file"
    elif has_magic(str(path)):
        files = [Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file()]
        problem = f"no file matches {path}"
    else:
        if target.exists():  # neither a file nor a folder
            raise JournalError(
                f"cannot read {path}: it is a pipe or a device, not a file. Give what comes from a pipe on standard"
                " input, as -"
            )
        files = [target] if is_session(target) else []
        problem = f"there is no file or folder {path}{guess_file(target)}"
    if not files:
        raise SessionNotFoundError(problem)
    return sorted(files)


def guess_file(path: Path) -> str:
    """Return the end of a sentence: whether a file or folder of a similar name was meant; empty without one."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.exists()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, 1, 0.8)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


def _is_session_file(path: Path, folder: Path) -> bool:
    if any(name.startswith(".") for name in path.relative_to(folder).parts):
        return False
    if any(path.match(pattern) for pattern in _WITHOUT_SESSIONS):
        return False
    return plain_path(path).suffix in _SUFFIXES and path.is_file() and not is_compressed_copy(path)


@contextmanager
def plain_file(path: Path, most: int = MAX_UNPACKED) -> Iterator[Path]:
    """Yield the path of an uncompressed file with the same content, which exists as long as the context lasts.

    Standard input and compressed files are copied to a temporary file of the same name. Compressed sessions of Codex
    are not: their reader decompresses them, and may need the files beside them.

    Raises:
        FormatError: if it is damaged, or holds more than `most` bytes, decompressed.
        JournalError: if it cannot be read.
        MissingExtraError: if it is compressed with zstd, without the extra `lab`.
    """
    with ExitStack() as context:
        plain = path
        if str(path) == STDIN:
            plain = _copy_file(sys.stdin.buffer, "stdin", context)
        try:
            if not is_session(plain) and _must_be_unpacked(plain, most):
                with open_unpacked(plain, most) as content:
                    plain = _copy_file(content, plain_path(plain).name, context)
        except DAMAGED as error:
            raise FormatError(f"{shown_path(path)} is damaged and cannot be decompressed: {error}") from error
        except FormatError as error:
            raise FormatError(f"{shown_path(path)}: {error}") from None
        yield plain


def _must_be_unpacked(path: Path, most: int) -> bool:
    try:
        if compression(path) is None:
            return False
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error
    from wane.lab.readers import codex

    try:
        if not codex.recognises(head(path)):
            return True
    except DAMAGED:
        return True
    # Its reader reads on over damage, so only the size counts here.
    with suppress(*DAMAGED), open_unpacked(path, most) as content:
        while content.read(1 << 20):
            pass
    return False


def _copy_file(source: BinaryIO, name: str, context: ExitStack) -> Path:
    """Return a temporary copy of a file, which exists as long as the context lasts."""
    copy = Path(context.enter_context(TemporaryDirectory(prefix="wane-"))) / name
    with copy.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    return copy
