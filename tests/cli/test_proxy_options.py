"""What `wane proxy` refuses to start with."""

from __future__ import annotations

import os

import pytest

from tests.cli.conftest import Run
from wane.core.errors import ConfigError
from wane.proxy.settings import UpstreamUrl


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--shadow", "--recall"), "gives the model no tool, so --recall has no effect"),
        (("--shadow", "--tasks"), "gives the model no tool, so --tasks has no effect"),
        (("--shadow", "--agent-budget", "40k"), "one --budget for all sessions, so --agent-budget has no effect"),
        (("--shadow", "--remind-at", "none"), "reminds the model of nothing, so --remind-at has no effect"),
        (("--shadow", "--usage", "sum"), "passes every reply on as it is, so --usage has no effect"),
        (("--shadow", "--strict"), "even if Wane fails, so --strict has no effect"),
        (("--shadow", "--fallback", "http://127.0.0.1:2"), "so --fallback has no effect"),
        (("--strategy", "none", "--agent-budget", "40k"), "leave --agent-budget out"),
        (("--no-store", "--keep", "12h"), "--keep is about sessions in a store: leave out --keep or --no-store"),
        (("--no-store", "--idle", "60"), "--idle is about sessions in a store"),
        (("--no-store", "--digests-only"), "--digests-only is about sessions in a store"),
        (("--agent-budget", "200%"), "--agent-budget: budget '200%' is more than the whole window"),
        (("--workers", "2", "--no-store"), "several workers need a store that processes can share"),
        (("--workers", "2"), "several workers need a store that processes can share"),
        (("--workers", "2", "--store", "disk"), "several workers need a store that processes can share"),
        (("--workers", "0"), "at least one process"),
    ],
)
def test_an_option_without_effect_is_refused(options: tuple[str, ...], why: str, run: Run) -> None:
    done = run("proxy", "--upstream", "http://127.0.0.1:1", *options)
    assert done.code == 2
    assert why in done.err


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("localhost:11434", "http://localhost:11434/v1"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("api.openai.com/v1", "https://api.openai.com/v1"),
        ("models:8000", "https://models:8000"),
        ("", "https://api.anthropic.com"),
        ("nonsense", "https://api.anthropic.com"),
        ("me:secret@localhost:1", "https://api.anthropic.com"),
        ("localhost:many", "https://api.anthropic.com"),
        ("ftp://localhost", "https://api.anthropic.com"),
    ],
)
def test_an_upstream_that_is_not_understood_is_told_with_the_likely_one(text: str, example: str) -> None:
    with pytest.raises(ConfigError) as caught:
        UpstreamUrl.parse(text)
    assert str(caught.value).endswith(f"is not understood; write a base URL, such as {example}")


@pytest.mark.full
def test_workers_do_not_start_without_a_store_that_serves(spawn: Run) -> None:
    options = ("--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--workers", "2")
    done = spawn("proxy", *options, "--store", "redis://127.0.0.1:9/0")
    assert (done.code, done.out) == (1, "")
    assert "sessions cannot be stored: the store redis://127.0.0.1:9/0 does not work" in done.err


GIVING_UP = """
import sys
from wane.cli.proxy.proxy_command import serve_together
from wane.proxy.server.running import ProxyOptions
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl
options = ProxyOptions(ServerSettings(UpstreamUrl.parse("http://127.0.0.1:1"), Address("127.0.0.1", 0)))
sys.exit(serve_together(options, 2, lambda *_: 3, lambda _: None))
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_workers_that_die_at_once_are_given_up_together(spawn: Run) -> None:
    done = spawn(code=GIVING_UP)
    assert done.code == 1
    assert done.err.count("giving up") == 1
    assert done.err.count("another one takes its place") == 4
