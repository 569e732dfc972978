"""A root file system in namespaces of its own: processes, mounts, IPC and host name, and optionally the network.

Linux only. As root it needs only util-linux and coreutils. Without root it needs user namespaces and overlays in them
(Linux 5.11), and, for packages with files of several users, `newuidmap` and a range in /etc/subuid. Limits of CPU and
memory are not enforced. The network is the host's, a separate one by slirp4netns, or none.

Files are copied in and out with `tar` and `cat` on both sides.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from wane.core.errors import WaneError
from wane_research.evaluation.sandbox import entering, packing

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Network: TypeAlias = Literal["host", "own", "none"]
"""Whether a namespace shares the host's network, has one of its own that leads outside, or none."""

TOOLS: Final = ("unshare", "mount", "pivot_root", "tar")  # programs of the host that this needs
_PYTHON: Final = (sys.executable, "-I", "-S", "-B")

_RESOLVER: Final = "10.0.2.3"  # slirp4netns answers there


class SandboxError(WaneError, RuntimeError):
    """A namespace that cannot be made, or a command in it that failed."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host that is seen in the namespace."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command: its output, both streams together, and its exit code."""

    output: str
    code: int


def missing() -> str:
    """Return why this machine cannot make namespaces; "" if nothing obvious is missing."""
    if not Path("/proc/self/ns/mnt").exists():
        return "this needs Linux"
    if absent := [tool for tool in TOOLS if shutil.which(tool, path=SEARCH_PATH) is None]:
        return f"this needs {', '.join(absent)} (util-linux, coreutils, tar)"
    if os.geteuid() != 0:
        with suppress(OSError):
            if Path("/proc/sys/user/max_user_namespaces").read_text(encoding="ascii").strip() == "0":
                return (
                    "this needs root, or user namespaces, which are switched off here (user.max_user_namespaces is 0)"
                )
    return ""


