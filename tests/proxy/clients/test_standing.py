"""What the real clients state once, and hold to, stays in view until they replace it (R15).

Each is skipped, with the reason, where its client cannot be installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.marks import first_quick
from tests.proxy.clients.agents import Claude, Codex
from tests.proxy.clients.world import Place, proxy, work
from wane.testing import Call, Kind, Reply, Request, ScriptedServer, Usage

pytestmark = pytest.mark.full

CALLS = 5  # in each turn of the user
PLAN = "you MUST NOT make any edits"
EXITED = "## Exited Plan Mode"
LISTS = (
    "The following deferred tools are now available",
    "Available agent types for the Agent tool:",
    "The following skills are available",
    "# Environment\nYou have been invoked",
    "You are powered by the model",
    "Attribution for git commits and pull requests",
)

# Each is told what holds in another way: as tagged system messages, as system messages without a tag, and in the
# user's messages.
MODELS = ("claude-sonnet-5", "claude-opus-5", "claude-haiku-4-5")


@dataclass(frozen=True)
class Switching(Claude):
    """Claude Code in a mode of its own for each turn; its turns are those of the script."""

    script: tuple[tuple[str, str], ...] = ()

    def command(self, prompt: str, turn: int) -> list[str]:
        return [*super().command(prompt, turn), "--permission-mode", self.script[turn][0]]

    @property
    def prompts(self) -> list[str]:
        return [prompt for _, prompt in self.script]


class Model:
    """Reads large files over and over, and marks nothing; `turns` has the requests of each turn."""

    def __init__(self, call: Call, prompts: Sequence[str]) -> None:
        self._call = call
        self._prompts = prompts
        self.turns: list[list[Request]] = [[] for _ in prompts]

    def __call__(self, request: Request) -> Reply:
        usage = Usage(request.tokens, 20)
        users = [part.text for part in request.parts if part.kind is not Kind.CALL]
        if any("CRITICAL: Respond with TEXT ONLY" in text for text in users):
            return Reply("<summary>All is well.</summary>", usage=usage)
        so_far = "\n".join(users)
        turn = max(number for number, prompt in enumerate(self._prompts) if prompt in so_far)
        self.turns[turn].append(request)
        if len(self.turns[turn]) > CALLS:
            return Reply("Done.", usage=usage)
        return Reply(calls=(self._call,), usage=usage)


def holds(requests: Iterable[Request], text: str) -> list[bool]:
    return [_holds(request, text) for request in requests]


def _holds(request: Request, text: str) -> bool:
    return any(text in part.text for part in request.parts if part.kind is not Kind.CALL)


@pytest.mark.wide
@pytest.mark.parametrize("name", first_quick(*MODELS))
def test_plan_mode_stays_until_it_is_left(name: str, tmp_path: Path) -> None:
    script = (
        ("default", "PROMPT one."),
        ("plan", "PROMPT two."),
        ("plan", "PROMPT three."),
        ("default", "PROMPT four."),
        ("default", "PROMPT five."),
    )
    agent = Switching(model=name, script=script)
    place, model = Place.make(tmp_path / "agent"), Model(Call("Bash", {"command": "cat big1.txt"}), agent.prompts)
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, "--budget", "36k", "--strict") as url:
        work(agent, place, upstream=url, prompts=agent.prompts)
        assert server.refusals == ()
    before, *planning, left, later = model.turns
    assert not any(holds(before, PLAN))
    assert all(holds([*planning[0], *planning[1]], PLAN))
    assert all(holds([*left, *later], EXITED))
    # It is no longer in force, so it goes with a pass.
    assert not holds(later, PLAN)[-1]
    assert max(request.tokens for turn in model.turns for request in turn) <= 36_000


@pytest.mark.wide
@pytest.mark.parametrize("name", first_quick(*MODELS))
def test_what_compact_sends_again_stays(name: str, tmp_path: Path) -> None:
    script = (
        ("default", "PROMPT one."),
        ("default", "/compact"),
        ("plan", "PROMPT two."),
        ("plan", "PROMPT three."),
    )
    agent = Switching(model=name, script=script)
    place, model = Place.make(tmp_path / "agent"), Model(Call("Bash", {"command": "cat big1.txt"}), agent.prompts)
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, "--budget", "36k", "--strict") as url:
        work(agent, place, upstream=url, prompts=agent.prompts)
        assert server.refusals == ()
    for text in (*LISTS, PLAN):
        assert all(holds([*model.turns[2], *model.turns[3]], text)), text
    assert "This session is being continued" in json.dumps(model.turns[3][-1].body)


SERVER = """
import json
import sys

