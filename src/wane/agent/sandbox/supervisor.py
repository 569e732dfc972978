"""Runs one command under limits, and ends it with the program that asked for it.

A program of its own, which `wall` starts by its path, with the standard library alone: limits, Landlock and filters of
system calls hold for whoever sets them, so they are set by the command's process itself, before it becomes the command.

Its argument is a dictionary, by `marshal` and in base64:

- `argv`: the command, where `{filter}`, `{launcher}` and `{file 0}` are the descriptors of these and of files;
- `files`: paths of files that it inherits, open to read;
- `limits`: limits of resources by their names in `resource`, such as `RLIMIT_CORE`;
- `filter`: the filter of system calls; empty for none;
- `landlock`: None, or its `version`, the paths that may be `read`, `executed` and `written`;
- `launcher`: a program that restricts itself by the rules of Landlock that it inherits; empty for none.
  With one, programs are executed below the folders `programs` alone;
- `log`: the file for the output; empty to inherit the output;
- `status`: the file for the exit code; empty for none;
- `seconds`: seconds after which the command is ended; 0 for no limit;
- `tied`: whether standard input is a pipe from the program that asked. When something comes, or when it closes because
  that program has ended, however it did, the command is ended too;
- `alone`: whether what the command has left behind is ended with it.
"""

from __future__ import annotations

# Every command starts this program, so it imports nothing that loads `re` or `typing`, such as `json` and `subprocess`:
# without them it starts in half of the time.
import binascii
import ctypes
import marshal
import os
import resource
import select
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from typing import Any, Final
else:
    import _signal as signal  # the same functions without `enum`, which takes as long as half of the interpreter

_POLL: Final = 0.02  # seconds
_RULES: Final = 63  # the descriptor that the launcher takes (`launcher.RULES`)
_LINUX: Final = sys.platform == "linux"

_SET_DEATH_SIGNAL, _SET_SECCOMP, _DROP_CAPABILITY, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 22, 24, 36, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_LAST_CAPABILITY: Final = 63

# Rights of Landlock on files, and the number of them that each version knows.
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_WRITE_FILE, _TRUNCATE, _CONTROL_DEVICE = 1 << 1, 1 << 14, 1 << 15
_OF_FILES: Final = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _CONTROL_DEVICE
_KNOWN: Final = {1: 13, 2: 14, 3: 15, 4: 15}
_KNOWN_NEWEST: Final = 16


