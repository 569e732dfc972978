"""MCP servers as tools, with a real server in a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from tests.agent.provider import Serve
from tests.agent.test_chat import Terminal, play, terminal
from tests.agent.work import working
from wane.agent.tools.mcp import Servers
from wane.agent.turn_events import Warned
from wane.cli.main import main
from wane.core.errors import ConfigError
from wane.testing import Call, Reply, ScriptedServer

pytest.importorskip("fastmcp", reason="the mcp extra is not installed")

SERVER = Path(__file__).with_name("mcp_server.py")
ADD, COUNT = Call("sums_add", {"a": 1, "b": 41}), Call("sums_count")


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """A file with a server that works, and one that does not."""
    file = tmp_path / "servers.json"
    works = {"command": sys.executable, "args": [str(SERVER)]}
    file.write_text(json.dumps({"mcpServers": {"sums": works, "gone": {"command": "/no/such/program"}}}))
    return file


@pytest.mark.full
def test_tools_of_a_server_work_and_it_runs_from_turn_to_turn(
    serve_model: Serve, repository: Path, servers: Path
) -> None:
    calls = (ADD, Call("sums_fail"), COUNT)
    replies = [Reply(calls=calls), Reply("First."), Reply(calls=(COUNT,)), Reply("Second.")]
    with working(serve_model, repository, replies, mcp=(str(servers),)) as at:
        assert at.run("go", "on").output == "Second."
    added, failed, counted = at.requests[1].results.values()
    assert (added, counted) == ("42", "1")
    assert "Error executing tool fail" in failed
    assert list(at.requests[3].results.values())[-1] == "2"
    (warned,) = at.of(Warned)
    assert "the MCP server gone does not work: " in warned.text
    assert [entry.tools for entry in at.session.servers.servers] == [("sums_add", "sums_fail", "sums_count"), ()]


def test_nothing_is_read_of_the_projects_environment_file(repository: Path, servers: Path) -> None:
    (repository / ".env").write_text("FASTMCP_LOG_LEVEL=DEBUG\n")
    code = (
        "import os; from pathlib import Path; from wane.agent.tools.mcp import Servers\n"
        f"Servers([Path({str(servers)!r})])\n"
        "import fastmcp; print(fastmcp.settings.log_level, 'FASTMCP_ENV_FILE' in os.environ)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FASTMCP_")}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=repository, env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["INFO", "False"]


@pytest.mark.full
def test_a_server_that_fails_names_its_log_and_quotes_it(serve_model: Serve, repository: Path, tmp_path: Path) -> None:
    file, log = tmp_path / "servers.json", platformdirs.user_log_path("wane", appauthor=False) / "mcp-sad.log"
    fails = "import sys; sys.exit('no token\\nset TOKEN first')"
    file.write_text(json.dumps({"mcpServers": {"sad": {"command": sys.executable, "args": ["-c", fails]}}}))
    log.parent.mkdir(parents=True)
    log.write_text("of an earlier start\n")

    async def scene(at: Terminal) -> None:
        await at.until("the MCP server sad does not work: Connection closed.")
        await at.answers("/mcp", "set TOKEN first")

    with serve_model([]) as server, terminal(server.model(), repository, mcp=[str(file)]) as at:
        play(at, scene)
        (listed,) = at.chat.session.servers.servers
    assert listed.problem == f'Connection closed. It wrote "set TOKEN first"; its log is {log}'
    assert log.read_text() == "of an earlier start\nno token\nset TOKEN first\n"


@pytest.mark.full
@pytest.mark.parametrize(("names", "clash"), [({"read": "file"}, "read_file"), ({"a": "b_c", "a_b": "c"}, "a_b_c")])
def test_a_server_with_a_tool_of_another_name_is_left_out(
    serve_model: Serve, repository: Path, tmp_path: Path, names: dict[str, str], clash: str
) -> None:
    servers = {name: {"command": sys.executable, "args": [str(SERVER), tool]} for name, tool in names.items()}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    with working(
        serve_model,
        repository,
        [Reply(calls=(Call("read_file", {"path": "app.py"}),)), Reply("done")],
        mcp=(str(file),),
    ) as at:
        at.run("go")
        (read,) = at.requests[1].results.values()
        *_, (name, problem) = [(server.name, server.problem) for server in at.session.servers.servers]
    assert "return 41" in read, "the agent's own tool is called"
    assert name == list(names)[-1]
    assert f"its tool {clash} has the name of another tool" in problem
    assert [event.text for event in at.of(Warned)] == [f"the MCP server {name} is not used: {problem}"]


@pytest.mark.full
def test_a_rule_that_denies_holds_for_a_server_however_it_names_its_tools(
    serve_model: Serve, repository: Path, tmp_path: Path
) -> None:
    file = tmp_path / "servers.json"
    named = {"edit": {"command": sys.executable, "args": [str(SERVER), "files"]}}
    file.write_text(json.dumps({"mcpServers": named}))
    calls = (Call("edit_files"), Call("edit_count"))
    settings = {"mcp": (str(file),), "yolo": True, "deny": ("mcp:edit_f*",)}
    with working(serve_model, repository, [Reply(calls=calls), Reply("done")], **settings) as at:
        at.run("go")
        denied, counted = at.requests[1].results.values()
    assert "a rule of the user denies it" in denied
    assert counted == "1"


@pytest.mark.full
def test_the_chat_asks_before_a_tool_is_called(serve_model: Serve, repository: Path, servers: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.until("the MCP server gone does not work")
        await at.answers("/mcp", "sums_add, sums_fail, sums_count", "does not work: ")
        at.say("add")
        shown = await at.wait_for_question("  never: the tool sums_add, in this project for good")
        assert 'The agent wants to call sums_add:\n  {\n    "a": 1,\n    "b": 41\n  }\n' in shown
        at.say("a")
        await at.wait_for_question("wants to call sums_count")
        await at.answers("n", "Done.")

    with serve_model([Reply(calls=(ADD, ADD, COUNT)), Reply("Done.")]) as server:
        with terminal(server.model(), repository, mcp=[str(servers)]) as at:
            play(at, scene)
        *added, refused = server.requests[1].results.values()
    assert added == ["42", "42"]
    assert "The tool was not called: the user refused it" in refused


@pytest.mark.full
def test_print_mode_calls_what_a_rule_allows(
    repository: Path, servers: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    with ScriptedServer([Reply(calls=(ADD, COUNT)), Reply("Done.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        flags = ["-m", "openai-chat:gpt-4.1", "-C", str(repository), "--mcp", str(servers), "--allow", "mcp:sums_a*"]
        assert main(["-p", "go", *flags]) == 0
        added, refused = server.requests[1].results.values()
    assert added == "42"
    assert "--allow" in refused
    told = capfd.readouterr().err
    assert "the MCP server gone does not work" in told
    assert "noise" not in told, "what a server says is in a log"


@pytest.mark.full
def test_a_projects_servers_are_not_started_unless_the_user_says_so(
    serve_model: Serve, repository: Path, servers: Path
) -> None:
    servers.rename(repository / ".mcp.json")
    with working(serve_model, repository, []) as at:
        assert at.session.servers.servers == []
        assert at.session.warnings == ["The project's MCP servers are not used; --mcp .mcp.json uses them."]
    with working(serve_model, repository, [], mcp=(".mcp.json",)) as at:
        assert [entry.name for entry in at.session.servers.servers] == ["sums", "gone"]
        assert at.session.warnings == []


@pytest.mark.full
def test_the_users_own_servers_are_used(
    serve_model: Serve, repository: Path, servers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path))
    servers.rename(tmp_path / "mcp.json")
    with working(serve_model, repository, []) as at:
        assert [entry.name for entry in at.session.servers.servers] == ["sums", "gone"]


@pytest.mark.parametrize(
    "content", ["", "{}", '{"mcpServers": {"a": {}}}', '{"mcpServers": {"a": {"url": "${NOWHERE}"}}}']
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "servers.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"servers\.json"):
        Servers([file])
    with pytest.raises(ConfigError, match=r"absent\.json"):
        Servers([tmp_path / "absent.json"])


def test_a_file_that_cannot_be_used_is_named_before_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fastmcp", "fastmcp.client.transports"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"absent\.json: No such file"):
        Servers([tmp_path / "absent.json"])
    (tmp_path / "servers.json").write_text("{")
    with pytest.raises(ConfigError, match=r"servers\.json: it is not JSON"):
        Servers([tmp_path / "servers.json"])


def test_two_servers_of_one_name_are_refused(servers: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(servers.read_text())
    with pytest.raises(ConfigError, match="'gone'"):
        Servers([servers, other])
