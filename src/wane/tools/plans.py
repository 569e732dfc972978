"""Reads the plan that an agent keeps with its harness's tools: a to-do list, or tasks that it creates and updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.tools.calls import fields_of
from wane.tools.programs import word_set

_LISTS: Final = word_set("todowrite todo_write write_todos update_plan")
_LIST_KEYS: Final = ("todos", "plan")
_TEXT_KEYS: Final = ("content", "step", "subject", "description")
PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """An entry of a plan, with its status as the agent wrote it: `pending`, `in_progress`, `completed`, `cancelled`."""

    text: str
    status: str


class AgentPlan:
    """The plan of one agent, by its calls so far.

    It reads only the arguments of calls, not their results, so a refused call counts too.

    Attributes:
        entries: the entries by key: the text for an entry of a list, the id for a task.
    """

    def __init__(self) -> None:
        self.entries: dict[str, PlanEntry] = {}
        self._created = 0
        # Keys of the entries in progress, in the order in which they went into progress.
        self._started: dict[str, None] = {}

    @property
    def current(self) -> str:
        """Text of the latest entry that went into progress and still is; empty if there is none."""
        return self.entries[next(reversed(self._started))].text if self._started else ""

    def read(self, tool: str, arguments: str | None) -> bool:
        """Take in a tool call; return whether it changed the plan."""
        name = tool.lower()
        if name not in _LISTS and name not in ("taskcreate", "taskupdate"):
            return False
        fields = fields_of(arguments)
        before = self.entries
        if name in _LISTS:
            self.entries = {entry.text: entry for entry in _list_entries(fields)}
        elif name == "taskcreate":
            self._created += 1  # the tool numbers tasks from 1
            self.entries = before | {str(self._created): PlanEntry(_text(fields), PENDING)}
        else:
            self.entries = _update_entries(before, fields)
        started = [key for key, entry in self.entries.items() if entry.status == IN_PROGRESS]
        earlier = [key for key in self._started if key in started]
        self._started = dict.fromkeys([*earlier, *started])
        return self.entries != before


def _list_entries(fields: Mapping[str, Any]) -> Iterator[PlanEntry]:
    lists = [fields[key] for key in _LIST_KEYS if isinstance(fields.get(key), list)]
    if not lists:
        return
    for entry in lists[0]:
        if isinstance(entry, dict) and (text := _text(entry)):
            yield PlanEntry(text, str(entry.get("status", PENDING)))


def _update_entries(entries: Mapping[str, PlanEntry], fields: Mapping[str, Any]) -> dict[str, PlanEntry]:
    key = str(fields.get("taskId", ""))
    if key not in entries:
        return dict(entries)
    text, status = fields.get("subject"), fields.get("status")
    entry = entries[key]
    if isinstance(text, str) and text:
        entry = replace(entry, text=text)
    if isinstance(status, str) and status:
        entry = replace(entry, status=status)
    return dict(entries) | {key: entry}


def _text(entry: Mapping[str, Any]) -> str:
    for key in _TEXT_KEYS:
        text = entry.get(key)
        if isinstance(text, str) and text:
            return text
    return ""
