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


def search(tools: Collection[str], pattern: str, glob: str) -> Call:
    """Return a call that searches files; without ripgrep the tool is another."""
    if "search_files" in tools:
        return Call("search_files", {"pattern": pattern, "include_glob": glob})
    return Call("grep", {"pattern": pattern, "glob": glob})


def listing(tools: Collection[str], glob: str) -> Call:
    """Return a call that lists files, anywhere if the pattern names no folder."""
    if "find_files" in tools:
        return Call("find_files", {"pattern": glob if "/" in glob else f"**/{glob}"})
    return Call("list_files", {"glob": glob})


def edit(path: str, texts: Sequence[Mapping[str, str]]) -> Call:
    """Return a call that edits a file; each entry has `old_text` and `new_text`."""
    return Call("edit_file", {"path": path, **(texts[0] if len(texts) == 1 else {"replacements": texts})})


def explore(name: str) -> Call:
    """Return the mark that starts an exploration."""
    return Call(DELIMITER, {"action": "start", "name": name, "type": "expl"})


def act(name: str, on: Iterable[str]) -> Call:
    """Return the mark that starts an act, with the explorations that it builds on."""
    return Call(DELIMITER, {"action": "start", "name": name, "type": "act", "dependencies": list(on)})


def end(name: str, learned: str = "") -> Call:
    """Return the mark that ends an episode; of an exploration, with what was learned."""
    described = {"description": learned} if learned else {}
    return Call(DELIMITER, {"action": "end", "name": name, **described})


def put_right(latest: Iterable[Seen]) -> Call | None:
    """Return the `delimiter` call among the latest that was refused, as the refusal says that it should have been."""
    for seen in latest:
        if seen.tool == DELIMITER and (right := _RIGHT_CALL.search(seen.result or "")):
            shown = json.loads(right[1])
            return Call(DELIMITER, {name: value for name, value in seen.arguments.items() if name in shown} | shown)
    return None