class Namespace:
    """A running namespace. Start it with `up`, end it with `down`: all processes in it end too."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._pid = 0
        self._network: Network = "host"
        self._outside: tuple[asyncio.subprocess.Process, int] | None = None

    async def up(self, lowers: Sequence[Path], home: Path, mounts: Sequence[Mount] = (), *, network: Network) -> None:
        """Start it.

        `lowers`: folders that are its root file system, the uppermost first; they are not changed.
        `home`: folder that gets the changes, in `upper`.
        `mounts`: further folders and files of the host to show in it.

        Raises:
            SandboxError: if it did not start.
        """
        self._network = network
        if network == "own":
            resolver = home / "resolv.conf"
            resolver.parent.mkdir(parents=True, exist_ok=True)
            resolver.write_text(f"nameserver {_RESOLVER}\n", encoding="ascii")
            mounts = [*mounts, Mount(resolver, "/etc/resolv.conf", read_only=True)]
        for name in ("upper", "work", "root"):
            (home / name).mkdir(parents=True, exist_ok=True)
        flags = [*_own_mounts(), "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        if network != "host":
            flags.append("--net")
        places = [str(home / "root"), _link_layers(lowers, home), str(home / "upper"), str(home / "work")]
        for mount in mounts:
            places += [str(mount.source.resolve()), mount.target, "ro" if mount.read_only else "rw"]
        self._process = await asyncio.create_subprocess_exec(
            *("unshare", *flags, *_PYTHON, entering.__file__, "keep", *places),
            env={
                "PATH": SEARCH_PATH,
                "LOOPBACK": "" if network == "host" else "1",
                "OVERLAY": _overlay_options(),
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode(errors="replace")
        if line.strip() != "ready":
            output = (await self._process.stdout.read()).decode(errors="replace")
            await self.down()
            reason = " ".join((line + output).split()) or "no reason was given"
            raise SandboxError(f"the namespace did not start: {reason}")
        outer = self._process.pid
        self._pid = int(Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii").split()[0])
        if network == "own":
            try:
                await self._lead_outside()
            except BaseException:
                await self.down()
                raise

    async def _lead_outside(self) -> None:
        """Give the namespace a network card that leads outside, but not to the loopback addresses of the host."""
        ready_reader, ready_writer = os.pipe()
        exit_reader, exit_writer = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *("slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback"),
                *(f"--ready-fd={ready_writer}", f"--exit-fd={exit_reader}", str(self._pid), "tap0"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(ready_writer, exit_reader),
                start_new_session=True,
            )
        except OSError as error:
            os.close(exit_writer)
            os.close(ready_reader)
            raise SandboxError(
                f"a network of its own needs slirp4netns (apt-get install slirp4netns): {error.strerror}"
            ) from error
        finally:
            os.close(ready_writer)
            os.close(exit_reader)
        # It ends when nobody holds the pipe, even if this process is killed.
        self._outside = (process, exit_writer)
        try:
            if not await asyncio.to_thread(os.read, ready_reader, 1):
                raise SandboxError("slirp4netns could not make a network; it needs /dev/net/tun")
        finally:
            os.close(ready_reader)

    async def down(self) -> None:
        """End it and every process in it. May be called again."""
        outside, self._outside = self._outside, None
        if outside is not None:
            os.close(outside[1])
            await outside[0].wait()
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            # `unshare --kill-child` kills the first process, and that ends all others.
            process.kill()
        await process.wait()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: IO[bytes] | int | None = None,
    ) -> Done:
        """Run a program in it.

        Args:
            argv: the program and its arguments.
            cwd: its directory.
            env: its whole environment.
            user: name or number of its user; None for root.
            timeout: seconds after which it is killed; None for no limit.
            stdin: its standard input; empty if None.

        Raises:
            TimeoutError: if it took longer.
        """
        # A file instead of a pipe: processes left in the background would keep a pipe open forever.
        with tempfile.TemporaryFile() as out:
            code = await self.call(argv, out, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin)
            out.seek(0)
            return Done(out.read().decode(errors="replace"), code)

    async def call(
        self,
        argv: Sequence[str],
        out: IO[bytes],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: IO[bytes] | int | None = None,
    ) -> int:
        """Run a program in it with its output to a file, and return its exit code; otherwise as `run`."""
        process = await asyncio.create_subprocess_exec(
            *self._entering_command(cwd, {"PATH": SEARCH_PATH, **(env or {})}, user),
            *argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return await asyncio.wait_for(process.wait(), timeout)
        except (TimeoutError, asyncio.CancelledError):
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise

    def _entering_command(self, cwd: str, env: Mapping[str, str], user: str | int | None) -> list[str]:
        if self._process is None or self._process.returncode is not None:
            raise SandboxError("the namespace is not running")
        kinds = [*entering.NAMESPACES]
        if os.geteuid() == 0:
            kinds.remove("user")
        if self._network == "host":
            kinds.remove("net")
        variables = [f"{name}={value}" for name, value in env.items()]
        target = [str(self._pid), ",".join(kinds), "root" if user is None else str(user)]
        shell = ["-c", 'cd "$1" && shift && exec "$@"', "sh", cwd]
        return [*_PYTHON, entering.__file__, "enter", *target, str(len(variables)), *variables, *shell]


def _own_mounts() -> list[str]:
    """Return the flags of `unshare` for mounts of its own; without root that takes users of its own, too."""
    if os.geteuid() == 0:
        return ["--mount"]
    several = shutil.which("newuidmap") and Path("/etc/subuid").exists()
    return ["--mount", "--user", "--map-root-user", *(["--map-auto"] if several else [])]


def _overlay_options() -> str:
    # Without root, an overlay must keep its attributes where its user may write them.
    return "" if os.geteuid() == 0 else ",userxattr"


def _link_layers(layers: Sequence[Path], home: Path) -> str:
    """Return the paths of folders for an option of `mount`, which cannot hold the colon of an image's name."""
    links: list[str] = []
    for number, layer in enumerate(layers):
        link = home / f"lower{number}"
        link.unlink(missing_ok=True)
        link.symlink_to(layer.resolve())
        links.append(str(link))
    return ":".join(links)


