"""What the checks of all three steps share: a server, a client of its protocol, the existing tests, and rewards."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path("/app/redis")
COMMIT = "ae6a2aa95cd094b032e7a69b8b59f64dd1ed085f"
REWARDS = Path("/logs/verifier/reward.json")


class RefusedError(Exception):
    """The server's reply was an error."""


class Client:
    """One connection. `call` returns a reply: None, int, str, list, or dict for a map of RESP3."""

    def __init__(self, port: int, protocol: int = 2) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")
        if protocol == 3:
            self.call("HELLO", 3)

    def call(self, *words: object) -> object:
        encoded = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)]
        self._socket.sendall(b"".join(parts))
        return self._reply()

    def refuses(self, start: str, *words: object) -> bool:
        """Whether the reply is an error that starts so."""
        try:
            self.call(*words)
        except RefusedError as error:
            return str(error).startswith(start)
        return False

    def _reply(self) -> object:
        line = self._file.readline()
        kind, text = line[:1], line[1:-2].decode()
        if kind == b"+":
            return text
        if kind == b"-":
            raise RefusedError(text)
        if kind == b":":
            return int(text)
        if kind == b"_":
            return None
        if kind == b"#":
            return text == "t"
        if kind == b",":
            return float(text)
        if kind in b"$=":
            return None if text == "-1" else self._file.read(int(text) + 2)[:-2].decode()
        if kind in b"*~>" and text == "-1":
            return None
        if kind in b"*~>":
            return [self._reply() for _ in range(int(text))]
        if kind == b"%":
            return {str(self._reply()): self._reply() for _ in range(int(text))}
        raise ConnectionError(f"unknown kind of reply: {line!r}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server() -> Iterator[int]:
    """Start the built server, and give its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            str(REPOSITORY / "src/redis-server"),
            "--port",
            str(port),
            "--save",
            "",
            "--enable-debug-command",
            "yes",
        ]
        process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    Client(port).call("PING")
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        raise
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait()


def built() -> bool:
    """Build the tree as it is; also, what the table of commands is made from must be up to date."""
    if subprocess.run(["make", "-j2", "MALLOC=libc"], cwd=REPOSITORY, stdout=subprocess.DEVNULL).returncode:
        return False
    table = REPOSITORY / "src/commands.def"
    before = table.read_bytes()
    if subprocess.run([sys.executable, "utils/generate-command-code.py"], cwd=REPOSITORY).returncode:
        return False
    after = table.read_bytes()
    table.write_bytes(before)
    if before != after:
        print("src/commands.def is not what utils/generate-command-code.py makes of src/commands")
    return before == after


def existing_tests(*units: str) -> bool:
    """Run units of Redis's own tests as they were at the start, against what is built now."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", COMMIT, "runtest", "tests", "utils"], cwd=REPOSITORY, check=True, capture_output=True
        )
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        (Path(folder) / "src").symlink_to(REPOSITORY / "src")
        return run_tests(Path(folder), *units)


def run_tests(folder: Path, *units: str, options: tuple[str, ...] = ()) -> bool:
    """Run units of the tests in a folder, and say whether they pass."""
    argv = ["./runtest", "--clients", "2", *options]
    for unit in units:
        argv += ["--single", unit]
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    text = done.stdout.decode(errors="replace")
    passed = done.returncode == 0 and "All tests passed without errors" in text
    if not passed:
        print(text[-4000:])
    return passed


def holds(checks: dict[str, Callable[[], object]]) -> bool:
    """Whether all checks hold; those that do not are printed."""
    failed = []
    for about, check in checks.items():
        try:
            good = bool(check())
        except (RefusedError, OSError, TypeError, KeyError, ValueError) as error:
            print(f"{type(error).__name__}: {error}")
            good = False
        if not good:
            failed.append(about)
            print(f"does not hold: {about}")
    print(f"{len(checks) - len(failed)} of {len(checks)} checks hold")
    return not failed


def grade(parts: dict[str, Callable[[], bool]]) -> None:
    """Write a reward for each part, and `reward`, which is 1 if all are. The first is the build: others need it."""
    rewards: dict[str, int] = {}
    for name, check in parts.items():
        try:
            rewards[name] = int(not (rewards and not next(iter(rewards.values()))) and check())
        except Exception:  # a check that breaks does not hold
            traceback.print_exc()
            rewards[name] = 0
    rewards = {"reward": min(rewards.values()), **rewards}
    REWARDS.write_text(json.dumps(rewards) + "\n")
    print(rewards)
