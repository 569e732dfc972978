"""Where the proxy stores sessions: on disk, in Redis, in PostgreSQL, or nowhere. See `docs/proxy/stores.md`."""

from __future__ import annotations

import os
from pathlib import Path

from wane.core.errors import ConfigError, MissingExtraError
from wane.journal import SessionStore, default_root
from wane.proxy.store.database import parse_location, scheme_of
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import KEEP, MemoryStore, Store

DISK = "disk"
"""The name of the directory with all of Wane's sessions."""

_CHOICES = "give 'disk', a directory (a new one here as ./name), or a URL: redis://, rediss://, unix://, postgresql://"


def open_store(where: str | None, keep: float = KEEP) -> Store:
    """Return a store. Nothing is read, written or connected to yet.

    Args:
        where: `disk` or a directory, for files; a URL that begins with `redis://`, `rediss://`, `unix://`,
            `postgresql://` or `postgres://`, for a database; None for memory only.
        keep: seconds after its last record until a session is deleted; 0 for never.

    Raises:
        ConfigError: if `where` is none of these; the message contains no secrets.
        MissingExtraError: if the database's client library is not installed.
    """
    if where is None:
        return MemoryStore()
    scheme = scheme_of(where)
    if scheme is None:
        directory = default_root(os.environ) if where == DISK else _directory(where)
        return DiskStore(SessionStore(directory), keep=keep)
    if scheme not in ("redis", "rediss", "unix", "postgresql", "postgres"):
        raise ConfigError(f"sessions cannot be stored at a URL that begins with {scheme}:; {_CHOICES}")
    location = parse_location(where)
    library = "postgresql" if scheme.startswith("postgres") else "redis"
    try:
        if library == "redis":
            from wane.proxy.store.redis import RedisStore

            return RedisStore(location, keep)
        from wane.proxy.store.postgres import PostgresStore

        return PostgresStore(location, keep)
    except ImportError:
        raise MissingExtraError(f"the store {location.name}", library) from None


def _directory(where: str) -> Path:
    try:
        path = Path(where).expanduser()
        is_directory = path.is_dir()
        in_the_way = path.exists() and not is_directory
    except (RuntimeError, OSError, ValueError) as error:
        raise ConfigError(f"the store {where!r:.200} cannot be a directory: {error}") from None
    if not where or "\0" in where:
        raise ConfigError(f"the store {where!r:.200} cannot be a path; {_CHOICES}")
    if in_the_way:
        raise ConfigError(f"the store {where!r:.200} is a file, and sessions need a directory; {_CHOICES}")
    # A bare word that does not exist is more likely a mistake than a new directory here.
    if not is_directory and not (path.is_absolute() or "/" in where or os.sep in where):
        raise ConfigError(f"there is no store {where!r:.200}; {_CHOICES}")
    return path