@dataclass(frozen=True, slots=True)
class Match:
    """A path in a root file system that a pattern means."""

    path: str
    kind: str  # folder, archive, zstandard (which nothing here reads), or file


class FileSource:
    """Reads files of a root file system that is not running, as a build does that copies from it."""

    def __init__(self, layers: Sequence[Path], home: Path) -> None:
        """`layers`: its folders, the uppermost first. `home`: a folder of its own while it reads."""
        view = home / "view"
        view.mkdir(exist_ok=True)
        self._places = [str(view), _overlay_options(), _link_layers(layers, home)]

    async def find(self, patterns: Sequence[str]) -> list[list[Match]]:
        """Return the matches of each pattern, as paths from the root."""
        with tempfile.TemporaryFile() as out:
            await self._read("find", [os.path.normpath(f"/{pattern}").lstrip("/") for pattern in patterns], out)
            out.seek(0)
            return [list(itertools.starmap(Match, matches)) for matches in json.load(out)]

    async def pack(
        self, archive: Path, paths: Sequence[str], owner: str, mode: str, name: str, inner: str | None = None
    ) -> None:
        """Write an archive of files and of the contents of folders.

        Args:
            archive: where it goes.
            paths: what it takes. A link that is named here is followed, in this root file system.
            owner: numbers of a user and a group, as `0:0`; "" to keep them.
            mode: permissions in octal; "" to keep them.
            name: name of the one file; "" to keep names.
            inner: the owner of what archives among the files hold, "" to keep it; that is taken in their place, as an
                `ADD` does. None to take archives as they are.
        """
        with archive.open("wb") as out:
            action, first = ("pack", []) if inner is None else ("unpack", [inner])
            await self._read(action, [*first, owner, mode, name, *paths], out)

    async def _read(self, action: str, words: Sequence[str], out: IO[bytes]) -> None:
        process = await asyncio.create_subprocess_exec(
            *("unshare", *_own_mounts(), *_PYTHON, packing.__file__, action, *self._places, *words),
            env={"PATH": SEARCH_PATH},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaint = await process.communicate()
        if process.returncode:
            raise SandboxError(f"files could not be read: {complaint.decode(errors='replace').strip()[-500:]}")


async def unpack(space: Namespace, archive: Path, target: str) -> None:
    """Unpack an archive of a `FileSource` into a folder of the namespace, with its owners."""
    with archive.open("rb") as file:
        quoted = shlex.quote(target or "/")
        await _must(space, f"mkdir -p {quoted} && tar -C {quoted} -xp", file)


def write_shared(path: Path, text: str) -> None:
    """Write a file into a folder that a task can also write, without following a link that it put there."""
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


async def put_file(space: Namespace, source: Path, target: str) -> None:
    """Copy a file of the host to a path in the namespace, with its permission to execute."""
    mode = "755" if os.access(source, os.X_OK) else "644"
    parent, quoted = shlex.quote(os.path.dirname(target) or "/"), shlex.quote(target)
    with source.open("rb") as file:
        await _must(space, f"mkdir -p {parent} && cat >{quoted} && chmod {mode} {quoted}", file)


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
    """Copy the contents of a folder of the namespace into a folder of the host."""
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


async def _must(space: Namespace, script: str, stdin: object) -> None:
    done = await space.run(["sh", "-c", script], stdin=stdin)  # type: ignore[arg-type]
    if done.code:
        raise SandboxError(f"a file could not be copied: {done.output.strip()[-500:]}")


async def _host_tar(arguments: list[str], **streams: object) -> None:
    process = await asyncio.create_subprocess_exec("tar", *arguments, **streams)  # type: ignore[arg-type]
    if code := await process.wait():
        raise SandboxError(f"tar ended with {code}: tar {' '.join(arguments)}")
