"""Verifies the journals that other tests leave: whatever a test is about, no request may be rebuilt as another one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from wane.core.errors import JournalError
from wane.journal import read, sent_requests


def verify_all(directory: Path) -> int:
    """Verify the requests of all journals below a directory that can be read; return their number."""
    count = 0
    for path in directory.rglob("*Z-*.jsonl"):
        with suppress(JournalError):
            for request in sent_requests(read(path).records):
                assert request.state != "wrong", (path, request.number, request.problem)
                count += 1
    return count
