"""A trial's part of a session as a trajectory in ATIF, the format of Harbor's viewer.

A step lists the passes that ran before its request. Earlier tasks of the session are not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import wane
from wane.core import Kind
from wane.formats import Part, get_format
from wane.journal import MessageRecord, PassRecord, Record, UsageRecord, read
from wane_research.evaluation.sandbox.namespace import write_shared

SCHEMA: Final = "ATIF-v1.8"
FILE: Final = "trajectory.json"


def trajectory(journal: Path, skip: int, trial: str) -> dict[str, Any]:
    """Return the trajectory of a session as JSON data, without the first `skip` records, which are of earlier tasks."""
    file = read(journal)
    format_ = get_format(file.header.format)
    steps = _Steps()
    for record in file.records[skip:]:
        if isinstance(record, MessageRecord):
            for message in format_.load([record.message]):
                steps.add(format_.parts(message), record)
        elif isinstance(record, UsageRecord):
            steps.usage = record
        elif isinstance(record, PassRecord):
            steps.passes.append(record)
    agent = {"name": "wane", "version": wane.__version__, "model_name": steps.model or None}
    return {
        "schema_version": SCHEMA,
        "session_id": file.header.id,
        "trajectory_id": trial,
        "agent": {name: value for name, value in agent.items() if value},
        "steps": steps.all,
    }


def write(journal: Path, skip: int, trial: str, target: Path) -> None:
    data = trajectory(journal, skip, trial)
    if data["steps"]:  # the format wants at least one
        write_shared(target, json.dumps(data))


class _Steps:
    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.usage: UsageRecord | None = None
        self.passes: list[PassRecord] = []
        self.model = ""

    def add(self, parts: Iterable[Part], record: Record) -> None:
        parts = list(parts)
        results = [part for part in parts if part.kind is Kind.RESULT]
        last = next((step for step in reversed(self.all) if step["source"] == "agent"), None)
        if results and last is not None:
            observed = last.setdefault("observation", {"results": []})["results"]
            observed += [{"source_call_id": part.call_id, "content": part.text} for part in results]
        for part in parts:
            if part.kind in (Kind.USER, Kind.NOTICE):
                self._step(record, source="user", message=part.text)
        answered = [part for part in parts if part.kind in (Kind.TEXT, Kind.REASONING, Kind.CALL)]
        if answered:
            self._answer(answered, record)

    def _step(self, record: Record, **fields: Any) -> None:
        at = {"timestamp": record.at.isoformat()} if record.at else {}
        self.all.append({"step_id": len(self.all) + 1, **at, **fields})

    def _answer(self, parts: list[Part], record: Record) -> None:
        calls = [_call(part) for part in parts if part.kind is Kind.CALL]
        fields: dict[str, Any] = {"message": _join_texts(parts, Kind.TEXT)}
        if reasoning := _join_texts(parts, Kind.REASONING):
            fields["reasoning_content"] = reasoning
        if calls:
            fields["tool_calls"] = calls
        if self.usage:
            metrics = {
                "prompt_tokens": self.usage.input_tokens,
                "completion_tokens": self.usage.output_tokens,
                "cached_tokens": self.usage.cache_read_tokens,
                "cost_usd": self.usage.cost,
            }
            fields["metrics"] = {name: value for name, value in metrics.items() if value is not None}
            self.model = fields["model_name"] = self.usage.model
        if self.passes:
            fields["extra"] = {"evicted": [_describe_pass(eviction) for eviction in self.passes]}
        self._step(record, source="agent", **fields)
        self.usage = None
        self.passes = []


def _call(part: Part) -> dict[str, Any]:
    return {"tool_call_id": part.call_id or "", "function_name": part.tool or "", "arguments": _arguments(part)}


def _describe_pass(eviction: PassRecord) -> dict[str, Any]:
    return {name: getattr(eviction, name) for name in ("tokens_before", "tokens_after", "satisfied")}


def _join_texts(parts: list[Part], kind: Kind) -> str:
    return "\n\n".join(part.text for part in parts if part.kind is kind and part.text)


def _arguments(part: Part) -> Mapping[str, Any]:
    try:
        arguments = json.loads(part.arguments or "{}")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": part.arguments}
