"""The calls that a scripted model makes, by the names of the tools that the agent has."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from wane.core import DELIMITER
from wane.scripted.sight import Seen
from wane.testing import Call

_RIGHT_CALL: Final = re.compile(r"A right call: (\{.*\})")


def read(path: str) -> Call:
    """Return a call that reads a file."""
    return Call("read_file", {"path": path})


def search(pattern: str, glob: str = "*.py") -> Call:
    """Return a call that searches files."""
    return Call("grep", {"pattern": pattern, "glob": glob})


def listing(glob: str) -> Call:
    """Return a call that lists files, anywhere if the pattern names no folder."""
    return Call("list_files", {"glob": glob})


def shell(command: str) -> Call:
    """Return a call that runs a command."""
    return Call("shell", {"command": command})


def write(path: str, content: str) -> Call:
    """Return a call that writes a new file."""
    return Call("write_file", {"path": path, "content": content})


def edit(path: str, texts: Sequence[Mapping[str, str]]) -> Call:
    """Return a call that edits a file; each entry has `old_text` and `new_text`."""
    return Call("edit_file", {"path": path, **(texts[0] if len(texts) == 1 else {"replacements": texts})})


def explore(name: str) -> Call:
    """Return the mark that starts an exploration."""
    return Call(DELIMITER, {"action": "start", "name": name, "type": "expl"})


def act(name: str, on: Iterable[str]) -> Call:
    """Return the mark that starts an act, with the explorations that it builds on."""
    return Call(DELIMITER, {"action": "start", "name": name, "type": "act", "dependencies": list(on)})


def start_task(name: str) -> Call:
    """Return the mark that starts a task (R17)."""
    return Call(DELIMITER, {"action": "start", "name": name, "type": "task"})


def end(name: str, learned: str = "") -> Call:
    """Return the mark that ends an episode or a task; for an exploration and a task, with a description."""
    described = {"description": learned} if learned else {}
    return Call(DELIMITER, {"action": "end", "name": name, **described})


def keep_offered(calls: Iterable[Call], tools: Collection[str]) -> tuple[Call, ...]:
    """Return calls of tools that the agent has: without ripgrep others search; without episodes there are no marks."""
    named = (_name_call(call, tools) for call in calls)
    return tuple(call for call in named if call.tool in tools)


def put_right(latest: Iterable[Seen]) -> Call | None:
    """Return the corrected form of a refused `delimiter` call among the latest ones, as the refusal gives it."""
    for call in latest:
        if call.tool == DELIMITER and (right := _RIGHT_CALL.search(call.result or "")):
            corrected = json.loads(right[1])
            return Call(
                DELIMITER, {name: value for name, value in call.arguments.items() if name in corrected} | corrected
            )
    return None


def _name_call(call: Call, tools: Collection[str]) -> Call:
    if isinstance(call.arguments, str) or call.tool in tools:
        return call
    glob = call.arguments.get("glob", "")
    if call.tool == "grep":
        return Call("search_files", {"pattern": call.arguments["pattern"], "include_glob": glob})
    if call.tool == "list_files":
        return Call("find_files", {"pattern": glob if "/" in glob else f"**/{glob}"})
    return call
