"""Ids of sessions: a digest of how a session began, and random digits."""

from __future__ import annotations

import re
import secrets
from typing import Final

from wane.proxy.store.base import StoreError

MAX_FOUND: Final = 32
"""The most sessions that `Store.find` returns."""

_ROOT: Final = re.compile(r"[0-9a-f]{24}")
_SESSION: Final = re.compile(r"([0-9a-f]{24})-[0-9a-f]{16}")


def new_id(root: str) -> str:
    """Return the id of a new session, which begins with its root.

    Raises:
        StoreError: for a malformed root.
    """
    return f"{checked_root(root)}-{secrets.token_hex(8)}"


def is_session_id(text: str) -> bool:
    """Whether an id is that of a proxy's session."""
    return _SESSION.fullmatch(text) is not None


def checked_root(root: str) -> str:
    """Return a root that is safe in patterns and keys.

    Raises:
        StoreError: for a malformed root.
    """
    if not _ROOT.fullmatch(root):
        raise StoreError(f"{root!r:.80} is not a session's root, which has 24 hexadecimal digits")
    return root


def root_of(session_id: str) -> str:
    """Return the root in an id that is safe in patterns and keys.

    Raises:
        StoreError: for a malformed id.
    """
    match = _SESSION.fullmatch(session_id)
    if match is None:
        raise StoreError(f"there is no session {session_id!r:.80}: that is not an id of the proxy")
    return match[1]
