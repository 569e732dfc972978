"""The coding agents: how each is called, and what of its doings can be compared."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proxy.clients import install
from tests.proxy.clients.install import Package
from tests.proxy.clients.script import Hands
from wane.testing import Call

KEY = "sk-dummy-0123456789"


@dataclass(frozen=True)
class ClaudeHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("Read", {"file_path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("Bash", {"command": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("Edit", {"file_path": str(self.work / path), "old_string": old, "new_string": new})


@dataclass(frozen=True)
class GeminiHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read_file", {"file_path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "description": "Runs it."})

    def edit(self, path: str, old: str, new: str) -> Call:
        given = {"file_path": str(self.work / path), "instruction": "Change it.", "old_string": old, "new_string": new}
        return Call("replace", given)


@dataclass(frozen=True)
class OpenCodeHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read", {"filePath": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "Runs it."})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"filePath": str(self.work / path), "oldString": old, "newString": new})


class PiHands:
    def read(self, path: str) -> Call:
        return Call("read", {"path": path})

    def run(self, command: str) -> Call:
        return Call("bash", {"command": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]})


class CodexHands:
    """A shell, and patches."""

    def read(self, path: str) -> Call:
        return self.run(f"cat {path}")

    def run(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-print({old})\n+print({new})\n*** End Patch\n"
        return Call("apply_patch", patch)


class CodeModeHands(CodexHands):
    """One tool that runs programs, which call the others."""

    def run(self, command: str) -> Call:
        program = f"const r = await tools.exec_command({json.dumps({'cmd': command})}); text(r);"
        return Call("functions.exec", program)

    def edit(self, path: str, old: str, new: str) -> Call:
        return self.run(f"sed -i s/{old}/{new}/ {path}")


class CodingAgent(ABC):
    package: Package
    budget: int

    @abstractmethod
    def hands(self, work: Path) -> Hands: ...

    @abstractmethod
    def environ(self, upstream: str) -> Mapping[str, str]: ...

    def prepare(self, home: Path, upstream: str) -> None:  # noqa: B027 - most need nothing
        """Write what has to be in its home."""

    @abstractmethod
    def command(self, prompt: str, turn: int) -> list[str]: ...

    def pointed(self, upstream: str) -> list[str]:
        """The options that tell it a URL, if its environment does not."""
        return []

    @abstractmethod
    def answer(self, output: str) -> str: ...

    @abstractmethod
    def transcript(self, home: Path) -> list[Any]: ...


@dataclass(frozen=True)
class Claude(CodingAgent):
    package: Package = install.CLAUDE
    budget: int = 34_000  # of which 23,000 are its own instructions
    model: str = "claude-sonnet-5"

    def hands(self, work: Path) -> Hands:
        return ClaudeHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": upstream, **dict.fromkeys(quiet, "1")}

    def command(self, prompt: str, turn: int) -> list[str]:
        options = ["--output-format", "stream-json", "--verbose", "--model", self.model]
        return [*(["-c"] if turn else []), "-p", prompt, "--allowedTools", "Bash Edit Read", *options]

    def answer(self, output: str) -> str:
        return str(json.loads(output.strip().splitlines()[-1])["result"])

    def transcript(self, home: Path) -> list[Any]:
        lines = _lines(home / ".claude" / "projects")
        return [line["message"]["content"] for line in lines if line.get("type") in ("user", "assistant")]


@dataclass(frozen=True)
class Codex(CodingAgent):
    model: str
    package: Package = install.CODEX
    budget: int = 24_000

    def hands(self, work: Path) -> Hands:
        return CodeModeHands() if self.model.startswith("gpt-6") else CodexHands()

    def environ(self, upstream: str) -> Mapping[str, str]:
        return {"CODEX_API_KEY": KEY}

    def prepare(self, home: Path, upstream: str) -> None:
        (home / ".codex").mkdir()

    def command(self, prompt: str, turn: int) -> list[str]:
        quiet = ["-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"]
        options = [*quiet, "-m", self.model, "--json", "--skip-git-repo-check"]
        free = "--dangerously-bypass-approvals-and-sandbox"
        return ["exec", *(["resume", "--last"] if turn else []), *options, free, prompt]

    def pointed(self, upstream: str) -> list[str]:
        return ["-c", f"openai_base_url={json.dumps(upstream + '/v1')}"]

    def answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return str([item["text"] for item in items if item["type"] == "agent_message"][-1])

    def transcript(self, home: Path) -> list[Any]:
        lines = _lines(home / ".codex" / "sessions")
        return [line["payload"] for line in lines if line.get("type") == "response_item"]


@dataclass(frozen=True)
class Pi(CodingAgent):
    api: str
    package: Package = install.PI
    budget: int = 10_000

    def hands(self, work: Path) -> Hands:
        return PiHands()

    def environ(self, upstream: str) -> Mapping[str, str]:
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def prepare(self, home: Path, upstream: str) -> None:
        model = {"id": "scripted", "reasoning": True, "contextWindow": 200_000, "maxTokens": 8_000}
        base = upstream if self.api == "anthropic-messages" else f"{upstream}/v1"
        provider = {"baseUrl": base, "api": self.api, "apiKey": KEY, "models": [model]}
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True)
        (folder / "models.json").write_text(json.dumps({"providers": {"mine": provider}}))

    def command(self, prompt: str, turn: int) -> list[str]:
        options = ["-p", "--mode", "json", "--model", "mine/scripted", "--thinking", "high"]
        return [*(["-c"] if turn else []), *options, prompt]

    def answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        messages = [event["message"] for event in events if event["type"] == "message_end"]
        content = [message for message in messages if message["role"] == "assistant"][-1]["content"]
        return "".join(block["text"] for block in content if block["type"] == "text")

    def transcript(self, home: Path) -> list[Any]:
        lines = _lines(home / ".pi" / "agent" / "sessions")
        messages = [line["message"] for line in lines if line.get("type") == "message"]
        return [(message["role"], message["content"]) for message in messages]


@dataclass(frozen=True)
class GeminiCli(CodingAgent):
    package: Package = install.GEMINI
    budget: int = 20_000  # of which 12,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return GeminiHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": upstream, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def prepare(self, home: Path, upstream: str) -> None:
        (home / ".gemini").mkdir()
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
        (home / ".gemini" / "settings.json").write_text(json.dumps(settings))

    def command(self, prompt: str, turn: int) -> list[str]:
        options = ["--model", "gemini-3.1-pro-preview", "--yolo", "--output-format", "json"]
        return [*(["--resume", "latest"] if turn else []), *options, "--prompt", prompt]

    def answer(self, output: str) -> str:
        return str(json.loads(output)["response"])

    def transcript(self, home: Path) -> list[Any]:
        messages = []
        for line in _lines(home / ".gemini" / "tmp"):
            if line.get("type") in ("user", "gemini"):
                calls = [(call["name"], call["args"]) for call in line.get("toolCalls", ())]
                messages.append((line["type"], line.get("content"), calls))
        return messages


@dataclass(frozen=True)
class OpenCode(CodingAgent):
    """OpenCode, with a provider of the user's own."""

    api: str
    package: Package = install.OPENCODE
    budget: int = 20_000  # of which 8,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return OpenCodeHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        return dict.fromkeys(("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"), "1")

    def prepare(self, home: Path, upstream: str) -> None:
        model = {"name": "Scripted", "limit": {"context": 200_000, "output": 8_000}}
        options = {"baseURL": f"{upstream}/v1", "apiKey": KEY}
        provider = {"npm": f"@ai-sdk/{self.api}", "options": options, "models": {"scripted": model}}
        settings = {"model": "mine/scripted", "provider": {"mine": provider}}
        (home / ".config" / "opencode").mkdir(parents=True)
        (home / ".config" / "opencode" / "opencode.jsonc").write_text(f"// Mine.\n{json.dumps(settings)}")

    def command(self, prompt: str, turn: int) -> list[str]:
        return ["run", *(["-c"] if turn else []), "--auto", "--format", "json", prompt]

    def answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return str([event["part"]["text"] for event in events if event["type"] == "text"][-1])

    def transcript(self, home: Path) -> list[Any]:
        with closing(sqlite3.connect(home / ".local" / "share" / "opencode" / "opencode.db")) as database:
            rows = database.execute("select data from part order by id").fetchall()
        return [json.loads(row[0]) for row in rows]


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.jsonl")):
        yield from (json.loads(line) for line in path.read_text().splitlines())
