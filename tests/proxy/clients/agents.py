"""The coding agents: how each is called, and what of its doings can be compared."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
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
class CopilotHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("view", {"path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "Runs it."})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"path": str(self.work / path), "old_str": old, "new_str": new})


@dataclass(frozen=True)
class QwenHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read_file", {"file_path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "is_background": False})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"file_path": str(self.work / path), "old_string": old, "new_string": new})


@dataclass(frozen=True)
class KimiHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("Read", {"path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("Bash", {"command": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("Edit", {"path": str(self.work / path), "old_string": old, "new_string": new})


@dataclass(frozen=True)
class OpenCodeHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read", {"filePath": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "Runs it."})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"filePath": str(self.work / path), "oldString": old, "newString": new})


@dataclass(frozen=True)
class VibeHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read_file", {"path": str(self.work / path)})

    def run(self, command: str) -> Call:
        return Call("bash", {"command": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"file_path": str(self.work / path), "old_string": old, "new_string": new})


@dataclass(frozen=True)
class ClineHands:
    work: Path

    def read(self, path: str) -> Call:
        return Call("read_files", {"files": [{"path": str(self.work / path)}]})

    def run(self, command: str) -> Call:
        return Call("run_commands", {"commands": [command]})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("editor", {"path": str(self.work / path), "old_text": old, "new_text": new})


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

    def url_options(self, upstream: str) -> list[str]:
        """The options that tell it a URL, if its environment does not."""
        return []

    @abstractmethod
    def answer(self, output: str) -> str: ...

    @abstractmethod
    def transcript(self, home: Path) -> list[Any]: ...

    def end(self, place: Path) -> None:  # noqa: B027 - most end with their run
        """End what it left running in a place."""


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

    def url_options(self, upstream: str) -> list[str]:
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


@dataclass(frozen=True)
class Copilot(CodingAgent):
    """Copilot CLI, with a provider of the user's own."""

    kind: str
    api: str = "completions"
    model: str = "gpt-4.1"
    package: Package = install.COPILOT
    budget: int = 24_000  # of which 13,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return CopilotHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        names = ("BASE_URL", "TYPE", "API_KEY", "WIRE_API")
        base = upstream if self.kind == "anthropic" else f"{upstream}/v1"
        provider = dict(zip(names, (base, self.kind, KEY, self.api), strict=True))
        environ = {f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()}
        return {**environ, "COPILOT_MODEL": self.model, "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"}

    def command(self, prompt: str, turn: int) -> list[str]:
        options = ["--allow-all-tools", "--allow-all-paths", "--output-format", "json"]
        return [*(["--continue"] if turn else []), *options, "-p", prompt]

    def answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return str([event["data"]["content"] for event in events if event["type"] == "assistant.message"][-1])

    def transcript(self, home: Path) -> list[Any]:
        return [line["data"] for line in _lines(home / ".copilot") if "message" in line.get("type", "")]


