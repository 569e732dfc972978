"""A program, run by this machine's Python, that is the first process of a namespace, or enters one.

A task is root in its environment and may replace any program there, even those used to enter it. So nothing from there
may run before the capabilities are dropped: this uses no program, library or module of the environment. Nor may a task
get hold of this interpreter, which it could overwrite (as in CVE-2019-5736).

    entering.py keep ROOT LOWER UPPER WORK [SOURCE TARGET ro|rw]…
    entering.py enter PID NAMESPACES USER VARIABLES [NAME=VALUE]… [ARGUMENT OF sh]…
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Never

NAMESPACES: Final = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "net": 0x40000000,
}
"""Kinds of namespaces, by their names in /proc, in the order to enter them, with the kernel's flags."""

CAPABILITIES: Final = {
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "fsetid": 4,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "setpcap": 8,
    "net_bind_service": 10,
    "net_raw": 13,
    "sys_chroot": 18,
    "audit_write": 29,
    "setfcap": 31,
}
"""What root may do inside: the same as in a Docker container, except making device nodes, which Docker limits in
another way.

Without `sys_admin`, root can mount nothing. So read-only mounts stay read-only, and the machine's devices stay out of
reach."""

# $1 root, $2 lower layers, $3 upper, $4 work; then for each mount its source, target and "ro" or "rw".
_ROOT: Final = r"""
set -e
root=$(realpath "$1"); lower=$2; upper=$3; work=$4; shift 4
# Its links are those of a task, too: nothing may be made outside.
within() {
    case $(realpath -m "$root$1") in
        "$root"/*) ;;
        *) echo "$1 is a link out of the root file system"; exit 1 ;;
    esac
}
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work$OVERLAY" "$root"
for name in proc dev sys; do within "/$name"; mkdir -p "$root/$name"; done
[ -L "$root/tmp" ] || mkdir -p "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for name in null zero full random urandom tty; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
    # These are the machine's own nodes. Without this, root could change their owner and mode for everyone.
    [ -n "$OVERLAY" ] || mount -o remount,bind,ro "$root/dev/$name"
done
# What root may write or read without any capability.
for name in sys sysrq-trigger irq bus fs; do
    [ -n "$OVERLAY" ] || [ ! -e "$root/proc/$name" ] || {
        mount --bind "$root/proc/$name" "$root/proc/$name"
        mount -o remount,bind,ro "$root/proc/$name"
    }
done
for name in kcore keys timer_list; do
    [ -n "$OVERLAY" ] || [ ! -e "$root/proc/$name" ] || mount --bind /dev/null "$root/proc/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"; ln -s fd/1 "$root/dev/stdout"; ln -s fd/2 "$root/dev/stderr"
while [ $# -gt 0 ]; do
    within "$2"
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; : >>"$root$2"; fi
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
[ -z "$LOOPBACK" ] || ip link set lo up 2>/dev/null || true
cd "$root"
mkdir -p .old
pivot_root . .old
"""

_DUMPABLE: Final = 4
_DROP_FROM_BOUNDS: Final = 24
_DETACH: Final = 2
_VERSION: Final = 0x20080522
"""Constants of the kernel: PR_SET_DUMPABLE, PR_CAPBSET_DROP, MNT_DETACH and _LINUX_CAPABILITY_VERSION_3."""

_FAILED: Final = 125  # exit code if the program was not started, as of `env`


def keep(*places: str) -> Never:
    """Make the root file system, and stay as the first process until standard input ends.

    Standard input is a pipe from the process that owns the namespace. When the owner dies, even by SIGKILL, the pipe
    ends; then the first process ends, and with it the namespace. A parent-death signal would not work: the kernel drops
    it when a process enters a user namespace.
    """
    import subprocess

    os.chdir("/")  # so that this process, too, has the new root afterwards
    null = os.open("/dev/null", os.O_RDWR)
    if code := subprocess.call(["sh", "-c", _ROOT, "sh", *places], stdin=null):  # noqa: S603, S607 - the machine's own
        sys.exit(code)
    _check(_libc().umount2(b"/.old", _DETACH))
    with suppress(OSError):
        os.rmdir("/.old")
    # The kernel reaps orphans at once. No other signal from inside reaches the first process.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    os.dup2(null, 1)
    os.dup2(null, 2)
    while os.read(0, 1024):
        pass
    os._exit(0)


def enter(pid: str, namespaces: str, user: str, variables: str, *words: str) -> Never:
    """Run a shell in a namespace, and end as it ends.

    `variables`: number of its environment's variables.
    `words`: these variables, and the arguments of the shell.
    """
    own = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in namespaces.split(",")]
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY)
    libc = _libc()
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    # Nobody inside may inspect this process or its program.
    _check(libc.prctl(_DUMPABLE, 0, 0, 0, 0))
    for name, handle in zip(namespaces.split(","), own, strict=True):
        _check(libc.setns(handle, NAMESPACES[name]))
    _limit(libc, last)
    child = os.fork()  # only a child enters the namespace of processes
    if child:
        _end_as(child)
    os.fchdir(root)
    os.chroot(".")
    _become(user)
    # Python ignores some signals, and the parent of this process may have ignored others.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    split = int(variables)
    env = dict(word.split("=", 1) for word in words[:split])
    _shell(words[split:], env)


def _shell(arguments: Sequence[str], env: Mapping[str, str]) -> Never:
    for name in ("sh", "bash"):
        for folder in env["PATH"].split(":"):
            with suppress(OSError):
                # From a handle that is closed on exec, the kernel starts no script. A script could name this
                # interpreter as its own, by "/proc/self/exe".
                handle = os.open(f"{folder}/{name}", os.O_PATH | os.O_CLOEXEC)
                os.execve(handle, ["sh", *arguments], env)  # noqa: S606 - it is one
    raise FileNotFoundError("there is no shell, or it is a script")


def _limit(libc: ctypes.CDLL, last: int) -> None:
    """Drop all other capabilities permanently."""
    for number in set(range(last + 1)) - set(CAPABILITIES.values()):
        _check(libc.prctl(_DROP_FROM_BOUNDS, number, 0, 0, 0))
    capabilities = sum(1 << number for number in CAPABILITIES.values())
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    # Effective, permitted and inheritable ones.
    _check(libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)))


def _become(user: str) -> None:
    """Change the user, to one in the namespace's /etc/passwd or to a number."""
    if user in ("root", "0"):
        return
    groups: list[int] = []
    entry = next((fields for fields in _fields("/etc/passwd") if user in (fields[0], fields[2])), None)
    if entry is not None:
        name, number, group = entry[0], int(entry[2]), int(entry[3])
        groups = [group]
        groups += [int(fields[2]) for fields in _fields("/etc/group") if name in fields[3].split(",")]
    elif user.isdigit():
        number = group = int(user)
    else:
        raise ValueError(f"there is no user {user} in /etc/passwd")
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(number, number, number)


def _fields(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip().split(":") for line in file]
    except FileNotFoundError:
        return []
    return [fields for fields in lines if len(fields) > 3]


def _end_as(child: int) -> Never:
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # SIGKILL
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if sys.argv[1] == "keep":
            keep(*sys.argv[2:])
        enter(*sys.argv[2:])
    except Exception as error:
        # No traceback: Python would load modules for it.
        os.write(2, f"{error}\n".encode())
        os._exit(_FAILED)
