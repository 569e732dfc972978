"""A program, run by this machine's Python, that reads files of a root file system: what a `COPY` asks for.

A task's commands made that root file system, so nothing of it may run: this uses no program, library or module of it,
and links lead nowhere outside. The root file system needs no programs for it either.

    packing.py find VIEW OPTIONS LAYERS PATTERN…
    packing.py pack VIEW OPTIONS LAYERS OWNER MODE NAME PATH…
    packing.py unpack VIEW OPTIONS LAYERS INNER OWNER MODE NAME PATH…

Layers are separated by colons, the uppermost first. More than one are mounted together at VIEW, with further OPTIONS.
`find` prints the matches of each pattern as JSON, [[[path, kind], …], …]; `pack` writes an archive, and so does
`unpack`, with what archives among the files hold in their place.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable

# `tarfile` loads these when it needs them, which is too late.
LOADED = (bz2, gzip, lzma, zlib)
ZSTANDARD = b"\x28\xb5\x2f\xfd"


def open_root(view: str, options: str, layers: str) -> None:
    """Make the root file system of these layers that of this process, and load no more modules from now on."""
    if ":" in layers:
        mount = ["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={layers}{options}", view]
        subprocess.run(mount, check=True)  # noqa: S603 - the machine's own
    os.chroot(view if ":" in layers else layers)
    os.chdir("/")
    sys.path.clear()
    sys.meta_path.clear()
    # The system would look names up by libraries that it finds in the new root.
    tarfile.pwd = tarfile.grp = None  # type: ignore[attr-defined]


def find(*patterns: str) -> None:
    matches = []
    for pattern in patterns:
        paths = sorted(glob.glob(f"/{pattern}", include_hidden=True))
        matches.append([(path, kind_of(path)) for path in paths])
    json.dump(matches, sys.stdout)


def kind_of(path: str) -> str:
    """Return `folder`, `archive`, `zstandard` or `file`, by what is in it. A compressed file need not be an archive."""
    real = os.path.realpath(path)
    if os.path.isdir(real):
        return "folder"
    if not os.path.isfile(real):
        return "file"
    with open(real, "rb") as file:
        if file.read(4) == ZSTANDARD:
            return "zstandard"
    return "archive" if _has_members(real) else "file"


def _has_members(path: str) -> bool:
    try:
        with tarfile.open(path) as archive:
            return archive.next() is not None
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error):
        return False


def pack(owner: str, mode: str, name: str, *paths: str, inner: str | None = None) -> None:
    """Write files by their own names, or by `name` if there is one, and the contents of folders.

    `inner`: the owner of what archives hold, which is then written in their place; None to write them as they are.

    `owner`: numbers of a user and a group, as `0:0`; "" to keep them.
    `mode`: permissions in octal; "" to keep them.
    """
    change = _changing(owner, mode)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for path in paths:
            # A link that is named itself is followed.
            real = os.path.realpath(path)
            if inner is not None and kind_of(real) == "archive":
                _write_members(real, archive, _changing(inner, mode))
                continue
            if not os.path.isdir(real):
                archive.add(real, name or os.path.basename(path), filter=change)
                continue
            for entry in sorted(os.listdir(real)):
                archive.add(os.path.join(real, entry), entry, filter=change)


def _write_members(path: str, archive: tarfile.TarFile, change: Callable[[tarfile.TarInfo], tarfile.TarInfo]) -> None:
    with tarfile.open(path) as source:
        for member in source:
            archive.addfile(change(member), source.extractfile(member) if member.isreg() else None)


def _changing(owner: str, mode: str) -> Callable[[tarfile.TarInfo], tarfile.TarInfo]:
    def change(member: tarfile.TarInfo) -> tarfile.TarInfo:
        if owner:
            member.uid, member.gid = (int(number) for number in owner.split(":"))
        if mode and not member.issym():
            member.mode = int(mode, 8)
        return member

    return change


def run(action: str, view: str, options: str, layers: str, *words: str) -> None:
    open_root(view, options, layers)
    if action == "find":
        find(*words)
    elif action == "unpack":
        pack(*words[1:], inner=words[0])
    else:
        pack(*words)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except Exception as error:
        # No traceback: Python would load modules for it.
        os.write(2, f"{error}\n".encode())
        os._exit(1)
