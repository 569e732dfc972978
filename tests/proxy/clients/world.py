"""A home and a working directory for an agent, a proxy as a process of its own, and what is compared of a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.clients import install
from tests.proxy.clients.agents import CodingAgent
from tests.proxy.clients.script import PROMPTS, furnish
from wane.core.guidance import guidance
from wane.testing import Kind, Request
from wane.testing.anthropic import UNSCRIPTED

PATIENCE = 180  # seconds for one turn of an agent
WANE = (sys.executable, "-m", "wane.cli.main")
TESTED = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
"""Where the code under test is, if it is not the installed one."""
GUIDANCE = guidance()

# What differs from run to run with nothing to do with what was said.
_MASKS = (
    (re.compile(r"<total_tokens>\d+ tokens left"), "<total_tokens>N tokens left"),
    (re.compile(r"cc_version=[\w.]+"), "cc_version=V"),
    (re.compile(r"Chunk ID: [0-9a-f]+"), "Chunk ID: X"),
    (re.compile(r'"chunk_id":"[0-9a-f]+"'), '"chunk_id":"X"'),
    (re.compile(r'"wall_time_seconds":[\d.e-]+'), '"wall_time_seconds":N'),
    (re.compile(r"Wall time:? [\d.]+ seconds"), "Wall time N seconds"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b(msg|rs|fc|ctc|call|toolu)_[nr][0-9a-f]{20}(_\d+)?"), r"\1_ID"),
    (re.compile(r"wane\.[0-9a-f]{32}\.[0-9a-f]{16}\.[0-9a-f]{16}"), "SIGNATURE"),
)


_NEVER = (
    "id",
    "timestamp",
    "internal_chat_message_metadata_passthrough",
    "encrypted_content",
    "signature",
    "thoughtSignature",
)
"""Keys of what does."""


@dataclass
class Place:
    """Where an agent lives and works."""

    home: Path
    work: Path
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> Place:
        """Make one, in place of an earlier one: clients tell the model where they are."""
        place = cls(folder / "home", folder / "work")
        shutil.rmtree(folder, ignore_errors=True)
        place.home.mkdir(parents=True)
        place.work.mkdir()
        furnish(place.work)
        place.environ = {
            "HOME": str(place.home),
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **TESTED,
        }
        return place

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.work,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def files(self) -> dict[str, str]:
        """What is in the working directory."""
        return {path.name: path.read_text() for path in sorted(self.work.iterdir()) if path.is_file()}


def mask(value: Any) -> Any:
    """Return JSON data without what differs from run to run."""
    if isinstance(value, list):
        value = [each for each in value if not (isinstance(each, dict) and each.get("thinking") == UNSCRIPTED)]
    if isinstance(value, dict):
        return {key: mask(each) for key, each in value.items() if key not in _NEVER}
    if isinstance(value, list | tuple):
        return [mask(each) for each in value]
    if not isinstance(value, str):
        return value
    text = value
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text


def request_contents(request: Request) -> list[Any]:
    """Return what a request says, without what the proxy put in."""
    own = {part.call_id for part in request.parts if part.kind is Kind.CALL and part.tool == "delimiter"}
    return [
        (part.kind.name, mask(part.text.removesuffix(f"\n\n{GUIDANCE}")), part.tool)
        for part in request.parts
        if part.text not in (GUIDANCE, UNSCRIPTED) and not (part.call_id in own and part.call_id is not None)
    ]


def difference(one: Any, other: Any) -> str:
    """Return the first place where two JSON data differ, and how; empty if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = sorted(one.items()), sorted(other.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        found = ((at, difference(*both)) for at, both in enumerate(zip(one, other, strict=False)))
        where = next((f"{at}.{how}" for at, how in found if how), "")
        return where or (f": {one!r:.3000} is not {other!r:.3000}" if len(one) != len(other) else "")
    if one == other:
        return ""
    if isinstance(one, str) and isinstance(other, str):
        at = next((at for at, both in enumerate(zip(one, other, strict=False)) if both[0] != both[1]), 0)
        one, other = one[max(0, at - 99) : at + 400], other[max(0, at - 99) : at + 400]
    return f": {one!r:.3000} is not {other!r:.3000}"


def tools(request: Request) -> tuple[str, ...]:
    """The tools of a request that are not the proxy's."""
    return tuple(tool for tool in request.tools if tool != "delimiter")


@dataclass
class Done:
    """What came of an agent's turns."""

    answers: list[str]
    outputs: list[str]
    errors: list[str]


def work(
    agent: CodingAgent,
    place: Place,
    *,
    upstream: str,
    before: Sequence[str] = (),
    prompts: Sequence[str] = PROMPTS,
    resumed: bool = False,
) -> Done:
    """Have an agent do its turns, all but the first as a session that is resumed.

    Args:
        agent: the agent.
        place: where.
        upstream: the URL that it is told.
        before: what starts it; by default it is started itself, and told the URL by options too.
        prompts: what a person says in each turn.
        resumed: whether the first turn resumes a session, too, of an agent that is prepared.
    """
    try:
        client = install.install_client(agent.package)
    except install.UnavailableError as error:
        pytest.skip(str(error))
    path = os.pathsep.join([*map(str, client.path), os.environ["PATH"]])
    environ = {**agent.environ(upstream), "PATH": path}
    if not resumed:
        agent.prepare(place.home, upstream)
    done = Done([], [], [])
    try:
        for turn, prompt in enumerate(prompts, int(resumed)):
            own = [str(client.program), *([] if before else agent.url_options(upstream)), *agent.command(prompt, turn)]
            result = place.run([*before, *own], environ)
            assert result.returncode == 0, (result.stdout[-2000:], result.stderr[-2000:])
            done.outputs.append(result.stdout)
            done.errors.append(result.stderr)
            done.answers.append(agent.answer(result.stdout))
    finally:
        agent.end(place.work)
    return done


@contextmanager
def proxy(upstream: str, folder: Path, *options: str, store: str | None = None) -> Iterator[str]:
    """Run `wane proxy` as a process of its own, and yield its URL; without a store unless one is given."""
    log = folder / "proxy.log"
    command = [*WANE, "proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", *options]
    command += ["--no-store"] if store is None else ["--store", store]
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
    environ |= TESTED
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if match := re.search(r"Listening on (http://\S+?),", log.read_text()):
            with urllib.request.urlopen(match[1] + "/wane/health") as response:
                assert response.status == 200
            return match[1]
        time.sleep(0.02)
    raise AssertionError(log.read_text())