fields = {f"field_{number}": {"type": "string", "description": "A field of the ticket. " * 5} for number in range(6)}
schema = {"type": "object", "properties": fields}
tools = [{"name": f"tracker_{number}", "description": "Changes a ticket. " * 20} for number in range(60)]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    started = {"protocolVersion": message.get("params", {}).get("protocolVersion"), "capabilities": {"tools": {}}}
    results = {
        "initialize": {**started, "serverInfo": {"name": "tracker", "version": "1"}},
        "tools/list": {"tools": [{**tool, "inputSchema": schema} for tool in tools]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}), flush=True)
"""


@pytest.mark.wide
def test_a_tool_that_claude_code_loaded_stays(tmp_path: Path) -> None:
    """The client defers the tools of MCP servers, and each is the model's only as long as its reference is in view."""

    @dataclass(frozen=True)
    class Tracking(Claude):
        def command(self, prompt: str, turn: int) -> list[str]:
            command = [option.replace("Bash", "Bash ToolSearch") for option in super().command(prompt, turn)]
            return [*command, "--mcp-config", str(tmp_path / "mcp.json"), "--strict-mcp-config"]

    (tmp_path / "server.py").write_text(SERVER)
    server_of_tools = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"tracker": server_of_tools}}))
    search = Reply(calls=(Call("ToolSearch", {"query": "select:mcp__tracker__tracker_1", "max_results": 5}),))
    reads = [Reply(calls=(Call("Bash", {"command": f"cat big{1 + number % 4}.txt"}),)) for number in range(8)]
    script = [search, *reads, Reply("Done."), *reads, Reply("Done.")]
    asked: list[Request] = []

    def model(request: Request) -> Reply:
        if "Bash" not in request.tools:
            return Reply("A title")
        asked.append(request)
        return script.pop(0)

    place = Place.make(tmp_path / "agent")
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, "--budget", "38k", "--min-room", "0") as url:
        work(Tracking(), place, upstream=url, prompts=["PROMPT one.", "PROMPT two."])
        assert server.refusals == ()
    assert script == []
    references = ['"tool_reference"' in json.dumps(request.body["messages"]) for request in asked]
    assert references == [False, *[True] * (len(asked) - 1)]
    # Work from before and after it has gone.
    assert sum(part.kind is Kind.RESULT for part in asked[-1].parts) < 10


@pytest.mark.wide
def test_a_mode_that_codex_states_in_mid_session_stays(tmp_path: Path) -> None:
    """A session that is resumed with another sandbox; the clients state the rest ahead of the first answer."""

    @dataclass(frozen=True)
    class Boxed(Codex):
        def command(self, prompt: str, turn: int) -> list[str]:
            command = super().command(prompt, turn)
            if turn:
                command[command.index("--dangerously-bypass-approvals-and-sandbox")] = "-csandbox_mode=read-only"
            return command

    prompts = ["PROMPT one.", "PROMPT two.", "PROMPT three."]
    agent = Boxed(model="gpt-5.5")
    place, model = Place.make(tmp_path / "agent"), Model(Call("exec_command", {"cmd": "cat big1.txt"}), prompts)
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, "--budget", "24k", "--strict") as url:
        work(agent, place, upstream=url, prompts=prompts)
        assert server.refusals == ()
    stated = "`sandbox_mode` is `read-only`"
    assert not any(holds(model.turns[0], stated))
    assert all(holds([*model.turns[1], *model.turns[2]], stated))
