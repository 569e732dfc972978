"""File paths as calls give them: absolute, relative, or relative to an unknown directory."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SCRATCH: Final = ("/tmp/", "/var/tmp/", "/dev/", "$TMPDIR", "$TMP/")  # noqa: S108 - compared, not used


def is_scratch(path: str) -> bool:
    """Whether a path is a temporary file or a device, so that writing it changes nothing lasting."""
    return path.startswith(_SCRATCH)


def resolve(path: str, directory: str = "") -> str:
    """Return a path without `.` and `..`, below `directory` unless it is absolute. The file system is not read."""
    if directory and not path.startswith(("/", "~")):
        path = f"{directory}/{path}"
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    joined = "/".join(parts)
    return f"/{joined}" if path.startswith("/") else joined


def basename(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


class FileMap(Generic[T]):
    """A mapping by file, in which a path and any end of it after a slash are the same file."""

    __slots__ = ("_by_basename",)

    def __init__(self) -> None:
        self._by_basename: dict[str, dict[str, T]] = {}

    def __setitem__(self, path: str, value: T) -> None:
        entries = self._by_basename.setdefault(basename(path), {})
        entries.pop(path, None)  # so that the latest comes last
        entries[path] = value

    def get(self, path: str) -> T | None:
        """Return the value last set for a file; None if there is none."""
        entries = self._by_basename.get(basename(path), {})
        for file, value in reversed(entries.items()):
            if _same(file, path):
                return value
        return None

    def __contains__(self, path: str) -> bool:
        return any(_same(file, path) for file in self._by_basename.get(basename(path), ()))


def _same(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    return short == long or long.endswith(f"/{short}")