@dataclass(frozen=True)
class QwenCode(CodingAgent):
    login: str
    package: Package = install.QWEN
    budget: int = 32_000  # of which 21,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return QwenHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        if self.login == "anthropic":
            names, base = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"), upstream
        else:
            names, base = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"), f"{upstream}/v1"
        return dict(zip(names, (KEY, base, "scripted"), strict=True))

    def prepare(self, home: Path, upstream: str) -> None:
        settings = {"general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
        (home / ".qwen").mkdir()
        (home / ".qwen" / "settings.json").write_text(json.dumps(settings))

    def command(self, prompt: str, turn: int) -> list[str]:
        return [
            *(["-c"] if turn else []),
            "--auth-type",
            self.login,
            "--yolo",
            "--output-format",
            "stream-json",
            prompt,
        ]

    def answer(self, output: str) -> str:
        return str(json.loads(output.strip().splitlines()[-1])["result"])

    def transcript(self, home: Path) -> list[Any]:
        return [line["message"] for line in _lines(home / ".qwen" / "projects") if "message" in line]


@dataclass(frozen=True)
class KimiCode(CodingAgent):
    kind: str
    package: Package = install.KIMI
    budget: int = 36_000  # of which 22,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return KimiHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        base = ("ANTHROPIC_BASE_URL", upstream) if self.kind == "anthropic" else ("OPENAI_BASE_URL", f"{upstream}/v1")
        return {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1", base[0]: base[1]}

    def prepare(self, home: Path, upstream: str) -> None:
        config = f'''
default_model = "m"
[providers.p]
type = "{self.kind}"
api_key = "{KEY}"
[models.m]
provider = "p"
model = "scripted"
max_context_size = 200000
'''
        (home / ".kimi-code").mkdir()
        (home / ".kimi-code" / "config.toml").write_text(config)

    def command(self, prompt: str, turn: int) -> list[str]:
        return [*(["-c"] if turn else []), "--output-format", "stream-json", "-p", prompt]

    def answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return str([event["content"] for event in events if event["role"] == "assistant" and event.get("content")][-1])

    def transcript(self, home: Path) -> list[Any]:
        return list(_lines(home / ".kimi-code" / "sessions"))


@dataclass(frozen=True)
class MistralVibe(CodingAgent):
    """Mistral Vibe, with a provider of the user's own."""

    package: Package = install.VIBE
    budget: int = 20_000  # of which 12,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return VibeHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        return {"MY_KEY": KEY}

    def prepare(self, home: Path, upstream: str) -> None:
        config = f'''
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "mine"
api_base = "{upstream}/v1"
api_key_env_var = "MY_KEY"
[[models]]
name = "scripted"
provider = "mine"
alias = "scripted"
'''
        (home / ".vibe").mkdir()
        (home / ".vibe" / "config.toml").write_text(config)

    def command(self, prompt: str, turn: int) -> list[str]:
        return [*(["-c"] if turn else []), "--auto-approve", "--trust", "--output", "json", "-p", prompt]

    def answer(self, output: str) -> str:
        entries = json.loads(output)
        (content,) = [entry["content"] for entry in entries if entry.get("role") == "assistant"][-1]
        return str(content["text"])

    def transcript(self, home: Path) -> list[Any]:
        return list(_lines(home / ".vibe" / "logs" / "session"))


@dataclass(frozen=True)
class Cline(CodingAgent):
    """Cline's CLI, with a provider of the user's own in its settings."""

    window: int = 200_000
    package: Package = install.CLINE
    budget: int = 20_000  # of which 6,000 are its own instructions and tools

    def hands(self, work: Path) -> Hands:
        return ClineHands(work)

    def environ(self, upstream: str) -> Mapping[str, str]:
        return {}

    def prepare(self, home: Path, upstream: str) -> None:
        name, base = "openai-compatible", f"{upstream}/v1"
        settings = {"provider": name, "apiKey": KEY, "model": "scripted", "baseUrl": base, "contextWindow": self.window}
        entry = {"settings": settings, "updatedAt": "2026-11-29T00:00:00.000Z", "tokenSource": "manual"}
        folder = home / ".cline" / "data" / "settings"
        folder.mkdir(parents=True)
        providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: entry}}
        (folder / "providers.json").write_text(json.dumps(providers))

    def command(self, prompt: str, turn: int) -> list[str]:
        assert turn == 0, "it resumes in its terminal interface only"
        return ["--json", prompt]

    def answer(self, output: str) -> str:
        return str(json.loads(output.strip().splitlines()[-1])["text"])

    def transcript(self, home: Path) -> list[Any]:
        (path,) = (home / ".cline" / "data" / "sessions").glob("*/*.messages.json")
        return list(json.loads(path.read_text())["messages"])

    def end(self, place: Path) -> None:
        """End its daemon, which outlives the run."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                arguments = path.read_bytes().split(b"\0")
                if b"--cline-hub-daemon" in arguments and bytes(place) in arguments:
                    os.kill(int(path.parent.name), signal.SIGTERM)


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.jsonl")):
        yield from (json.loads(line) for line in path.read_text().splitlines())
