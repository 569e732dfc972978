"""Checks of a test suite: it passes with the real server, and fails with servers that are broken in known ways.

The server itself is not changed. A relay between the suite and the server rewrites requests, so that the replies are
those of a broken server. So it does not matter how the options were implemented.
"""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from redis_checks import REPOSITORY, Client, built, grade, holds, run_tests, server

UNIT = "unit/type/hash-novalues"

Words = list[bytes]
Rewrite = Callable[[Words], Words]

HGETALL, MEMORY = (b"HGETALL",), (b"MEMORY", b"USAGE")
OPTION = b"NOVALUES"


def starts(words: Words, command: tuple[bytes, ...]) -> bool:
    return tuple(word.upper() for word in words[: len(command)]) == command


def has_option(words: Words, command: tuple[bytes, ...]) -> bool:
    return starts(words, command) and OPTION in [word.upper() for word in words[len(command) + 1 :]]


def without_option(words: Words) -> Words:
    return [word for word in words if word.upper() != OPTION]


def script_request(script: str, words: Words, key: int) -> Words:
    """Return a request for the result of a script, whose ARGV is the original request."""
    return [b"EVAL", script.encode(), b"1", words[key], *words]


def hgetall(change: Rewrite) -> Rewrite:
    return lambda words: change(words) if has_option(words, HGETALL) else words


def hgetall_of(length: int, change: Rewrite) -> Rewrite:
    """Rewrite any HGETALL of this many words."""
    return lambda words: change(words) if starts(words, HGETALL) and len(words) == length else words


def memory(change: Rewrite) -> Rewrite:
    return lambda words: change(words) if has_option(words, MEMORY) else words


def of_encoding(encoding: str, change: str) -> str:
    """Return a script that replies something else for hashes of one encoding."""
    return (
        "if redis.call('exists', KEYS[1]) == 1 and redis.call('type', KEYS[1]).ok == 'hash' "
        f"and redis.call('object', 'encoding', KEYS[1]) == '{encoding}' then {change} end "
        "return redis.call(unpack(ARGV))"
    )


LESS_ONE = "local found = redis.call('hkeys', KEYS[1]); table.remove(found); return found"
ALL_MEMORY = "return redis.call('memory', 'usage', KEYS[1], 'samples', 0)"

BROKEN: dict[str, Rewrite] = {
    "HGETALL ignores the option": hgetall(without_option),
    "HGETALL replies the values": hgetall(lambda words: [b"HVALS", words[1]]),
    "HGETALL replies values for small hashes": hgetall(
        lambda words: script_request(of_encoding("listpack", "return redis.call('hgetall', KEYS[1])"), words, 1)
    ),
    "HGETALL replies values for large hashes": hgetall(
        lambda words: script_request(of_encoding("hashtable", "return redis.call('hgetall', KEYS[1])"), words, 1)
    ),
    "HGETALL leaves a field of small hashes out": hgetall(
        lambda words: script_request(of_encoding("listpack", LESS_ONE), words, 1)
    ),
    "HGETALL leaves a field of large hashes out": hgetall(
        lambda words: script_request(of_encoding("hashtable", LESS_ONE), words, 1)
    ),
    "HGETALL knows the option in capitals alone": hgetall(
        lambda words: words if OPTION in words else [words[0], words[1], b"other"]
    ),
    "HGETALL knows the option in small letters alone": hgetall(
        lambda words: words if OPTION.lower() in words else [words[0], words[1], b"other"]
    ),
    "HGETALL takes any third argument for the option": hgetall_of(3, lambda words: [*words[:2], OPTION]),
    "HGETALL takes any third argument for none": hgetall_of(
        3, lambda words: words if words[2].upper() == OPTION else words[:2]
    ),
    "HGETALL never replies values": hgetall_of(2, lambda words: [*words, OPTION]),
    "HGETALL refuses a key that does not exist": hgetall(
        lambda words: script_request(
            "if redis.call('exists', KEYS[1]) == 0 then return redis.error_reply('ERR no such key') end "
            "return redis.call(unpack(ARGV))",
            words,
            1,
        )
    ),
    "MEMORY USAGE ignores the option": memory(without_option),
    "MEMORY USAGE ignores the option for small hashes": memory(
        lambda words: script_request(of_encoding("listpack", ALL_MEMORY), words, 2)
    ),
    "MEMORY USAGE ignores the option for large hashes": memory(
        lambda words: script_request(of_encoding("hashtable", ALL_MEMORY), words, 2)
    ),
    "MEMORY USAGE knows the option in capitals alone": memory(
        lambda words: words if OPTION in words else [*without_option(words), b"other"]
    ),
    "MEMORY USAGE knows the option in small letters alone": memory(
        lambda words: words if OPTION.lower() in words else [*without_option(words), b"other"]
    ),
    "MEMORY USAGE wants the option first": memory(
        lambda words: words if words[3].upper() == OPTION else [*words, b"other"]
    ),
    "MEMORY USAGE wants the option last": memory(
        lambda words: words if words[-1].upper() == OPTION else [*words, b"other"]
    ),
    "MEMORY USAGE with the option replies 0 if there is no such key": memory(
        lambda words: script_request(
            "if redis.call('exists', KEYS[1]) == 0 then return 0 end return redis.call(unpack(ARGV))", words, 2
        )
    ),
    "MEMORY USAGE with the option takes any type": memory(
        lambda words: script_request(
            "if redis.call('type', KEYS[1]).ok ~= 'hash' then return 64 end return redis.call(unpack(ARGV))", words, 2
        )
    ),
}


