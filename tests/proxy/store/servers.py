"""Real servers, started for the tests: Redis and PostgreSQL, on free ports of loopback, with data of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

PASSWORD = "s3cret/Pass-word"
"""Every server's; the tests look for it where it must not be."""

QUOTED = "s3cret%2FPass-word"

_PATIENCE = 60.0


def free_port() -> int:
    """A port that nothing listens on, below those that systems give out by themselves: nobody gets it meanwhile."""
    while True:
        port = 16_000 + secrets.randbelow(16_000)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def wait_until(is_true: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + _PATIENCE
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"a server did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


class Redis:
    """A Redis server that keeps nothing on disk."""

    def __init__(self) -> None:
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        if binary is None:
            pytest.skip("needs redis-server, which is not installed (Debian: apt-get install redis-server)")
        self.directory = Path(tempfile.mkdtemp(prefix="wane-redis-"))
        self.port = free_port()
        self.socket = self.directory / "redis.sock"
        self.log = self.directory / "log"
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{QUOTED}@127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket}?password={QUOTED}"

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        arguments += ["--requirepass", PASSWORD, "--save", "", "--appendonly", "no", "--dir", str(self.directory)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([self._binary, *arguments], stdout=log, stderr=log)
        wait_until(lambda: answers(self.port), self._process, self.log)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Have it take connections and requests, as the system does for it, and answer nothing."""
        assert self._process is not None
        with pause_processes([self._process.pid]):
            yield

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Postgres:
    """A PostgreSQL server with a new cluster; it runs as another user where the tests run as root."""

    def __init__(self) -> None:
        found = postgres_binaries()
        if found is None:
            pytest.skip("needs postgres and initdb, which are not installed (Debian: apt-get install postgresql)")
        self._bin = found
        self._user = _servant()
        # Not below pytest's own directory, which another user could not enter.
        self.directory = Path(tempfile.mkdtemp(prefix="wane-postgres-"))
        self.port = free_port()
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._initialise()

    @property
    def url(self) -> str:
        return f"postgresql://wane:{QUOTED}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = ["listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.directory}"]
        # Not against a loss of power: the tests' machine may be slow to sync.
        settings += ["fsync=off", "shared_buffers=16MB", "max_connections=60", "autovacuum=off"]
        options = [word for setting in settings for word in ("-c", setting)]
        with self.log.open("ab") as log:
            command = [f"{self._bin}/postgres", "-D", f"{self.directory}/data", *options]
            process: subprocess.Popen[bytes] = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user())
        self._process = process
        wait_until(self._answers, process, self.log)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Have it take connections and requests, as the system does for it, and answer nothing."""
        import psycopg

        assert self._process is not None
        with psycopg.connect(self.url) as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchall()
        with pause_processes([self._process.pid, *(pid for (pid,) in found)]):
            yield

    def stop(self) -> None:
        if self._process is not None:
            # Fast: open connections are broken, and everything is written.
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _initialise(self) -> None:
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            for path in (self.directory, secret):
                os.chown(path, *self._user)
        options = ["--username=wane", f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync", "--locale=C"]
        command = [f"{self._bin}/initdb", "-D", f"{self.directory}/data", *options]
        done: subprocess.CompletedProcess[bytes] = subprocess.run(command, capture_output=True, **self._as_user())
        assert done.returncode == 0, done.stderr.decode()

    def _as_user(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": self.directory}
        if self._user is not None:
            options |= {"user": self._user[0], "group": self._user[1], "extra_groups": []}
        return options

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def pause_processes(pids: list[int]) -> Iterator[None]:
    """Have processes stand still."""
    going = []
    try:
        for pid in pids:
            # A connection may have been closed since they were listed.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                going.append(pid)
        yield
    finally:
        for pid in going:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def answers(port: int) -> bool:
    """Whether something listens on a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except OSError:
        return False
    return True


def postgres_binaries() -> Path | None:
    """The directory with PostgreSQL's programs, of the newest version: Debian has them beside the path."""
    found = shutil.which("postgres")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4), reverse=True
    )
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def _servant() -> tuple[int, int] | None:
    """User and group that run PostgreSQL, which refuses to be run by root; None for whoever runs the tests."""
    if os.name == "nt" or os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    pytest.skip("runs as root, and there is no user that could run PostgreSQL")


_Server = TypeVar("_Server", Redis, Postgres)


def run_server(server: _Server) -> Iterator[_Server]:
    """Yield a server that runs, for a fixture, and remove it at the end."""
    try:
        server.start()
        yield server
    finally:
        server.remove()
