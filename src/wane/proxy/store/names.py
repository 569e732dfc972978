"""Names of sessions: the way in which one began, and something random."""

from __future__ import annotations

import re
import secrets
from typing import Final

from wane.proxy.store.base import StoreError

FOUND: Final = 32
"""The most sessions that `Store.find` returns."""

_ROOT: Final = re.compile(r"[0-9a-f]{24}")
_SESSION: Final = re.compile(r"([0-9a-f]{24})-[0-9a-f]{16}")


def new_id(root: str) -> str:
    """Return the id of a new session, which begins with its root.

    Raises:
        StoreError: if the root is none.
    """
    return f"{checked_root(root)}-{secrets.token_hex(8)}"


def is_session_id(text: str) -> bool:
    """Whether a session of that id is a proxy's."""
    return _SESSION.fullmatch(text) is not None


def checked_root(root: str) -> str:
    """Return a root, which may then stand in patterns and keys.

    Raises:
        StoreError: if it is none.
    """
    if not _ROOT.fullmatch(root):
        raise StoreError(f"{root!r:.80} is not the 24 hexadecimal digits that say how a session began")
    return root


def root_of(session_id: str) -> str:
    """Return the root of a session, whose id may then stand in patterns and keys.

    Raises:
        StoreError: if no session can have that id.
    """
    match = _SESSION.fullmatch(session_id)
    if match is None:
        raise StoreError(f"there is no session {session_id!r:.80}: its id is not of the proxy's making")
    return match[1]