def main(spec: dict[str, Any]) -> int:
    """Run the command, and return its exit code as a shell would."""
    if _LINUX:
        # What the command leaves behind becomes a child of this process, so that it can be ended.
        _library().prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    program = spec["filter"]
    inherited: dict[str, int] = {}
    if program and spec["landlock"] is None:
        inherited["{filter}"] = _in_memory(program)
    if spec["launcher"]:
        inherited["{launcher}"] = _in_memory(spec["launcher"])
        rules = _create_ruleset(_library(), struct.pack("<Q", _EXECUTE), {_EXECUTE: spec["programs"]})
        inherited["{rules}"] = os.dup2(rules, _RULES)
    for number, path in enumerate(spec["files"]):
        inherited[f"{{file {number}}}"] = os.open(path, os.O_RDONLY)
    output = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if spec["log"] else None
    parent = os.getpid()
    passed_on = (signal.SIGINT, signal.SIGTERM)
    # They wait until there is a command that they can be passed on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    failure, failing = os.pipe()  # closed when the command has been started
    command = os.fork()
    if command == 0:
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if output is not None:
                os.dup2(output, 1)
                os.dup2(output, 2)
            for descriptor in inherited.values():
                os.set_inheritable(descriptor, True)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
            # Where nobody ends the command, its supervisor's end does.
            if _LINUX:
                _library().prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)
            for name, value in spec["limits"].items():
                _, hard = resource.getrlimit(getattr(resource, name))
                most = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(getattr(resource, name), (most, most))
            if spec["landlock"] is not None:
                _confine(spec["landlock"], program)
            argv = [str(inherited.get(word, word)) for word in spec["argv"]]
            os.execvp(argv[0], argv)  # noqa: S606 - what the agent runs
        except BaseException as error:
            os.write(failing, f"{type(error).__name__}: {error}".encode(errors="replace")[:4096])
        os._exit(126)
    os.close(failing)
    if reason := os.read(failure, 4096):
        os.waitpid(command, 0)
        sys.exit(reason.decode(errors="replace"))
    for number in passed_on:
        signal.signal(number, lambda number, _frame: _signal_group(command, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    _publish(spec["status"], command, "null")
    code = _wait(command, spec["seconds"], tied=spec["tied"])
    if spec["alone"]:
        _end(command)
    _publish(spec["status"], command, str(code))
    return code if code >= 0 else 128 - code


def _wait(command: int, seconds: float, *, tied: bool) -> int:
    """Wait until the command ends, or is ended because its time is up or the program that asked has ended.

    Returns:
        its exit code, or the number of the signal that ended it, below zero.
    """
    ends = time.monotonic() + seconds if seconds else None
    poll = select.poll()
    if tied:
        poll.register(0, select.POLLIN | select.POLLHUP)
    pause = 0.001
    while True:
        ended, status = os.waitpid(command, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if poll.poll(pause * 1000):  # closed, or told to end it
            _end(command)
            for _ in range(100):  # it has ended before this process has
                if os.waitpid(command, os.WNOHANG)[0]:
                    break
                time.sleep(0.01)
            os._exit(1)  # nobody is left who would read the code
        if ends is not None and time.monotonic() > ends:
            _end(command)
        pause = min(2 * pause, _POLL)


def _end(command: int) -> None:
    _signal_group(command, signal.SIGKILL)
    # The children of a process that ends become those of this one, so it looks until there are no others.
    ended: set[int] = set()
    for _ in range(1_000):
        others = set(_descendants(os.getpid())) - ended
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        if not others:
            break
        ended |= others
        time.sleep(0.005)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return


def _descendants(pid: int) -> Iterator[int]:
    """Yield the processes below one, where the kernel lists them."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _descendants(child)


def _publish(path: str, pid: int, code: str) -> None:
    if not path:
        return
    pending = f"{path}.new"
    with open(pending, "w", encoding="utf-8") as file:
        file.write(f'{{"pid": {pid}, "exit_code": {code}}}')
    os.replace(pending, path)


def _in_memory(content: bytes) -> int:
    descriptor = os.memfd_create("filter")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _confine(rules: dict[str, Any], program: bytes) -> None:
    """Restrict this process by Landlock and a filter of system calls, and give up all privileges.

    Raises:
        OSError: if the kernel refuses any of it; then nothing may run.
    """
    library = _library()
    for capability in range(_LAST_CAPABILITY + 1):
        library.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # fails without privileges, or beyond the last one
    header = struct.pack("<Ii", 0x2008_0522, 0)
    _check(library.syscall(_CAPSET[os.uname().machine], header, bytes(24)), "capabilities")
    _check(library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    version = rules["version"]
    handled = (1 << _KNOWN.get(version, _KNOWN_NEWEST)) - 1
    # Files; from version 4 binding and connecting over TCP; from 6 abstract sockets and signals. Each is a field.
    attributes = struct.pack("<QQQ", handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 + 8 * (version >= 4) + 8 * (version >= 6)
    allowed = {
        _READ_FILE | _READ_FOLDER: rules["read"],
        _EXECUTE | _READ_FILE | _READ_FOLDER: rules["executed"],
        handled & ~_EXECUTE: rules["written"],
    }
    ruleset = _create_ruleset(library, attributes[:size], allowed)
    _check(library.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)
    buffer = ctypes.create_string_buffer(program, len(program))
    instructions = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _check(library.prctl(_SET_SECCOMP, 2, instructions, 0, 0), "the filter of system calls")


def _create_ruleset(library: ctypes.CDLL, attributes: bytes, allowed: dict[int, list[str]]) -> int:
    """Return the descriptor of rules of Landlock, which allow some rights below some paths each."""
    (handled,) = struct.unpack("<Q", attributes[:8])
    ruleset = _check(library.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "Landlock")
    for rights, paths in allowed.items():
        for path in paths:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # what is not there need not be allowed
            mask = handled if os.path.isdir(path) else handled & _OF_FILES
            rule = struct.pack("<Qi", rights & mask, descriptor)
            if rights & mask:
                _check(library.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"Landlock, {path}")
            os.close(descriptor)
    return ruleset


if __name__ == "__main__":
    # A terminal that closes is not the end of the chat; the end of the pipe is.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main(marshal.loads(binascii.a2b_base64(sys.argv[1]))))  # noqa: S302 - from the program that runs it
