"""`wane proxy` as a process: what it prints, how it ends, what it leaves behind, and how much memory it takes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import KEY, START, STOP, TOKEN, Asked, ask, body, chunk, provider, request
from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.flag_values import size
from wane.cli.proxy.proxy_commands import ProxyCommandOptions
from wane.cli.proxy.proxy_options import proxy_options
from wane.core import Policy
from wane.core.errors import ConfigError, WaneError
from wane.flags import options_of
from wane.installing import installation
from wane.journal import SessionStore
from wane.proxy.server.running import ListenError, ProxyOptions, in_thread
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl

WANE = [sys.executable, "-m", "wane.cli.main"]
WAITING = "waiting up to 3 s for 1 request; press Ctrl-C again to stop at once\n"
MISSING = """
import sys
sys.modules.update(dict.fromkeys(["uvicorn"]))
from wane.cli.main import main
sys.exit(main())
"""


class Process:
    """A proxy that runs."""

    def __init__(self, process: asyncio.subprocess.Process, lines: list[str]) -> None:
        self.process, self.lines = process, lines
        match = re.search(r"http://127\.0\.0\.1:(\d+)", lines[0])
        assert match, lines
        self.address = Address("127.0.0.1", int(match[1]))

    async def warns(self, words: str) -> str:
        """Wait for words on standard error, and return all that was said up to them."""
        assert self.process.stderr is not None
        said = ""
        while words not in said:
            line = await asyncio.wait_for(self.process.stderr.readline(), support.WAIT)
            assert line, said
            said += line.decode()
        return said

    async def end(self) -> tuple[int | None, str, str]:
        out, err = await asyncio.wait_for(self.process.communicate(), support.WAIT)
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def wane_proxy(
    upstream: str, *options: str, before: Callable[[], object] | None = None, **environment: str
) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *WANE,
        *("proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        preexec_fn=before,
    )
    assert process.stdout is not None
    lines = []
    while not lines or "stops it" not in lines[-1]:
        line = await asyncio.wait_for(process.stdout.readline(), support.WAIT)
        if not line:
            break
        lines.append(line.decode())
    try:
        yield Process(process, lines)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(support.stream_head() + chunk(START + support.text_block("hi") + STOP) + b"0\r\n\r\n")


async def begins(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(support.stream_head() + chunk(START + support.text_start() + support.text_delta("one")))
    await asyncio.sleep(60)


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
async def test_signal_ends_it_with_a_stream_open(number: signal.Signals, times: int, tmp_path: Path) -> None:
    async with provider(begins) as up, wane_proxy(up.url, "--store", f"{tmp_path}/store") as it:
        client = support.Connection(*await asyncio.open_connection("127.0.0.1", it.address.port))
        client.send(request(body()))
        await client.head()
        await client.piece()
        it.process.send_signal(number)
        err = await it.warns(WAITING)
        if times == 2:
            it.process.send_signal(number)
        code, _, more = await it.end()
        err += more
        assert code == (failure.OK if times == 1 else failure.INTERRUPTED)
        assert "Traceback" not in err
        assert "ASGI" not in err
        await asyncio.wait_for(up.hung_up.wait(), support.WAIT)
        client.close()


@pytest.mark.full
@pytest.mark.parametrize("store", [f"redis://me:{TOKEN}@127.0.0.1:1/0", f"postgresql://me:{TOKEN}@127.0.0.1:1/wane"])
@pytest.mark.parametrize("variable", [False, True])
def test_a_store_that_cannot_be_reached_is_told_at_the_start(store: str, variable: bool) -> None:
    given = {"WANE_PROXY_STORE": store} if variable else {}
    options = [] if variable else ["--store", store]
    done = subprocess.run(
        [*WANE, "proxy", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", *options],
        capture_output=True,
        text=True,
        env={**os.environ, **given},
        check=False,
    )
    assert done.returncode == failure.FAILED
    assert done.stdout == ""
    address = store.replace(f"me:{TOKEN}@", "")
    assert done.stderr.startswith(f"wane: sessions cannot be stored: the store {address} does not work: ")
    assert TOKEN not in done.stderr


@pytest.mark.full
async def test_a_key_in_the_path_of_the_upstream_or_the_client_is_never_told(tmp_path: Path) -> None:
    key = "s3cret-KEY"

    async def fails(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(support.response(b"no", 404) if asked.target.endswith("/models") else b"220 no http\r\n\r\n")

    options = ("--no-store", "--log-level", "debug")
    async with provider(fails) as up, wane_proxy(f"{up.url}/{key}/v1", *options) as it:
        assert it.lines[0].endswith(f"for {up.url}/***/v1\n")
        for path in ("/v1/messages", f"/{key}/v1/messages", f"/v1/models?key={key}", f"/{key}/models"):
            answer = await ask(it, body(), path)
            assert key not in str(answer)
        assert {asked.target for asked in up.asked} == {
            f"/{key}/props",  # asked when the proxy starts
            f"/{key}/v1/messages",
            f"/{key}/v1/{key}/v1/messages",
            f"/{key}/v1/models?key={key}",
            f"/{key}/v1/{key}/models",
        }
        status = await ask(it, b"", "/wane/status", "GET")
        assert status.json["upstream"] == f"{up.url}/***/v1"
        it.process.send_signal(signal.SIGTERM)
        _, out, err = await it.end()
        assert "POST /***/v1/messages 502" in err
        assert key not in out + err


@pytest.mark.parametrize(
    "url", ["https://h/KEY v1", "https://u:KEY@h", "https://h?KEY", "https://h/#KEY", "h/KEY", "ftp://h/KEY"]
)
def test_a_key_in_an_upstream_that_is_none_is_not_told(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        UpstreamUrl.parse(url)
    assert "KEY" not in str(caught.value)
    assert "KEY" not in repr(UpstreamUrl.parse("https://h/KEY"))


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
@pytest.mark.parametrize("ignored", [False, True], ids=["in a terminal", "under nohup"])
async def test_a_terminal_that_is_closed_ends_it_unless_that_is_ignored(ignored: bool) -> None:
    do = signal.SIG_IGN if ignored else signal.SIG_DFL
    started = wane_proxy("http://127.0.0.1:9", "--no-store", before=lambda: signal.signal(signal.SIGHUP, do))
    async with started as it:
        it.process.send_signal(signal.SIGHUP)
        if ignored:
            answer = await ask(it, b"", "/wane/status", "GET")
            assert answer.status == 200
            it.process.send_signal(signal.SIGTERM)
        code, _, _ = await it.end()
        assert code == failure.OK


@pytest.mark.full
async def test_a_team_is_told_to_use_the_tokens_of_its_names(tmp_path: Path) -> None:
    options = ("--store", f"{tmp_path}/store", "--team")
    async with provider(says) as up, wane_proxy(up.url, *options, WANE_PROXY_TOKEN=TOKEN) as it:
        assert "Set in the client, with its token from wane proxy tokens add:\n" in it.lines
        assert f"  ANTHROPIC_BASE_URL=http://{it.address}/~TOKEN\n" in it.lines
        status = f"  status    http://{it.address}/~$WANE_PROXY_TOKEN/wane/#key="
        assert any(line.startswith(status) for line in it.lines)


@pytest.mark.full
async def test_what_it_says_and_what_it_leaves(tmp_path: Path) -> None:
    """Where it listens, what to set; a line for each request; and the key in none of it, nor in any file."""

    options = ("--store", f"{tmp_path}/store", "--budget", "10k")
    async with provider(says) as up, wane_proxy(up.url, *options, WANE_PROXY_TOKEN=TOKEN) as it:
        base = f"http://{it.address}"
        assert it.lines[0] == f"Listening on {base}, for {up.url}\n"
        assert any(line.startswith(f"  status    {base}/~$WANE_PROXY_TOKEN/wane/#key=") for line in it.lines)
        assert f"  ANTHROPIC_BASE_URL={base}/~$WANE_PROXY_TOKEN\n" in it.lines
        assert "  view      10,000 tokens (cwl, marked by the model)\n" in it.lines
        assert f"  sessions  {SessionStore(tmp_path / 'store').directory(Path.cwd())}\n" in it.lines
        assert "            deleted 30 days after their last use (--keep)\n" in it.lines
        sent = {"x-wane-token": TOKEN, "authorization": f"Bearer {KEY}"}
        for path in ("/v1/messages", "/v1/messages?key=" + KEY, f"/~{TOKEN}/v1/messages"):
            assert (await ask(it, body(), path, headers=sent)).whole
        await ask(it, body(), headers={})
        it.process.send_signal(signal.SIGTERM)
        code, out, err = await it.end()
        assert code == failure.OK
        lines = err.splitlines()
        assert len(lines) == 4
        assert re.search(r"POST /v1/messages 200 [\w-]+ view \d+/10000 evicted 0 rounds 1 managed \d+ ms$", lines[0])
        assert "POST /~***/v1/messages 200" in lines[2]
        assert "POST /v1/messages 401 refused" in lines[3]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        everything = out + err + "".join(it.lines) + "".join(path.read_text(errors="replace") for path in files)
        assert KEY not in everything
        assert TOKEN not in everything
        assert not [path for path in files if path.stat().st_mode & 0o077]


@pytest.mark.full
async def test_without_a_store_nothing_is_left(tmp_path: Path) -> None:
    places = {
        "WANE_SESSION_DIR": str(tmp_path / "sessions"),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }
    async with provider(says) as up, wane_proxy(up.url, "--no-store", "--strategy", "none", **places) as it:
        assert "  view      the whole history, without a budget (none)\n" in it.lines
        assert "  sessions  in memory only\n" in it.lines
        assert (await ask(it, body())).whole
        it.process.send_signal(signal.SIGTERM)
        assert (await it.end())[0] == failure.OK
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, as Linux has it")
async def test_body_of_100_megabytes() -> None:
    """It takes about three times its size while it lasts, and others are served meanwhile."""
    size = 100_000_000

    got: list[int] = []

    async def counts(asked: Asked, writer: asyncio.StreamWriter) -> None:
        got.append(len(asked.body))
        asked.body = b""
        await says(asked, writer)

    async with provider(counts) as up, wane_proxy(up.url, "--no-store") as it:
        before, after = request(body("@")).split(b"@")
        head = re.sub(
            rb"content-length: \d+",
            b"content-length: %d" % (size + len(request(body("")).partition(b"\r\n\r\n")[2])),
            before,
        )
        async with support.connection(it) as client:
            client.send(head)
            others = 0
            for number in range(size // 1_000_000):
                client.send(b"x" * 1_000_000)
                await client.writer.drain()
                if number % 10 == 0:
                    assert (await ask(it, body())).whole
                    others += 1
            client.send(after)
            answer = await client.answer()
        assert (answer.status, answer.whole, others) == (200, True, 10)
        assert max(got) > size
        status = Path(f"/proc/{it.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
        assert peak < 500_000_000  # the program itself, and buffers that a busy machine empties late
        assert (await ask(it, body())).whole


def test_missing_extra_is_named() -> None:
    args = [sys.executable, "-c", MISSING, "proxy", "--upstream", "https://api.example"]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == failure.FAILED
    line = installation().extras_line("proxy")
    assert done.stderr == f'wane: the proxy needs the "proxy" extra. Install it with: {line}\n'


@pytest.mark.full
def test_port_that_is_taken() -> None:
    settings = ServerSettings(UpstreamUrl.parse("https://api.example"), Address("127.0.0.1", 0))
    with in_thread(ProxyOptions(settings)) as running:
        taken = ServerSettings(UpstreamUrl.parse("https://api.example"), running.address)
        with pytest.raises(ListenError, match="another program does"), in_thread(ProxyOptions(taken)):
            pass
        args = ["proxy", "--upstream", "https://api.example", "--no-store", "--listen", str(running.address)]
        done = subprocess.run([*WANE, *args], capture_output=True, text=True, check=False)
    assert done.returncode == failure.FAILED
    assert done.stderr.startswith(f"wane: cannot listen on {running.address}: another program does")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


@pytest.mark.parametrize(
    "url",
    [
        *[
            "api.example",
            "ftp://api.example",
            "https://",
            "https://user:pass@api.example",
            "https://api.example/v1?key=1",
        ],
        *("https://api.example/v1#x", "https://api.example:99999", "https://api example", "https://127.0.0.1:8484"),
    ],
)
def test_an_upstream_of_no_use_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        proxy_options(options_of(ProxyCommandOptions, {"upstream": url}), {})
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    "values",
    [
        {"upstream": None},
        {"upstream": "http://localhost:9000", "listen": "9000"},
        *({"listen": address} for address in ("127.0.0.1:99999", "::1:8484", "a/b:1", "0.0.0.0:8484")),
        {"token": "short"},
        *({"max_body": size} for size in ("0", "lots")),
        *({"timeout": seconds} for seconds in ("0", "nan")),
        *({"budget": tokens} for tokens in ("0", "lots")),
        {"idle": "-1"},
        {"tool_classes": ["read=nonsense"]},
        {"store": "disk", "no_store": True},
        {"strategy": "truncate", "annotate": "infer"},
    ],
    ids=str,
)
def test_options_that_are_of_no_use(values: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, UsageError)):
        proxy_options(options_of(ProxyCommandOptions, {"upstream": "https://api.example", **values}), {})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"window": "0"}, "--window is '0'; it must be the tokens of the model's window"),
        ({"low_water": "2"}, "--low-water is '2'; it must be a share above 0"),
        (
            {"description_share": "7"},
            "--description-share is '7'; it must be a share from 0 to 1, or none for no limit",
        ),
        ({"max_cost": "much"}, "--max-cost is 'much'; it must be a number"),
        ({"idle": "0"}, "--idle is '0'; it must be a number of seconds above 0"),
        ({"tool_classes": ["read"]}, "--tool-class is 'read'; write NAME=CLASS, such as read=bulk"),
        ({"listen": "no such place"}, "the address 'no such place' is not understood; write HOST:PORT"),
        (
            {"listen": "nowhere.invalid"},
            "--listen is 'nowhere.invalid', and there is no host 'nowhere.invalid'; write HOST:",
        ),
        ({"strategy": "none", "annotate": "infer"}, "--annotate infer has no effect with --strategy none"),
    ],
)
def test_errors_name_options_as_they_are_written(values: dict[str, Any], told: str) -> None:
    with pytest.raises(WaneError, match=re.escape(told)):
        proxy_options(options_of(ProxyCommandOptions, {"upstream": "https://api.example", **values}), {})


def test_options_become_settings() -> None:
    values: dict[str, Any] = {
        "upstream": "https://API.example/api/v1/",
        "listen": "[::1]:9000",
        "budget": "50%",
        "window": "100k",
        "strategy": "cwl",
        "annotate": "infer",
        "policy": "paper",
        "low_water": "0.7",
        "idle": "60",
        "tool_classes": ["fetch=bulk"],
        "max_body": "2m",
        "timeout": "5",
        "strict": True,
        "store": "redis://example",
    }
    options = proxy_options(options_of(ProxyCommandOptions, values), {"WANE_PROXY_TOKEN": TOKEN})
    assert str(options.server.upstream) == "https://api.example/api/v1"
    assert str(options.server.listen) == "[::1]:9000"
    assert (options.server.token, options.server.strict, options.server.max_body) == (TOKEN, True, 2 * 1024**2)
    assert options.server.timeouts.read == 5.0
    assert options.store == "redis://example"
    assert proxy_options(options_of(ProxyCommandOptions, {"upstream": "http://x", "no_store": True}), {}).store is None
    context = options.context
    assert (context.budget, context.strategy, context.annotate, options.idle) == (50_000, "cwl", "infer", 60.0)
    assert (context.policy.order, context.policy.low_water) == (Policy.paper().order, 0.7)
    assert context.tool_classes == {"fetch": "bulk"}
    plain = proxy_options(ProxyCommandOptions(upstream="https://api.example"), {})
    assert (str(plain.server.listen), plain.server.token, plain.store) == ("127.0.0.1:8484", None, "disk")


@pytest.mark.parametrize(("text", "bytes_"), [("5", 5), ("2k", 2048), ("1MB", 1024**2), ("1 GiB", 1024**3)])
def test_sizes(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8000", "127.0.0.1:8000"),
        (":8000", "127.0.0.1:8000"),
        ("localhost", "127.0.0.1:8484"),
        ("[::1]", "[::1]:8484"),
        ("127.0.0.2:0", "127.0.0.2:0"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert str(Address.parse(text)) == address
    assert Address.parse(text).is_loopback
