"""Calls that start sub-agents: the prompts that they pass on, and how a sub-agent's first message holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from wane.tools.calls import bare_name, fields_of

_PROMPTS: Final = {
    "agent": "prompt",  # Claude Code
    "task": "prompt",  # Claude Code before 2.1.63, OpenCode
    "invoke_agent": "prompt",  # Gemini CLI
    "spawn_agent": "message",  # Codex
    "subagent": "task",  # pi, by the extension among its examples
    "delegate": "task",
}
"""By tool, the argument with the prompt."""

_LISTS: Final = ("tasks", "chain")
"""Arguments with a list of further calls, each with the prompt of a sub-agent of its own."""

_WRAPPINGS: Final = (
    re.compile(r".*<objective>\n(.*)\n</objective>", re.DOTALL),  # Gemini CLI's codebase_investigator (0.61.0)
    re.compile(r"Task: (.*)", re.DOTALL),  # pi
)
"""How some clients wrap the prompt for the sub-agent."""


def prompts_of(tool: str, arguments: str | None) -> Iterator[str]:
    """Yield the prompts of the sub-agents that a call starts, stripped; none if it starts none."""
    argument = _PROMPTS.get(bare_name(tool))
    if argument is None:
        return
    fields = fields_of(arguments)
    calls: list[Any] = [fields]
    for name in _LISTS:
        further = fields.get(name)
        if isinstance(further, list):
            calls += further
    for call in calls:
        prompt = _text(call, argument)
        if prompt:
            yield prompt


def handed_over(text: str) -> tuple[str, ...]:
    """Return the prompts that a sub-agent's first message may hold: the text, stripped, and the text that it wraps."""
    prompts = [text.strip()]
    for wrapping in _WRAPPINGS:
        match = wrapping.fullmatch(text.strip())
        if match is not None:
            prompts.append(match[1].strip())
    return tuple(prompt for prompt in prompts if prompt)


def _text(fields: Any, name: str) -> str:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value.strip() if isinstance(value, str) else ""
