"""Files that are replaced whole: a process that is killed meanwhile leaves the old content."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

_MUST_STAY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY})
"""Errors if a file cannot be replaced: its directory may not be written, it is another user's, or it is a mount."""


def replace_file(path: Path, content: bytes) -> None:
    """Give a file new content, whole or not at all. It may be new, and keeps its mode and its owner.

    It is written in place if it has several names (hard links), cannot be replaced, or is no file, such as a device.

    Raises:
        OSError: if it cannot be written.
    """
    status = path.stat() if path.exists() else None
    if status is not None and (status.st_nlink > 1 or not stat.S_ISREG(status.st_mode)):
        path.write_bytes(content)
        return
    try:
        _replace(path, content, status)
    except OSError as error:
        if status is None or error.errno not in _MUST_STAY:
            raise
        path.write_bytes(content)


def _replace(path: Path, content: bytes, status: os.stat_result | None) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        if status is not None:
            shutil.copymode(path, name)
            if hasattr(os, "chown"):
                os.chown(name, status.st_uid, status.st_gid)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