class Relay:
    """Passes connections on to a server, with each request rewritten."""

    def __init__(self, port: int, rewrite: Rewrite) -> None:
        self._server, self._rewrite = port, rewrite
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._server))
            threading.Thread(target=self._requests, args=(client, upstream), daemon=True).start()
            threading.Thread(target=self._replies, args=(upstream, client), daemon=True).start()

    def _requests(self, client: socket.socket, upstream: socket.socket) -> None:
        source = client.makefile("rb")
        try:
            while line := source.readline():
                upstream.sendall(self._rewritten(line, source))
        except (OSError, ValueError):
            pass
        finally:
            end(upstream)

    def _rewritten(self, line: bytes, source: BinaryIO) -> bytes:
        if not line.startswith(b"*"):
            return line  # typed as on a terminal
        words = []
        for _ in range(int(line[1:])):
            size = int(source.readline()[1:])
            words.append(source.read(size + 2)[:-2])
        words = self._rewrite(words)
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

    def _replies(self, upstream: socket.socket, client: socket.socket) -> None:
        try:
            while data := upstream.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        finally:
            end(client)


def end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed_server(rewrite: Rewrite) -> Iterator[int]:
    """A server of its own behind a relay."""
    with server() as port:
        relay = Relay(port, rewrite)
        try:
            yield relay.port
        finally:
            relay.close()


def suite(rewrite: Rewrite) -> tuple[int, str]:
    """Run the suite through a relay: its exit code, and what it printed."""
    with relayed_server(rewrite) as port:
        argv = ["./runtest", "--single", UNIT, "--host", "127.0.0.1", "--port", str(port)]
        try:
            done = subprocess.run(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
        except subprocess.TimeoutExpired:
            return -1, "took more than 180 seconds"
    return done.returncode, re.sub(r"\x1b\[[\d;]*m", "", done.stdout.decode(errors="replace"))


def passes() -> bool:
    """As other units run, and against a server that runs already."""
    listed = re.search(rf"^\s*{UNIT}\s*$", (REPOSITORY / "tests/test_helper.tcl").read_text(), re.MULTILINE)
    if not listed or not (REPOSITORY / f"tests/{UNIT}.tcl").exists():
        print(f"{UNIT} is not there, or not in tests/test_helper.tcl")
        return False
    if not run_tests(REPOSITORY, UNIT):
        return False
    code, text = suite(lambda words: words)
    good = code == 0 and "[ok]" in text and "[ignore]" not in text and "All tests passed without errors" in text
    if not good:
        print(f"against a server that runs already: {code}\n{text[-4000:]}")
    return good


def finds_what_is_broken() -> bool:
    if not passes():
        return False
    return holds({f"found: {about}": (lambda each=rewrite: suite(each)[0] > 0) for about, rewrite in BROKEN.items()})


def options_work() -> bool:
    with server() as port:
        client = Client(port)
        client.call("HSET", "hash", "field", "value")
        return holds(
            {
                "HGETALL": lambda: client.call("HGETALL", "hash", "NOVALUES") == ["field"],
                "MEMORY USAGE": lambda: (
                    0 < client.call("MEMORY", "USAGE", "hash", "NOVALUES") < client.call("MEMORY", "USAGE", "hash")
                ),
            }
        )


grade({"build": built, "options": options_work, "passes": passes, "finds": finds_what_is_broken})
