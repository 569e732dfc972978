"""Trajectories in the Agent Trajectory Interchange Format (ATIF) of Harbor, versions 1.0 to 1.8.

The specification is `rfcs/0001-trajectory-format.md` of the harbor repository. Later versions only add fields, so one
reader takes all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.core import Kind, chars
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.lab.readers.building.builder import SessionBuilder, builders
from wane.lab.readers.building.content import Answer, Content
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import amount, count, items, mapping, objects, seconds, text, usage_of
from wane.lab.readers.documents import Value
from wane.lab.recorded_session import RecordedSession

NAME: Final = "atif"
TITLE: Final = "an ATIF trajectory"

_SOURCES: Final = ("agent", "system", "user")


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are trajectories."""
    return any(_trajectories(value) for value in head)


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the trajectories among JSON values, each as a session; see `DocumentReader`."""
    trajectories: list[Mapping[str, Any]] = []
    for _, value in values:
        trajectories += _trajectories(value)
    if not trajectories:
        raise FormatError("it holds no ATIF trajectory: an object with schema_version, agent and steps")
    numbered = zip(trajectories, builders(name, [NAME] * len(trajectories), problems), strict=True)
    return [_session(trajectory, builder) for trajectory, builder in numbered]


def _trajectories(value: object) -> list[Mapping[str, Any]]:
    """Return the trajectory that a JSON value is, or those that it lists."""
    entries = value if isinstance(value, list) else [value]
    return [mapping(entry) for entry in entries if _is_trajectory(entry)]


def _is_trajectory(value: object) -> bool:
    steps = mapping(value).get("steps")
    if not isinstance(steps, list):
        return False
    marked = text(mapping(value).get("schema_version")).upper().startswith("ATIF")
    return marked or any(mapping(step).get("source") in _SOURCES for step in steps)


def _session(trajectory: Mapping[str, Any], builder: SessionBuilder) -> RecordedSession:
    agent = mapping(trajectory.get("agent"))
    if tools := agent.get("tool_definitions"):
        builder.system_tokens = chars(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
    for number, step in enumerate(objects(trajectory.get("steps")), start=1):
        _StepReader(builder, step, number, text(agent.get("model_name")) or None).take()
    embedded = [entry for entry in items(trajectory.get("subagent_trajectories")) if isinstance(entry, dict)]
    for number, sub in enumerate(embedded, start=1):
        name = text(sub.get("trajectory_id")) or f"sub-agent {number}"
        builder.sidechain(_session(sub, SessionBuilder(name, NAME)))
    return builder.build()


class _StepReader:
    def __init__(self, builder: SessionBuilder, step: Mapping[str, Any], number: int, model: str | None) -> None:
        self._builder = builder
        self._step = step
        self._number = number
        self._model = text(step.get("model_name")) or model
        self._at = seconds(step.get("timestamp"))
        self._results = objects(mapping(step.get("observation")).get("results"))

    def take(self) -> None:
        source = self._step.get("source")
        management = mapping(mapping(self._step.get("extra")).get("context_management"))
        if management.get("boundary") == "replace":
            summary = Content.join_contents(_content(result.get("content")) for result in self._results).text
            before = count(management.get("tokens_before"))
            self._builder.compaction(summary, tokens_before=before, at=self._at)
        elif source == "agent" and self._step.get("llm_call_count") != 0:
            self._agent()
        elif source in _SOURCES:
            # A step that a program took for the agent is no model call, but a turn, like events of the system.
            self._add_turn(Kind.USER if source == "user" else Kind.SYSTEM)
        else:
            self._problem(f"the unknown source {source!r}; known: {', '.join(_SOURCES)}", "a step of no known source")

    def _add_turn(self, kind: Kind) -> None:
        calls = [Content(f"{call.tool}{call.arguments}") for call in self._calls()]
        results = [_content(result.get("content")) for result in self._results]
        turn = Content.join_contents([_content(self._step.get("message")), *calls, *results])
        system = kind is Kind.SYSTEM
        if not turn and system:
            return
        notice = not turn.extra_tokens and is_notice(turn.text, system=system)
        self._builder.message([turn.part(Kind.NOTICE, system=system) if notice else turn.part(kind)])

    def _agent(self) -> None:
        answer = Answer()
        answer.reasoning(text(self._step.get("reasoning_content")))
        answer.text(_content(self._step.get("message")))
        calls = self._calls()
        metrics = mapping(self._step.get("metrics"))
        usage = usage_of(
            metrics.get("prompt_tokens"),
            read=metrics.get("cached_tokens"),
            # The prompt tokens are all of the input; cache writes have no field of their own.
            written=mapping(metrics.get("extra")).get("cache_creation_input_tokens"),
            output=metrics.get("completion_tokens") or None,
        )
        # A sum over several calls says nothing about one.
        alone = self._step.get("llm_call_count") in (None, 1)
        self._builder.settle()
        self._builder.answer(
            [*answer.parts, *calls],
            usage=usage if alone else None,
            at=self._at,
            model=self._model,
            cost=amount(metrics.get("cost_usd")),
            # A step of an earlier trajectory, which is in the context only.
            inherited=self._step.get("is_copied_context") is True,
        )
        self._observe([call.call_id or "" for call in calls])

    def _calls(self) -> list[Part]:
        parts: list[Part] = []
        for call in objects(self._step.get("tool_calls")):
            name, arguments = text(call.get("function_name")), call.get("arguments")
            if not name:
                self._problem(f"a tool call without a name: {str(call)[:60]}", "a tool call without a name")
                continue
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments or {}, ensure_ascii=False)
            call_id = text(call.get("tool_call_id")) or f"step-{self._number}-{len(parts)}"
            parts.append(Part(Kind.CALL, call_id=call_id, tool=name, arguments=arguments))
        return parts

    def _observe(self, calls: list[str]) -> None:
        """Append the results. Those without a call answer the last calls, as with agents that show one screen."""
        named = [text(result.get("source_call_id")) for result in self._results]
        waiting = [call_id for call_id in calls if call_id not in named]
        silent = max(0, len(waiting) - named.count(""))  # calls without a result
        if self._results:
            for call_id in waiting[:silent]:
                self._builder.result(call_id, Content(""))
        answered = waiting[silent:]
        for result in self._results:
            output = _content(result.get("content"))
            call_id = text(result.get("source_call_id"))
            if not call_id and answered:
                call_id = answered.pop(0)
            if call_id:
                self._builder.result(call_id, output)
            elif output:
                # No call asked for it: such an agent reads the outcome of its action as the next user turn.
                self._builder.user(output)

    def _problem(self, what: str, kind: str) -> None:
        self._builder.problems.add(None, f"step {self._number}: {what}", kind)


def _content(content: object) -> Content:
    if content is None or isinstance(content, str):
        return Content(content or "")
    if not isinstance(content, list):
        return Content(json.dumps(content, ensure_ascii=False))
    texts: list[str] = []
    for part in content:
        words = part if isinstance(part, str) else mapping(part).get("text")
        if isinstance(words, str):
            texts.append(words)
    return Content("".join(texts), NON_TEXT_TOKENS * (len(content) - len(texts)))
