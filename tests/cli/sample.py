"""A small coding session to plan and to show: three tasks, six episodes, one of them still running."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from wane.core import ContextWindow, Policy
from wane.formats import Transcript, get_format
from wane.journal import ConfigRecord, Journal, MessageRecord, PassRecord, UsageRecord

BUDGET = 6_000
Message = dict[str, Any]


class Chat:
    """Writes chat messages, numbering the calls."""

    def __init__(self) -> None:
        self.messages: list[Message] = [{"role": "system", "content": "You are a careful engineer. " * 8}]
        self.calls = 0

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def call(self, tool: str, arguments: Message, result: str, thinking: str = "") -> None:
        self.calls += 1
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message: Message = {"role": "assistant", "content": None}
        if thinking:
            message["reasoning_content"] = thinking
        message["tool_calls"] = [{"id": f"call_{self.calls}", "type": "function", "function": function}]
        self.messages += [message, {"role": "tool", "tool_call_id": f"call_{self.calls}", "content": result}]

    def start(self, name: str, type_: str, dependencies: list[str] | None = None) -> None:
        arguments: Message = {"action": "start", "name": name, "type": type_}
        if dependencies is not None:
            arguments["dependencies"] = dependencies
        self.call("delimiter", arguments, f"Episode {name!r} started.")

    def end(self, description: str | None = None) -> None:
        arguments: Message = {"action": "end"}
        if description is not None:
            arguments["description"] = description
        self.call("delimiter", arguments, "Episode ended.")


def messages() -> list[Message]:
    """The session as OpenAI chat messages."""
    chat = Chat()
    chat.user("The date parser rejects times with a fraction of a second. Make it accept them, with tests.")
    chat.start("map-parser", "expl")
    chat.call("grep", {"pattern": "def parse"}, "parse.py:12:def parse_time(text):\n" * 60, "Where is it? " * 30)
    chat.call("read", {"path": "parse.py"}, "def parse_time(text):\n    ...\n" * 110)
    chat.end("parse_time in parse.py splits at ':'; the seconds go through int(), which is where fractions fail.")
    chat.start("accept-fractions", "act", ["map-parser"])
    chat.call("edit", {"path": "parse.py", "new": "float(seconds)" * 40}, "edited")
    chat.call("bash", {"command": "pytest -q"}, "42 passed\n" * 90)
    chat.end()
    chat.say("Fractions are accepted now; the tests pass.")
    chat.user("Now the printer: it must keep the fraction when it prints a time.")
    chat.call("ls", {"path": "."}, "parse.py print.py tests\n" * 12)
    chat.start("read-printer", "expl")
    chat.call("read", {"path": "print.py"}, "def print_time(time):\n    ...\n" * 130, "How does it print? " * 20)
    chat.end("print_time in print.py formats with '%02d'.")
    chat.start("print-fractions", "act", ["read-printer", "map-parser"])
    chat.call("edit", {"path": "print.py", "new": "'%06.3f'" * 60}, "edited")
    chat.call("bash", {"command": "pytest -q"}, "47 passed\n" * 80)
    chat.end()
    chat.say("The printer keeps the fraction.")
    chat.user("Last: a changelog entry, and bump the version.")
    chat.start("find-version", "expl")
    chat.call("grep", {"pattern": "version"}, "pyproject.toml:3:version\n" * 40)
    chat.call("read", {"path": "CHANGELOG.md"}, "## 1.4.0\n- Faster.\n" * 60)
    chat.end("The version is in pyproject.toml alone; CHANGELOG.md has a heading for each release.")
    chat.start("bump-version", "act", ["find-version"])
    chat.call("edit", {"path": "CHANGELOG.md", "new": "## 1.5.0\n- Fractions of a second.\n" * 8}, "edited")
    return chat.messages


def clock() -> Iterator[datetime]:
    """Moments five seconds apart, in the local time zone's afternoon."""
    moment = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
    while True:
        moment += timedelta(seconds=5)
        yield moment


def save(
    directory: Path, *, cwd: Path, session_id: str = "5a3e", budget: int = BUDGET, policy: Policy | None = None
) -> Path:
    """Write the session as an agent would have saved it, passes and usage included."""
    policy = policy or Policy()
    moments = clock()
    transcript = Transcript(get_format("openai"))
    window = ContextWindow(budget, policy)
    options: Any = {"message_format": "openai", "session_id": session_id, "fsync": False}
    with Journal.create(directory, cwd=cwd, clock=lambda: next(moments), **options) as journal:
        journal.append(ConfigRecord(budget=budget, policy=policy))
        for message in messages():
            if message["role"] == "assistant":
                _call_model(journal, window)
            journal.append(MessageRecord(message=message))
            window.extend(transcript.append(message))
    return journal.path


def _call_model(journal: Journal, window: ContextWindow) -> None:
    """A pass if one is due, and the usage that the provider would report."""
    report = window.fit()
    if report.ran:
        journal.append(PassRecord.of(report, window.item_count))
    usage = UsageRecord(
        items=window.item_count,
        input_tokens=window.tokens,
        output_tokens=40,
        cache_read_tokens=window.tokens // 2,
        cost=window.tokens * 1e-6,
        model="openai:gpt-5",
    )
    journal.append(usage)
    window.observe(usage.input_tokens)
