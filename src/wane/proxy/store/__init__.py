"""Where the proxy stores sessions: on disk, in Redis, in PostgreSQL, or nowhere. See `docs/proxy/stores.md`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError, MissingExtraError
from wane.extensions import blame_extensions, find_extensions
from wane.journal import SessionStore, default_root
from wane.proxy.store.database import parse_location, scheme_of
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import KEEP, MemoryStore, Store

DISK = "disk"
"""The name of the directory with all of Wane's sessions."""

SCHEMES: Final = ("redis", "rediss", "unix", "postgresql", "postgres")
"""What the URLs of Wane's own databases begin with."""

_CHOICES = "give 'disk', a directory (a new one here as ./name), or a URL: redis://, rediss://, unix://, postgresql://"


def open_store(where: str | None, keep: float = KEEP) -> Store:
    """Return a store. Nothing is read, written or connected to yet.

    Args:
        where: `disk` or a directory, for files; a URL that begins with one of `SCHEMES` or with a scheme that another
            distribution adds, for a database; None for memory only.
        keep: seconds after its last record until a session is deleted; 0 for never.

    Raises:
        ConfigError: if `where` is none of these; the message contains no secrets.
        MissingExtraError: if the database's client library is not installed.
        ExtensionError: for a store of another distribution that cannot be used.
    """
    if where is None:
        return MemoryStore()
    scheme = scheme_of(where)
    if scheme is None:
        directory = default_root(os.environ) if where == DISK else _directory(where)
        return DiskStore(SessionStore(directory), keep=keep)
    if scheme not in SCHEMES:
        return open_added(scheme, where, keep)
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


def open_added(scheme: str, where: str, keep: float) -> Store:
    """Return a store that another distribution adds under a scheme: an object that takes the URL and `keep`."""
    extension = find_extensions("store", SCHEMES).get(scheme)
    if extension is None:
        raise ConfigError(f"sessions cannot be stored at a URL that begins with {scheme}:; {_CHOICES}")
    make: Callable[[str, float], object] = extension.load()
    with blame_extensions():
        store = make(where, keep)
    if not isinstance(store, Store):
        raise extension.refusal(f"{extension.value} returned {type(store).__name__}, not wane.proxy.store.stores.Store")
    return store


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
