"""An editor that runs a coding agent over the Agent Client Protocol (ACP): JSON-RPC on its stdin and stdout."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 120  # seconds for one answer of the agent


class Editor:
    """An agent as an editor's child, allowed all that it asks for.

    Attributes:
        updates: what the agent told of its session, in order.
    """

    def __init__(self, command: Sequence[str], work: Path, environ: Mapping[str, str], errors: Path) -> None:
        self.updates: list[dict[str, Any]] = []
        self._work = work
        self._errors = errors.open("w")
        self._agent = subprocess.Popen(
            command,
            cwd=work,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._serial = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._agent.stdin is not None
        self._agent.stdin.close()
        try:
            self._agent.wait(3)
        except subprocess.TimeoutExpired:  # not every agent ends with its editor
            self._agent.terminate()
            self._agent.wait(20)
        self._errors.close()

    def initialize(self) -> dict[str, Any]:
        """Say hello, and return what the agent can do."""
        hello = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}
        return self.ask("initialize", hello)

    def open(self, session: str | None = None) -> str:
        """Open a session, or load an earlier one; return its id."""
        where = {"cwd": str(self._work), "mcpServers": []}
        if session is None:
            return str(self.ask("session/new", where)["sessionId"])
        self.ask("session/load", {**where, "sessionId": session})
        return session

    def prompt(self, session: str, text: str) -> str:
        """Have the agent do a turn; return what it said last."""
        self.updates.clear()
        answer = self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        assert answer["stopReason"] == "end_turn", answer
        said = [""]
        for update in self.updates:
            if update["sessionUpdate"] == "agent_message_chunk":
                said[-1] += update["content"].get("text", "")
            elif update["sessionUpdate"] == "tool_call":
                said.append("")
        return said[-1]

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method of the agent, and return its result; meanwhile answer what the agent asks."""
        self._serial += 1
        self._send({"id": self._serial, "method": method, "params": params})
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            message = json.loads(line)
            if message.get("id") == self._serial and "method" not in message:
                assert "error" not in message, message
                return dict(message["result"] or {})
            if message.get("method") == "session/update":
                self.updates.append(message["params"]["update"])
            elif "id" in message:
                self._send({"id": message["id"], **self._answer(message["method"], message["params"])})
        raise AssertionError(f"the agent ended before it answered {method}")

    def _answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method != "session/request_permission":
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        allowed = [option["optionId"] for option in params["options"] if option["kind"].startswith("allow")]
        return {"result": {"outcome": {"outcome": "selected", "optionId": allowed[0]}}}

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._agent.stdin is not None
        self._agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._agent.stdin.flush()

    def _read(self) -> None:
        assert self._agent.stdout is not None
        for line in self._agent.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put(None)
