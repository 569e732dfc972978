"""Copies files into a namespace and out of it, by `tar` and `cat` on both sides, and writes into shared folders."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path

from wane_research.evaluation.sandbox.namespace import Namespace, SandboxError


def write_shared(path: Path, text: str) -> None:
    """Write a file into a folder that a task can write, too, whatever link it has put there.

    Raises:
        OSError: if it cannot be written.
    """
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


async def put_file(space: Namespace, source: Path, target: str) -> None:
    """Copy a file of the host to a path in the namespace, with its permission to execute."""
    mode = "755" if os.access(source, os.X_OK) else "644"
    with source.open("rb") as file:
        await _must(
            space, f"{_make_parent(target)} && cat >{shlex.quote(target)} && chmod {mode} {shlex.quote(target)}", file
        )


async def put_text(space: Namespace, text: str, target: str) -> None:
    """Write a text to a path in the namespace."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        await _must(space, f"{_make_parent(target)} && cat >{shlex.quote(target)}", file)


async def put_directory(space: Namespace, source: Path, target: str) -> None:
    """Copy the contents of a folder of the host into a folder of the namespace, owned by its root."""
    with tempfile.TemporaryFile() as file:
        await _host_tar(["-C", str(source), "--owner=0", "--group=0", "-c", "."], stdout=file)
        file.seek(0)
        quoted = shlex.quote(target)
        await _must(space, f"mkdir -p {quoted} && tar -C {quoted} -x --no-same-owner", file)


async def get_file(space: Namespace, source: str, target: Path) -> None:
    """Copy a file of the namespace to the host.

    Raises:
        FileNotFoundError: if there is none, or it cannot be read.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        code = await space.call(["cat", "--", source], out)
    if code:
        error = target.read_text(encoding="utf-8", errors="replace").strip()
        target.unlink()
        raise FileNotFoundError(error[-500:] or source)


async def get_directory(space: Namespace, source: str, target: Path) -> None:
    """Copy the contents of a folder of the namespace into a folder of the host.

    Raises:
        FileNotFoundError: if there is none.
    """
    target.mkdir(parents=True, exist_ok=True)
    if (await space.run(["test", "-d", source])).code:
        raise FileNotFoundError(source)
    with tempfile.TemporaryFile() as file:
        # tar complains about files that change while it reads them; the rest is still good.
        script = f"tar -C {shlex.quote(source)} -c . 2>/dev/null; [ $? -lt 2 ]"
        if await space.call(["sh", "-c", script], file):
            raise SandboxError(f"{source} could not be read")
        file.seek(0)
        await _host_tar(["-C", str(target), "-x", "--no-same-owner"], stdin=file)


def _make_parent(target: str) -> str:
    return f"mkdir -p {shlex.quote(os.path.dirname(target) or '/')}"


async def _must(space: Namespace, script: str, stdin: object) -> None:
    done = await space.run(["sh", "-c", script], stdin=stdin)  # type: ignore[arg-type]
    if done.code:
        raise SandboxError(f"a file could not be copied: {done.output.strip()[-500:]}")


async def _host_tar(arguments: list[str], **streams: object) -> None:
    process = await asyncio.create_subprocess_exec("tar", *arguments, **streams)  # type: ignore[arg-type]
    if code := await process.wait():
        raise SandboxError(f"tar ended with {code}: tar {' '.join(arguments)}")
